"""The table [time] of chip files: cycles of the parts of a tick, and errors."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipsim.chip.file import chip_toml
from chipsim.chip.model import Chip
from chipsim.chip.presets import PRESETS, from_fields, parse_chip
from chipsim.chip.time import MOST_CYCLES, ChipTime, time_meanings
from chipsim.errors import ChipError

CYCLES = st.floats(0, MOST_CYCLES)


def parsed(text: str, folder: Path) -> Chip:
    path = folder / "mine.toml"
    path.write_text(f"width = 4\nheight = 3\n{text}\n")
    return parse_chip(str(path))


@settings(deadline=None)  # the machine may be busy
@given(st.builds(ChipTime, *[CYCLES] * 7, st.floats(1, MOST_CYCLES), st.floats(1e-9, MOST_CYCLES)))
def test_any_times_are_read_back(time: ChipTime) -> None:
    chip = Chip("c", 4, 3, time=time)
    assert from_fields(tomllib.loads(chip_toml(chip))) == chip
    assert from_fields(chip.to_json()) == chip


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


def test_every_key_has_a_meaning() -> None:
    assert list(time_meanings()) == [field.name for field in fields(ChipTime)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
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
    ],
)
def test_bad_values_name_file_and_key(lines: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ChipError) as caught:
        parsed(f"[time]\n{lines}", tmp_path)
    text = str(caught.value)
    assert text.startswith(f"chip file {tmp_path / 'mine.toml'}: {said}"), text
    assert "\n" not in text


def test_invalid_tables(tmp_path: Path) -> None:
    with pytest.raises(ChipError, match="time is 3; give a table"):
        parsed("time = 3", tmp_path)
    with pytest.raises(ChipError, match="time is 3; give a ChipTime"):
        Chip("c", 1, 1, time=3)  # type: ignore[arg-type]
