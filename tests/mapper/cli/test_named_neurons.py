"""Messages name the population of a neuron and its number there, for every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
Fails = Callable[..., str]
CHIP = ("--chip", "4x4", "--neurons-per-core", "4")
CONV = "neuron 1 of layer conv2"


@pytest.fixture
def net(folder: Path) -> Path:
    """Layers of 8 and 4 neurons, and 4 of a third; neuron 9 has a synapse from all others."""
    sources = np.array([n for n in range(16) if n != 9])
    of = np.repeat([0, 1, 2], (8, 4, 4))
    with NetworkWriter(folder / "net.bin", 16) as writer:
        writer.add(sources, np.full(15, 9), np.full(15, 100))
        writer.set_attribute("layer", of, ["input", "conv2", "layer three"])
        writer.finish()
    return folder / "net.bin"


def test_neurons_that_exceed_a_core(net: Path, fails: Fails, run: Run) -> None:
    for limit, name in (("--synapses-per-core", "synapses"), ("--axons-per-core", "axons_in")):
        for command in ("run", "check"):
            found = run(command, net, *CHIP, limit, "6")
            assert found.code == 3
            assert f"{CONV} needs 15 {name}; a core holds 6 (9 short)" in found.err
    said = fails("run", net, *CHIP, "--synapses-per-core", "3", "--split-neurons", code=3)
    assert f"{CONV} has 15 synapses, a core holds 3: relay neurons can take at most 9" in said


def test_sizes(folder: Path, fails: Fails) -> None:
    with NetworkWriter(folder / "sizes.bin", 5) as writer:
        writer.add(np.array([0, 1]), np.array([1, 2]))
        writer.set_attribute("population", np.array([1, 0, 1, 1, 0]), ["E", "I"])
        writer.set_attribute("size", np.array([1, 1, 1, 9, 7]))
        writer.finish()
    said = fails("run", "sizes.bin", *CHIP, code=3)
    assert "neuron 2 of population I needs 9 neurons; a core holds 4 (5 short)" in said
    assert "; 1 more neuron does not fit either" in said


def test_constraints(net: Path, fails: Fails, run: Run) -> None:
    pins = "[[pin]]\nneurons = [9]\ncore = 1\n[[pin]]\nneurons = [9]\ncore = 2\n"
    Path("c.toml").write_text(pins)
    said = fails("run", net, *CHIP, "--constraints", "c.toml")
    assert f"pin 2: {CONV} is pinned to core 2, but other constraints pin it to core 1" in said
    Path("c.toml").write_text('[[pin]]\npopulation = "conv2"\ncore = 3\n')
    assert run("run", net, *CHIP, "--constraints", "c.toml", "-o", "out").code == 0
    assert run("verify", "out").code == 0
    Path("out/constraints.toml").write_text("[[pin]]\nneurons = [9]\ncore = 2\n")
    assert f"pin 1: {CONV} is on core 3, not on 2" in fails("verify", "out")
    tight = "[[pin]]\nneurons = [0]\ncore = 2\n"
    Path("c.toml").write_text(tight)
    said = fails("run", net, *CHIP, "--synapses-per-core", "6", "--constraints", "c.toml", code=3)
    assert f"{CONV} needs 15 synapses; a core holds 6 (9 short)" in said


def test_mappings(net: Path, fails: Fails) -> None:
    core = np.zeros(16, int)
    core[9] = 77
    Path("theirs.csv").write_text("\n".join(map(str, core)))
    assert f"{CONV} is on core 77" in fails("score", net, "theirs.csv", *CHIP)


def test_exports(net: Path, fails: Fails, run: Run) -> None:
    assert run("run", net, *CHIP, "-o", "out").code == 0
    said = fails("export", "out", "x.tables.json", "--threshold", "2", "--sum-bits", "8")
    assert f"weights on {CONV} add up to 1500 at worst" in said
