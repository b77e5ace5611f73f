"""N10.5: the table [host] of chip files: ports, the weight memory, and errors."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipsim.chip.file import chip_toml
from chipsim.chip.host import LEAST_FLITS, MOST_LATENCY, ChipHost, host_meanings
from chipsim.chip.model import Chip
from chipsim.chip.presets import PRESETS, from_fields, parse_chip
from chipsim.errors import ChipError
from chipsim.npu.arrivals import HostLink

FAULTY = "unavailable = [0, [1, 0]]"


def parsed(text: str, folder: Path) -> Chip:
    path = folder / "mine.toml"
    path.write_text(f"width = 4\nheight = 3\n{text}\n")
    return parse_chip(str(path))


@settings(deadline=None)  # the machine may be busy
@given(st.builds(
    ChipHost, st.lists(st.integers(0, 11), unique=True).map(tuple), st.integers(1, MOST_LATENCY),
    st.floats(LEAST_FLITS, 1),
))  # fmt: skip
def test_any_host_is_read_back(host: ChipHost) -> None:
    chip = Chip("c", 4, 3, host=host)
    assert from_fields(tomllib.loads(chip_toml(chip))) == chip
    assert from_fields(chip.to_json()) == chip


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
    head, table = chip_toml(parsed(FAULTY, tmp_path)).split("# [host]")
    lines = [line.removeprefix("# ") for line in f"[host]{table}".splitlines()]
    found = from_fields(tomllib.loads(head + "\n".join(lines)))
    assert found.host == ChipHost((2,), 32, 1.0)


def test_every_key_has_a_meaning() -> None:
    assert list(host_meanings()) == [field.name for field in fields(ChipHost)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
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
    ],
)  # fmt: skip
def test_bad_values_name_file_and_key(lines: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ChipError) as caught:
        parsed(f"{FAULTY}\n[host]\n{lines}", tmp_path)
    text = str(caught.value)
    assert text.startswith(f"chip file {tmp_path / 'mine.toml'}: {said}"), text
    assert "\n" not in text


def test_invalid_tables(tmp_path: Path) -> None:
    with pytest.raises(ChipError, match="host is 'here'; give a table"):
        parsed('host = "here"', tmp_path)
    with pytest.raises(ChipError, match="host is 'here'; give a ChipHost"):
        Chip("c", 1, 1, host="here")  # type: ignore[arg-type]
