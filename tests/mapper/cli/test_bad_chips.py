"""Faulty chip files: every command fails with one line and exit code 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

FAULTS = {
    "an unknown delivery": ('delivery = "unicast"', "delivery is 'unicast'; give synapse, core or"),
    "columns that fall": (
        "columns = [0, 1, 3, 2, 4, 5]", "columns: coordinates decrease from 3 to 2 at 3; sort them",
    ),
    "rows that fall": ("rows = [0, 1, 2, -1]", "rows: coordinates decrease from 2 to -1 at 3"),
    "steps below zero": ("link_cost = -2", "link_cost is -2; give a number, 0 or more: coordinate"),
    "chips that do not tile": (
        "[chip]\nwidth = 4\nheight = 4",
        "chips of 4x4 cores do not tile the 6x4 machine; give sides that divide the machine's",
    ),
    "boards that do not tile": (
        "[board]\nwidth = 3\nheight = 3", "boards of 3x3 cores do not tile the 6x4 machine; give",
    ),
    "tiles that do not tile chips": (
        "[tile]\nwidth = 2\nheight = 2\n[chip]\nwidth = 3\nheight = 4",
        "chip: width 3 is not a multiple of the 2 of a tile",
    ),
    "bits without weights": (
        "memory_bits = 1000",
        "memory_bits requires weight_bits, the precision of weights; add it",
    ),
    "weights without bits": ("weight_bits = 8", "weight_bits is 8, but memory_bits is missing"),
    "lists without number": (
        "memory_bits = 99\nweight_bits = 8\naxon_bits = 2", "axon_bits requires axons_in",
    ),
    "neurons without bits": ("neuron_bits = 8", "neuron_bits is 8, but memory_bits is missing"),
    "neurons that fill the memory": (
        "memory_bits = 99\nweight_bits = 8\nneuron_bits = 92",
        "memory_bits is 99, less than one synapse (8), one neuron (92) and the lists",
    ),
    "sharing of nothing": (
        'sharing = "offset"', "sharing is offset, but cores hold any number of synapses; add",
    ),
    "energies of an unknown unit": ('energy_unit = "J"', "energy_unit is 'J'; give relative or pJ"),
    "no energy": ("[energy]", "energy: the table is empty; give one or more of event, neuron"),
    "sources of nothing": ("[sources]\nneuron = 'x'", "sources: 'neuron' is not a key with"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_gives_one_line(name: str, folder: Path, fails: Callable[..., str]) -> None:
    text, said = FAULTS[name]
    random_network(folder / "net.bin", 9, 30)
    (folder / "bad.toml").write_text(f"width = 6\nheight = 4\n{text}\n")
    for command in (
        ("run", "net.bin", "--chip", "bad.toml", "-o", "out"),
        ("check", "net.bin", "--chip", "bad.toml"),
        ("chips", "show", "bad.toml"),
    ):
        message = fails(*command, code=1)
        assert message.startswith("chip file bad.toml: ")
        assert said in message
        assert "\n" not in message.strip()
    assert not (folder / "out").exists()


def test_architectures_of_sanafe(folder: Path, run: Run, fails: Callable[..., str]) -> None:
    """Ignored parts of an architecture are noted on stderr; a faulty file is bad input."""
    yaml = pytest.importorskip("yaml")
    from tests.chipsim.test_sanafe_architectures import architecture

    random_network(folder / "net.bin", 9, 30)
    Path("a.yaml").write_text(yaml.safe_dump(architecture()))
    note = "note: a.yaml: left out: 2 pJ of conditional neuron updates"
    found = run("check", "net.bin", "--chip", "a.yaml")
    assert (found.code, note in found.err) == (0, True)
    shown = run("chips", "show", "a.yaml")
    assert note in shown.err
    Path("mine.toml").write_text(shown.out)
    assert run("chips", "show", "mine.toml").err == ""
    assert run("check", "net.bin", "--chip", "a.yaml", "-q").err == ""
    Path("a.yaml").write_text("architecture: 3")
    said = fails("check", "net.bin", "--chip", "a.yaml", code=1)
    assert said.startswith("chip file a.yaml: the file: section 'architecture' is missing")
