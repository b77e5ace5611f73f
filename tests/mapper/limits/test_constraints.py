"""Pinned neurons and neurons kept together: faulty files, items, whole runs, verification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.errors import MapperError
from mapper.limits.axons import make_job
from mapper.limits.constraints import Constraint, broken, combine
from mapper.limits.pins import pinned_cells
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network, write_network

pytestmark = pytest.mark.usefixtures("light_placement")

Fails = Callable[..., str]
CHIP = ("--chip", "4x4", "--neurons-per-core", "8")


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 60, 240)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[pin]", "is not valid TOML"),
        ("[[nail]]", "unknown key 'nail'; give [[pin]] and [[together]]"),
        ("pin = 3", "pin is not a list of tables; write [[pin]]"),
        ("[[pin]]\nneurons = [1]\ncores = 2", "pin 1: has an unknown key cores; known keys are"),
        ("[[pin]]\nneurons = [1]", "pin 1: lacks core; known keys are"),
        ("[[pin]]\nneurons = [1]\ncore = 16", "pin 1: core is 16; give an id of 0 .. 15"),
        ('[[pin]]\nneurons = [1]\ncore = "4,0"', "pin 1: core is '4,0'"),
        ("[[pin]]\ncore = 2", "pin 1: give one of neurons, range, population, not 0"),
        ("[[together]]\nneurons = [60]", "together 1: neuron 60 is outside 0 .. 59"),
        ("[[together]]\nneurons = []", "together 1: neurons is [], not a list of length 1 or more"),
        (
            "[[together]]\nneurons = [3, -1]",
            "together 1: neurons[1] is -1, not a whole number from 0",
        ),
        ("[[together]]\nneurons = [true]", "together 1: neurons[0] is True, not a whole number"),
        ("[[together]]\nrange = [9]", "together 1: range is [9], not a list of length 2"),
        ("[[together]]\nrange = [9, 3]", "together 1: range is [9, 3]; give the first and"),
        ('[[together]]\npopulation = "L1"', "together 1: the network has no population 'L1'"),
        (
            "[[pin]]\nneurons = [1]\ncore = 2\n[[pin]]\nneurons = [1]\ncore = 3",
            "pin 2: neuron 1 is pinned to core 3, but other constraints pin it to core 2",
        ),
    ],
)
def test_faults_of_a_file_are_reported(text: str, said: str, network: Path, fails: Fails) -> None:
    Path("c.toml").write_text(text)
    message = fails("run", network, *CHIP, "--constraints", "c.toml", "-o", "out")
    assert message.startswith("c.toml: ")
    assert said in message


def test_pins_to_faulty_cores_and_missing_files(network: Path, fails: Fails) -> None:
    Path("chip.toml").write_text("width = 4\nheight = 4\nneurons = 8\nunavailable = [5]\n")
    Path("c.toml").write_text('[[pin]]\nneurons = [1]\ncore = "1,1"\n')
    message = fails("run", network, "--chip", "chip.toml", "--constraints", "c.toml")
    assert "pin 1: core 5 is unavailable; choose another" in message
    assert "cannot read" in fails("run", network, *CHIP, "--constraints", "none.toml")


def test_too_many_together(network: Path, run: Run) -> None:
    Path("c.toml").write_text("[[together]]\nrange = [10, 18]\n")
    for command in ("run", "check"):
        found = run(command, network, *CHIP, "--constraints", "c.toml")
        assert found.code == 3
        assert "together 1: needs 9 neurons together; a core holds 8 (1 short)" in found.err


def test_items_join_constraints_with_a_common_neuron_or_core() -> None:
    def constraint(neurons: list[int], core: int | None = None) -> Constraint:
        return Constraint(f"constraint {neurons}", np.array(neurons), core)

    found = combine(
        [
            constraint([0, 1]),
            constraint([1, 2]),
            constraint([5], 3),
            constraint([7, 8], 3),
            constraint([6], 4),
        ],
        10,
    )
    item = found.item.tolist()
    assert [len({item[v] for v in group}) for group in ([0, 1, 2], [5, 7, 8])] == [1, 1]
    assert len(set(item)) == 6
    assert {int(found.core[item[v]]) for v in (5, 7, 8)} == {3}
    assert [int(found.core[item[v]]) for v in (6, 0, 9)] == [4, -1, -1]
    with pytest.raises(MapperError, match="pin it to core 3"):
        combine([constraint([0, 1]), constraint([0], 3), constraint([1], 4)], 10)
    core = np.array([1, 1, 1, 0, 0, 3, 4, 3, 2, 0])
    assert broken([constraint([0, 1, 2]), constraint([5], 3)], core) == ""
    assert "neuron 8 is on core 2, not on 3" in broken([constraint([7, 8], 3)], core)
    assert "neuron 3 is on core 0, not on 1" in broken([constraint([2, 3])], core)


@pytest.mark.parametrize("seed", range(20))
def test_cells_of_parts_with_pins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cores, parts, items = 12, int(rng.integers(1, 13)), 15
    cell = rng.permutation(cores)[:parts].astype(np.int32)
    part = rng.integers(0, parts, items).astype(np.int32)
    pinned = np.full(items, -1, np.int32)
    some = rng.choice(items, 4, replace=False)
    pinned[some] = rng.permutation(cores)[:4]
    found = pinned_cells(cell, part, pinned)
    assert len(set(found.tolist())) == parts
    first = int(some.min())
    assert found[part[first]] == pinned[first]
    if len({int(part[i]) for i in some}) == 4:  # one part each: all of them get their core
        assert [found[part[i]] for i in some] == [pinned[i] for i in some]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("preset", ["fast", "default", "strong", "classic"])
@pytest.mark.parametrize("watched", [True, False])
def test_runs_keep_constraints_and_limits(
    watched: bool, preset: str, folder: Path, run: Run
) -> None:
    """Almost full cores, pins in corners and on parts of other pins, limits on all."""
    path = random_network(folder / "net.bin", 240, 1200)
    Path("c.toml").write_text(
        "[[pin]]\nneurons = [0, 100, 200]\ncore = 0\n"
        '[[pin]]\nneurons = [1]\ncore = "7,7"\n'
        "[[pin]]\nneurons = [2]\ncore = [7, 0]\n"
        "[[together]]\nrange = [10, 14]\n"
        "[[together]]\nneurons = [14, 60]\n"
    )
    Path("chip.toml").write_text("width = 8\nheight = 8\nneurons = 8\nunavailable = [9, 36]\n")
    limits: tuple[str, ...] = ("--synapses-per-core", "45")
    if watched:
        limits += ("--axons-per-core", "42", "--axons-out-per-core", "48")
    arguments = (path, "--chip", "chip.toml", *limits, "--preset", preset)
    arguments += ("--constraints", "c.toml")
    found = run("run", *arguments, "-o", "out")
    assert found.code == 0, found
    with np.load("out/mapping.npz") as mapping:
        core = mapping["core"]
    assert core[[0, 100, 200]].tolist() == [0, 0, 0]
    assert core[[1, 2]].tolist() == [63, 7]
    assert not np.isin(core, (9, 36)).any()
    assert len(set(core[[10, 11, 12, 13, 14, 60]].tolist())) == 1
    assert run("verify", "out").code == 0
    Path("out/constraints.toml").write_text("[[pin]]\nneurons = [1]\ncore = 62\n")
    wrong = run("verify", "out")
    assert wrong.code == 1
    assert "neuron 1 is on core 63, not on 62" in wrong.err


@pytest.mark.jit
def test_populations_by_name(folder: Path, run: Run) -> None:
    assert run("generate", "microcircuit", "m.bin", "--scale", "0.002").code == 0
    Path("c.toml").write_text('[[pin]]\npopulation = "L5I"\ncore = 9\n')
    arguments = ("m.bin", "--chip", "4x4", "--neurons-per-core", "16", "--constraints", "c.toml")
    assert run("run", *arguments, "-o", "out").code == 0
    with np.load("out/mapping.npz") as mapping:
        assert np.count_nonzero(mapping["core"] == 9) >= 2
    assert run("verify", "out").code == 0


def test_a_single_item(folder: Path, run: Run) -> None:
    path = write_network(folder / "net.bin", [(0, 1), (1, 2)], 3)
    Path("c.toml").write_text("[[together]]\nrange = [0, 2]\n")
    arguments = (path, "--chip", "2x2", "--constraints", "c.toml")
    assert run("run", *arguments, "-o", "out").code == 0


def test_repairs_of_pins_know_the_synapses(folder: Path) -> None:
    """Without limits on synapses they sort the synapses of items into lists of these lengths."""
    path, chip = random_network(folder / "net.bin", 30, 120), Chip("c", 3, 3, neurons=5)
    pins = combine([Constraint("pin", np.array([4]), 2)], 30)
    groups = combine([Constraint("together", np.array([4, 5]), None)], 30)
    with NetworkFile(path) as network:
        assert make_job(network, chip, 1, pins).fans.into.sum() == network.meta.synapses
        assert not make_job(network, chip, 1, groups).fans.into.any()
