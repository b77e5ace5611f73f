"""C16: the table [npu] of chip files: presets, all parameters, and errors."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipsim.chip.file import chip_toml
from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape, npu_meanings
from chipsim.chip.presets import PRESETS, from_fields, parse_chip
from chipsim.errors import ChipError

CUSTOM = NpuShape("mine", 8, 8, "dual", multiply_lanes=2, load_bits=128, binary=False)
ALL = "\n".join(
    f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
    for key, value in asdict(CUSTOM).items()
)


def parsed(text: str, folder: Path) -> Chip:
    path = folder / "mine.toml"
    path.write_text(f"width = 4\nheight = 3\n{text}\n")
    return parse_chip(str(path))


@pytest.mark.parametrize("npu", [*NPU_SHAPES.values(), CUSTOM], ids=lambda npu: npu.name)
def test_a_printed_npu_is_read_back(npu: NpuShape, tmp_path: Path) -> None:
    chip = Chip("c", 4, 3, npu=npu)
    path = tmp_path / "c.toml"
    path.write_text(chip_toml(chip))
    assert parse_chip(str(path)) == chip
    assert from_fields(chip.to_json()) == chip


@given(st.builds(
    replace, st.sampled_from(list(NPU_SHAPES.values())), name=st.text("a\"\\\x7fé", min_size=1),
    map_vectors=st.integers(0, 1 << 16), queue_places=st.integers(1, 64), binary=st.booleans(),
    weight_port=st.sampled_from(["word", "row"]),
))  # fmt: skip
def test_any_npu_is_read_back(npu: NpuShape) -> None:
    chip = Chip("c", 1, 1, npu=npu)
    assert from_fields(tomllib.loads(chip_toml(chip))) == chip


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


def test_every_parameter_has_a_meaning() -> None:
    assert list(npu_meanings()) == [field.name for field in fields(NpuShape)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
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
    ],
)  # fmt: skip
def test_bad_values_name_file_and_key(lines: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ChipError) as caught:
        parsed(f"[npu]\n{lines}", tmp_path)
    text = str(caught.value)
    assert text.startswith(f"chip file {tmp_path / 'mine.toml'}: {said}"), text
    assert "\n" not in text


def test_invalid_tables(tmp_path: Path) -> None:
    with pytest.raises(ChipError, match="npu is 'npu'; give a table"):
        parsed('npu = "npu"', tmp_path)
    with pytest.raises(ChipError, match="npu is 'npu'; give an NpuShape"):
        Chip("c", 1, 1, npu="npu")  # type: ignore[arg-type]
