"""Tables [host] (N10.5), [npu] (C16) and [time] of chip files: values, presets, errors."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipsim.chip.file import chip_toml
from chipsim.chip.host import LEAST_FLITS, MOST_LATENCY, ChipHost
from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.chip.presets import PRESETS, from_fields, parse_chip
from chipsim.chip.tables import meanings
from chipsim.chip.time import MOST_CYCLES, ChipTime
from chipsim.errors import ChipError
from chipsim.npu.arrivals import HostLink

FAULTY = "unavailable = [0, [1, 0]]"
CUSTOM = NpuShape("mine", 8, 8, "dual", multiply_lanes=2, load_bits=128, binary=False)
ALL = "\n".join(
    f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
    for key, value in asdict(CUSTOM).items()
)
CYCLES = st.floats(0, MOST_CYCLES)
HOSTS = st.builds(
    ChipHost, st.lists(st.integers(0, 11), unique=True).map(tuple), st.integers(1, MOST_LATENCY),
    st.floats(LEAST_FLITS, 1),
)  # fmt: skip
NPUS = st.builds(
    replace, st.sampled_from(list(NPU_SHAPES.values())), name=st.text("a\"\\\x7fé", min_size=1),
    map_vectors=st.integers(0, 1 << 16), queue_places=st.integers(1, 64), binary=st.booleans(),
    weight_port=st.sampled_from(["word", "row"]),
)  # fmt: skip
TIMES = st.builds(ChipTime, *[CYCLES] * 7, st.floats(1, MOST_CYCLES), st.floats(1e-9, MOST_CYCLES))


def parsed(text: str, folder: Path) -> Chip:
    path = folder / "mine.toml"
    path.write_text(f"width = 4\nheight = 3\n{text}\n")
    return parse_chip(str(path))


@pytest.mark.parametrize(("name", "tables"), [("host", HOSTS), ("npu", NPUS), ("time", TIMES)])
@given(data=st.data())
def test_any_table_is_read_back(
    name: str, tables: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    chip = Chip("c", 4, 3, **{name: data.draw(tables)})
    assert from_fields(tomllib.loads(chip_toml(chip))) == chip
    assert from_fields(chip.to_json()) == chip


@pytest.mark.parametrize("kind", [ChipHost, NpuShape, ChipTime])
def test_every_key_has_a_meaning(kind: Any) -> None:
    assert list(meanings(kind)) == [field.name for field in fields(kind)]


def test_ports_are_ids_or_pairs(tmp_path: Path) -> None:
    """In the order of the file: of equally near ports, the first is used."""
    chip = parsed("[host]\nports = [[3, 2], 4, [1, 0]]\nlatency = 50\nflits = 1", tmp_path)
    assert chip.host == ChipHost((11, 4, 1), 50, 1.0)
    assert chip.host_ports == (11, 4, 1)
    assert HostLink.of(chip.host) == HostLink(50, 1.0)
    plain = Chip("c", 4, 3, host=ChipHost(tuple(np.array([3])), np.int64(4), np.float32(0.5)))  # type: ignore[arg-type]
    assert plain == Chip("c", 4, 3, host=ChipHost((3,), 4, 0.5))
    assert type(plain.to_json()["host"]["ports"][0]) is int


def test_chips_without_host_table(tmp_path: Path) -> None:
    """One port, at the first usable core; the written defaults can be uncommented."""
    assert parse_chip("4x3").host_ports == (0,)
    assert parsed(FAULTY, tmp_path).host_ports == (2,)
    assert parsed(f"{FAULTY}\n[host]\nlatency = 1", tmp_path).host_ports == (2,)
    assert [chip.host for chip in PRESETS.values()] == [None] * len(PRESETS)
    assert "host" not in parse_chip("4x3").to_json()
    assert HostLink.of(None) == HostLink() == HostLink(32, 1.0)
    text = chip_toml(parsed(FAULTY, tmp_path)).partition("\n# [[core_limits]]")[0]
    head, table = text.split("# [host]")
    lines = [line.removeprefix("# ") for line in f"[host]{table}".splitlines()]
    found = from_fields(tomllib.loads(head + "\n".join(lines)))
    assert found.host == ChipHost((2,), 32, 1.0)


@pytest.mark.parametrize("npu", [*NPU_SHAPES.values(), CUSTOM], ids=lambda npu: npu.name)
def test_a_printed_npu_is_read_back(npu: NpuShape, tmp_path: Path) -> None:
    chip = Chip("c", 4, 3, npu=npu)
    path = tmp_path / "c.toml"
    path.write_text(chip_toml(chip))
    assert parse_chip(str(path)) == chip
    assert from_fields(chip.to_json()) == chip


def test_parameters_of_a_preset_can_be_uncommented(tmp_path: Path) -> None:
    text = chip_toml(parse_chip("4x4"))
    head, rest = text.split("[npu]\n")
    table, behind = rest.split("\n\n", 1)
    lines = [line.removeprefix("# ") for line in table.splitlines()]
    changed = "\n".join(lines).replace("weight_words = 512 ", "weight_words = 640 ")
    path = tmp_path / "c.toml"
    path.write_text(f"{head}[npu]\n{changed}\n\n{behind}")
    assert parse_chip(str(path)).npu == NpuShape("4x4", weight_words=640)


def test_preset_with_overrides(tmp_path: Path) -> None:
    """N2.1: programs name their shape, so a preset with overrides has its own name."""
    assert parsed('[npu]\npreset = "npu-dual"', tmp_path).npu == NPU_SHAPES["npu-dual"]
    same = parsed('[npu]\npreset = "npu-dual"\nrows = 16', tmp_path).npu
    assert same == NPU_SHAPES["npu-dual"]
    found = parsed('[npu]\npreset = "npu-dual"\nweight_words = 600', tmp_path).npu
    assert found == replace(NPU_SHAPES["npu-dual"], name="mine", weight_words=600)
    named = parsed('[npu]\npreset = "tiny"\nname = "small"', tmp_path).npu
    assert named == replace(NPU_SHAPES["tiny"], name="small")
    assert parsed(f"[npu]\n{ALL}", tmp_path).npu == CUSTOM


def test_chips_with_an_npu(tmp_path: Path) -> None:
    assert parse_chip("4x4").npu == NPU_SHAPES["npu"]
    assert [chip.npu for chip in PRESETS.values()] == [None] * len(PRESETS)
    plain = parsed("", tmp_path)
    assert plain.npu is None
    assert "npu" not in plain.to_json()
    assert "npu" not in PRESETS["loihi"].to_json()
    assert parse_chip("4x4").to_json()["npu"] == {"preset": "npu"}


def test_missing_times_default_to_the_hardware(tmp_path: Path) -> None:
    chip = parsed("[time]\nevent = 2\nlink = 0.5", tmp_path)
    assert chip.time == ChipTime(event=2.0, link=0.5)
    assert parsed("[time]", tmp_path).time == ChipTime() == parse_chip("4x3").time
    assert type(Chip("c", 1, 1, time=ChipTime(np.float64(2))).to_json()["time"]["neuron"]) is float


def test_chips_without_published_cycles(tmp_path: Path) -> None:
    """They have none; the written defaults can be uncommented."""
    assert [chip.time for chip in PRESETS.values()] == [None] * len(PRESETS)
    assert "time" not in parsed("", tmp_path).to_json()
    head, rest = chip_toml(parsed("", tmp_path)).split("# [time]")
    table = rest.split("\n\n")[0]
    lines = [line.removeprefix("# ") for line in f"[time]{table}".splitlines()]
    assert from_fields(tomllib.loads(head + "\n".join(lines))).time == ChipTime()


HOST_ERRORS = [
        ("port = [0]", "host: unknown key 'port'; did you mean 'ports'? known keys are ports"),
        ("ports = []", "host: ports is []; give one or more"),
        ("ports = 3", "host: ports is 3; give a list of core ids or [x, y] pairs"),
        ("ports = [[0]]", "host: ports holds [0]; give a core id or an [x, y] pair"),
        ("ports = [true]", "host: ports holds True; give a core id or an [x, y] pair"),
        ("ports = [{x = 1}]", "host: ports holds {'x': 1}; give a core id"),
        ("ports = [[4, 0]]", "host: port [4, 0] is outside the 4x3 mesh"),
        ("ports = [2, 12]", "chip mine: host: port 12 is outside the 4x3 mesh; core ids run from 0"
         " to 11"),
        ("ports = [-1]", "chip mine: host: port -1 is outside the 4x3 mesh"),
        ("ports = [5, [1, 1]]", "host: port 5 is listed twice"),
        ("ports = [[1, 0]]", "chip mine: host: port [1, 0] is at an unavailable core"),
        ("latency = 0", "host: latency is 0; give a whole number of cycles from 1 to 65536"),
        ("latency = 65537", "host: latency is 65537; give"),
        ("latency = 3.0", "host: latency is 3.0; give"),
        ("latency = true", "host: latency is True; give"),
        ("flits = 0", "host: flits is 0; give flits per cycle from 0.001 to 1"),
        ("flits = 1.5", "host: flits is 1.5; give"),
        ("flits = nan", "host: flits is nan; give"),
        ('flits = "1"', "host: flits is '1'; give"),
        ("flits = true", "host: flits is True; give"),
]  # fmt: skip
NPU_ERRORS = [
        ('preset = "npu"\nrow = 4', "npu: unknown key 'row'; did you mean 'rows'?"),
        ('preset = "big"', "npu: preset is 'big'; give one of npu, npu-dual, ref32, tiny"),
        ("preset = 3", "npu: preset is 3; give one of"),
        ("rows = 16", "npu: key 'columns' is missing; add it, or a preset"),
        (ALL.replace("rows = 8", "rows = 0"), "npu mine: rows is 0; give a whole number from 1"),
        *((f'preset = "npu"\n{line}', f"npu mine: {said}") for line, said in (
            ("rows = 8.0", "rows is 8.0; give a whole number from 1 to 64"),
            ("columns = 65", "columns is 65; give a whole number from 1 to 64"),
            ('multiplier = "int4"', "multiplier is 'int4'; give one of int8, dual"),
            ("binary = 1", "binary is 1; give true or false"),
            ("multiply_lanes = 0", "multiply_lanes is 0; give"),
            ("multiply_lanes = 17", "multiply_lanes is 17; the array has 16 rows"),
            ("weight_port = true", "weight_port is True; give one of word, row"),
            ("map_vectors = -1", "map_vectors is -1; give a whole number from 0 to 65536"),
            ("input_vectors = 4097", "input_vectors is 4097; give a whole number from 2 to 4096"),
            ("weight_words = 1", "weight_words is 1; give"),
            ("entries = true", "entries is True; give a whole number from 2 to 4096"),
            ("parameter_words = 1025", "parameter_words is 1025; give"),
            ("micro_ops = 1025", "micro_ops is 1025; give"),
            ('instructions = "9"', "instructions is '9'; give a whole number from 0 to 65536"),
            ("headers = 1025", "headers is 1025; give a whole number from 0 to 1024"),
            ("load_bits = 4097", "load_bits is 4097; give a whole number from 8 to 4096"),
            ("load_bits = 192", "load_bits is 192; give a multiple of 128, the bits of a vector"),
            ("filters = 65", "filters is 65; give a whole number from 0 to 64"),
            ("queue_places = 0", "queue_places is 0; give a whole number from 1 to 64"),
            ("token_bits = 17", "token_bits is 17; give a whole number from 1 to 16"),
            ("payload_bits = 4", "payload_bits is 4; give a whole number from 8 to 512"),
            ("loop_overhead = nan", "loop_overhead is nan; give a whole number from 0 to 16"),
        )),
        ('preset = "npu"\nname = ""', "npu: name is ''; give a non-empty text"),
]  # fmt: skip
TIME_ERRORS = [
    (
        "events = 1",
        "time: unknown key 'events'; did you mean 'event'? known keys are neuron, event",
    ),
    ("event = -1", "time: event is -1; give cycles, a number from 0 to 1e9"),
    ("hop = nan", "time: hop is nan; give"),
    ("link = 1e10", "time: link is 10000000000.0; give"),
    ("spike = true", "time: spike is True; give"),
    ("tick = 0", "time: tick is 0; give the duration of a tick"),
    ('neuron = "1"', "time: neuron is '1'; give"),
    (
        "\n".join(f"{field.name} = 0" for field in fields(ChipTime)[:-1]),
        "time: all values are 0 cycles",
    ),
]


@pytest.mark.parametrize(
    ("table", "lines", "said"),
    [
        *((f"{FAULTY}\n[host]", *case) for case in HOST_ERRORS),
        *(("[npu]", *case) for case in NPU_ERRORS),
        *(("[time]", *case) for case in TIME_ERRORS),
    ],
)
def test_bad_values_name_file_and_key(table: str, lines: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ChipError) as caught:
        parsed(f"{table}\n{lines}", tmp_path)
    text = str(caught.value)
    assert text.startswith(f"chip file {tmp_path / 'mine.toml'}: {said}"), text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("name", "value", "asked"),
    [("host", "here", "a ChipHost"), ("npu", "npu", "an NpuShape"), ("time", 3, "a ChipTime")],
)
def test_invalid_tables(name: str, value: Any, asked: str, tmp_path: Path) -> None:
    with pytest.raises(ChipError, match=f"{name} is {value!r}; give a table"):
        parsed(f"{name} = {value!r}", tmp_path)
    with pytest.raises(ChipError, match=f"{name} is {value!r}; give {asked}"):
        Chip("c", 1, 1, **{name: value})
