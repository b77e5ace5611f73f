"""Chips with a single target per neuron: neurons that reach more cores need copies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.presets import parse_chip
from mapper.results.mapping_file import save_mapping
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network, synapses_of, write_network

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

CHIP = "width = {0}\nheight = {0}\nneurons = 16\ndelivery = 'core'\nsingle_target = true\n"


def slots(core: np.ndarray, network: Path) -> np.ndarray:
    """Count the neurons of every core and their copies, one by one."""
    found = np.zeros(36, np.int64)
    reached: dict[int, set[int]] = {}
    for s, t in synapses_of(network):
        reached.setdefault(s, set()).add(int(core[t]))
    for neuron, place in enumerate(core.tolist()):
        found[place] += max(1, len(reached.get(neuron, ())))
    return found


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_copies_are_neurons_of_their_core(
    folder: Path, run: Run, fails: Callable[..., str]
) -> None:
    random_network(folder / "net.bin", 60, 360)
    Path("chip.toml").write_text(CHIP.format(6))
    assert run("run", "net.bin", "--chip", "chip.toml", "-o", "out", "-q").code == 0
    with np.load("out/mapping.npz") as file:
        core = file["core"]
    used = slots(core, folder / "net.bin")
    assert used.max() <= 16
    copies = json.loads(Path("out/report.json").read_text())["metrics"]["copies"]
    assert copies == used.sum() - 60 > 60
    assert run("verify", "out", "--json").json()["copies"] == copies
    words = ("score", "net.bin", "out/mapping.npz", "--chip", "chip.toml", "--details")
    assert "copies of neurons" in run(*words).out
    core[:16] = 0  # as many neurons as the core holds, and all of their copies
    save_mapping(Path("out/mapping.npz"), core, parse_chip("chip.toml"))
    most = slots(core, folder / "net.bin")[0]
    assert most > 16
    assert f"core 0 uses {most} axons_out of 16" in fails("verify", "out")
    found = run("score", "net.bin", "out/mapping.npz", "--chip", "chip.toml")
    assert found.code != 0
    assert f"core 0 uses {most} axons_out (limit 16)" in found.err


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_neuron_with_one_target_needs_no_copy(folder: Path, run: Run) -> None:
    """A ring of 64 neurons fills four cores: each reaches one core, its own or the next."""
    write_network(folder / "ring.bin", [(n, (n + 1) % 64) for n in range(64)], 64)
    Path("chip.toml").write_text(CHIP.format(2))
    assert run("run", "ring.bin", "--chip", "chip.toml", "-o", "out", "-q").code == 0
    assert json.loads(Path("out/report.json").read_text())["metrics"]["copies"] == 0


def test_copies_that_do_not_fit(folder: Path, run: Run) -> None:
    """Neurons that reach 40 others, of which a core holds 16, need three places each."""
    edges = [(n, t) for n in range(40) for t in range(40) if n != t]
    write_network(folder / "dense.bin", edges, 40)
    Path("chip.toml").write_text(CHIP.format(2))
    found = run("check", "dense.bin", "--chip", "chip.toml")
    assert found.code == 3
    assert found.err == "does not fit: needs 120 axons_out; the chip holds 64 (56 short)\n"
