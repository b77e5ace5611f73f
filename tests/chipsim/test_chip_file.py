"""Chips as TOML files: what is printed is read back, and every number says where it is from."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipsim.chip.file import chip_toml
from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip, meanings
from chipsim.chip.presets import PRESETS, from_fields, parse_chip
from chipsim.chip.sources import ABOUT, SOURCES, source_of, unit_of
from chipsim.errors import ChipError

MACHINE = Machine(
    8, 4, "xy", (3.0, 4.0), Block(2, 1, 0.5), Block(4, 2, 10.0, 0.25), Block(4, 4, 40.0)
)
CHIPS = [
    *PRESETS.values(),
    parse_chip("3x5"),
    Chip("faults", 9, 7, unavailable=tuple(range(1, 40)), synapses=5, axons_in=6, axons_out=7),
    Chip("machine", 8, 4, machine=MACHINE),
    Chip("given", 3, 2, machine=Machine(3, 2, columns=(0, 0, 2.5), rows=(-1, 7))),
    Chip("small", 1, 1, energy_router=1e-300, energy_link=1e300, latency_link=0.1 + 0.2),
]


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_a_printed_chip_is_read_back(chip: Chip, tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(chip_toml(chip), encoding="utf-8")
    assert parse_chip(str(path)) == chip


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_is_read_back(name: str) -> None:
    chip = Chip(name, 2, 2)
    assert from_fields(tomllib.loads(chip_toml(chip))) == chip


def test_the_tables_are_complete() -> None:
    assert list(meanings()) == [
        "name", "width", "height", "neurons", "synapses", "axons_in", "axons_out", "unavailable",
        "delivery", "energy_router", "energy_link", "latency_router", "latency_link", "npu", "host",
        "time", "machine",
    ]  # fmt: skip
    assert set(meanings()) == {field.name for field in fields(Chip)}
    assert set(ABOUT) == set(SOURCES) == set(PRESETS)
    for name, chip in PRESETS.items():
        stated = {field for field in meanings() if getattr(chip, field) not in (None, ())}
        # One packet per synapse is what chips of no particular kind send.
        unsaid = {"name"} | ({"delivery"} if chip.delivery == "synapse" else set())
        assert set(SOURCES[name]) == stated - unsaid


def test_comments_tell_unit_and_source() -> None:
    text = " ".join(chip_toml(PRESETS["loihi"]).replace("\n# ", " ").split())
    assert "energy of a spike on a link between routers, pJ (Davies et al." in text
    assert "\naxons_out = 4096\n" in chip_toml(PRESETS["loihi"])
    assert "\n# axons_out = ...  # no limit\n" in chip_toml(PRESETS["mesh84"])
    assert "relative units (this tool's model" in chip_toml(PRESETS["mesh84"])


def test_a_changed_number_has_lost_its_source() -> None:
    changed = replace(PRESETS["loihi"], energy_link=9.0)
    assert source_of(changed, "energy_link", PRESETS) == ""
    assert "Davies" in source_of(changed, "energy_router", PRESETS)
    assert source_of(parse_chip("2x2"), "width", PRESETS) == ""
    assert unit_of("loihi", "latency_link") == "ns"
    assert unit_of("anything", "latency_link") == "relative units"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("neuron = 4", "unknown key 'neuron'; did you mean 'neurons'"),
        ("[limits]\nneurons = 4", "unknown key 'limits'; known are"),
        ("neurons = -1", "neurons is -1; give a whole number"),
        ("neurons = 4.0", r"neurons is 4\.0; give a whole number"),
        ("axons_in = true", "axons_in is True; give a whole number"),
        ("synapses = 9999999999999999999999", r"synapses is beyond 2\^62"),
        ("energy_link = nan", "energy_link is nan; give a finite number"),
        ('latency_link = "1"', "latency_link is '1'; give a finite number"),
        ("unavailable = [16]", "unavailable core 16 is outside the 4x4 mesh"),
        ("unavailable = [[0, 4]]", r"unavailable core \[0, 4\] is outside"),
    ],
)
def test_faults_are_named_with_file_and_key(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"width = 4\nheight = 4\n{line}\n")
    with pytest.raises(ChipError, match=message) as caught:
        parse_chip(str(path))
    assert str(caught.value).startswith(f"chip file {path}: ")
    assert "\n" not in str(caught.value)
