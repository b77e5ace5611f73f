"""Chips as TOML files: written files are read back, and every number has a source."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.file import chip_toml, unit_of
from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from chipsim.chip.presets import NAMES, PRESETS, from_fields, parse_chip
from chipsim.chip.provenance import numbers, sources_of
from chipsim.chip.tables import meanings
from chipsim.errors import ChipError

MACHINE = Machine(
    8, 4, "xy", (3.0, 4.0), Block(2, 1, 0.5), Block(4, 2, 10.0, 0.25), Block(4, 4, 40.0)
)
CHIPS = [
    *PRESETS.values(),
    parse_chip("3x5"),
    Chip("faults", 9, 7, unavailable=tuple(range(1, 40)), synapses=5, axons_in=6, axons_out=7),
    Chip(
        "broken", 9, 7, broken_links=tuple((k, k + 1) for k in range(20, 25)), broken_routers=(5,)
    ),
    Chip("machine", 8, 4, machine=MACHINE),
    Chip("given", 3, 2, machine=Machine(3, 2, columns=(0, 0, 2.5), rows=(-1, 7))),
    Chip("bits", 2, 1, axons_in=9, memory_bits=999, weight_bits=4, index_bits=3, axon_bits=2),
    Chip("shared", 2, 1, 9, sharing="offset", memory_bits=999, weight_bits=4, neuron_bits=7),
    Chip("spends", 2, 1, energy=ChipEnergy(event=2.5, packet_in=0.0, unit="relative")),
    Chip("copies", 2, 1, delivery="core", single_target=True),
    Chip("small", 1, 1, energy_router=1e-300, energy_link=1e300, latency_link=0.1 + 0.2),
]


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_a_printed_chip_is_read_back(chip: Chip, tmp_path: Path) -> None:
    path = tmp_path / "other.toml"
    path.write_text(chip_toml(chip), encoding="utf-8")
    again = parse_chip(str(path))
    assert again == chip
    assert again.origin == chip.origin
    assert chip_toml(again) == path.read_text(encoding="utf-8")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_is_read_back(name: str) -> None:
    chip = Chip(name, 2, 2)
    assert from_fields(tomllib.loads(chip_toml(chip))) == chip


def test_the_tables_are_complete() -> None:
    assert list(meanings(Chip)) == [
        "name", "width", "height", "neurons", "synapses", "axons_in", "axons_out",
        "sharing", "memory_bits", "weight_bits", "index_bits", "axon_bits", "neuron_bits",
        "unavailable", "broken_links", "broken_routers", "delivery", "single_target",
        "energy_router", "energy_link", "energy_unit", "latency_router", "latency_link",
        "latency_unit", "npu", "host", "time", "energy", "machine", "core_limits", "origin",
    ]  # fmt: skip
    assert set(meanings(Chip)) == {field.name for field in fields(Chip)}


@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_a_named_chip_has_a_source(name: str) -> None:
    """Exactly the numbers that differ from the defaults of this tool have sources."""
    chip = PRESETS[name]
    assert chip.name == name
    assert chip.origin is not None
    assert chip.origin.about
    stated, plain = chip.to_json(), Chip(name, chip.width, chip.height).to_json()
    mine = {
        key
        for key, value in numbers(stated).items()
        if value != plain.get(key) and (key, value) not in (("tile.cost", 0.0),)
    }
    mine -= {key for key in mine if key.endswith(".bandwidth") and numbers(stated)[key] == 1}
    found = sources_of(chip.origin, stated)
    assert set(found) - set(plain) <= mine
    assert mine | {"width", "height"} <= set(found)
    for text in found.values():
        # A paper with authors and year, a manufacturer's publication, or a choice of this tool.
        assert re.search(r"(et al\.|Intel|Research), .*20\d\d|this tool's model", text), text


def test_comments_give_unit_and_source() -> None:
    text = " ".join(chip_toml(PRESETS["loihi"]).replace("\n# ", " ").split())
    assert "or [east-west, north-south], pJ energy_link" in text
    assert 'energy_link = "Davies et al., IEEE Micro' in text
    assert "\naxons_out = 4096\n" in chip_toml(PRESETS["loihi"])
    assert "\n# axons_out = ...  # no limit\n" in chip_toml(PRESETS["mesh84"])
    assert "energy per spike in a router, relative units" in chip_toml(PRESETS["mesh84"])


def test_a_changed_number_has_lost_its_source() -> None:
    changed = replace(PRESETS["loihi"], energy_link=9.0)
    found = sources_of(changed.origin, changed.to_json())
    assert "energy_link" not in found
    assert "Davies" in found["energy_router"]
    assert "SANA-FE" in found["tile.width"]
    assert sources_of(parse_chip("2x2").origin, {"width": 2}) == {}
    assert unit_of(changed, "latency_link") == "ns"
    assert unit_of(parse_chip("2x2"), "latency_link") == "relative units"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("neuron = 4", "unknown key 'neuron'; did you mean 'neurons'"),
        ("[limits]\nneurons = 4", "unknown key 'limits'; did you mean 'core_limits'"),
        ("neurons = -1", "neurons is -1; give a whole number"),
        ("neurons = 4.0", r"neurons is 4\.0; give a whole number"),
        ("axons_in = true", "axons_in is True; give a whole number"),
        ("synapses = 9999999999999999999999", r"synapses is beyond 2\^62"),
        ("energy_link = nan", "energy_link is nan; give a finite number"),
        ('latency_link = "1"', "latency_link is '1'; give a finite number"),
        ("energy = 3", r"energy is 3; give a table \[energy\]"),
        ("[energy]", "energy: the table is empty; give one or more of event, neuron, packet_out"),
        ("[energy]\nevent = -1", "energy: event is -1; give a finite number, 0 or more"),
        ("[energy]\nneuron = inf", "energy: neuron is inf; give a finite number"),
        ("[energy]\nevent = 1\nunit = 'nJ'", 'energy: unit is \'nJ\'; give "pJ" or "relative"'),
        ("[energy]\nevents = 1", "energy: unknown key 'events'; did you mean 'event'"),
        ('energy_unit = "nJ"', "energy_unit is 'nJ'; give relative or pJ"),
        ("about = 3", "about is '3'; give a text"),
        ('notes = "text"', "notes is 'text'; give a list of texts"),
        ("notes = [1]", "notes: a note is '1'; give a text"),
        ("sources = 3", r"sources is 3; give a table \[sources\]"),
        (
            "[sources]\nneuron = 'x'",
            "'neuron' is not a key with a value in this file; did you mean",
        ),
        ("[sources]\nneurons = 3", "sources: neurons is '3'; give a text"),
        ("[sources]\ntile.width = 'x'", "sources: 'tile.width' is not a key with a value"),
        ("unavailable = [16]", "unavailable core 16 is outside the 4x4 mesh"),
        ("unavailable = [[0, 4]]", r"unavailable core \[0, 4\] is outside"),
        ("broken_links = 3", r"broken_links is 3; give a list of pairs of cores, such as \[\[\["),
        ("broken_links = [3]", r"broken_links holds 3; give pairs of adjacent cores, such as \[\["),
        ("broken_links = [[1, 2], [2, 2]]", r"broken link: cores \[2, 0\] and \[2, 0\] share"),
        ("broken_links = [[[0, 0], [1, 1]]]", r"\[0, 0\] and \[1, 1\] are not adjacent; give two"),
        ("broken_links = [[[3, 0], [4, 0]]]", r"core of a broken link \[4, 0\] is outside"),
        ("broken_links = [['a', 1]]", "core of a broken link 'a' is outside"),
        ("broken_links = [[[1], 1]]", r"broken_links holds \[1\]; give a core id or an \[x, y\]"),
        ("broken_routers = [[0, 4]]", r"core of a broken router \[0, 4\] is outside"),
        ("broken_routers = [1, 4]", r"separate core \[0, 0\] from core \[2, 0\]; make the"),
    ],
)
def test_faults_are_named_with_file_and_key(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"width = 4\nheight = 4\n{line}\n")
    with pytest.raises(ChipError, match=message) as caught:
        parse_chip(str(path))
    assert str(caught.value).startswith(f"chip file {path}: ")
    assert "\n" not in str(caught.value)
