"""Pinned neurons and neurons kept together: faulty files, items, whole runs, verification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.errors import MapperError
from mapper.limits.axons import make_job
from mapper.limits.combined_constraints import combine
from mapper.limits.constraints import ApartConstraint, Constraint, RegionConstraint
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
        ("[[nail]]", "unknown key 'nail'; known tables are [[pin]], [[together]], [[region]]"),
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
        ("[[region]]\nneurons = [1]", "region 1: give one of rectangle, cores, not 0"),
        (
            "[[region]]\nneurons = [1]\ncores = [1]\nrectangle = [0, 0, 1, 1]",
            "region 1: give one of rectangle, cores, not 2",
        ),
        (
            "[[region]]\nneurons = [1]\nrectangle = [0, 0, 4, 1]",
            "region 1: rectangle is [0, 0, 4, 1]; give first column, first row, last column",
        ),
        ("[[region]]\nneurons = [1]\ncores = [3, 16]", "region 1: core is 16; give an id"),
        ("[[region]]\nneurons = [1]\ncores = []", "region 1: cores is [], not a list"),
        ("[[region]]\nneurons = [1]\ncores = [1]\nonly = true", "unknown key only"),
        ("[[apart]]\npopulations = ['L4', 'L6']", "apart 1: the network has no population 'L4'"),
        ("[[apart]]\ngroups = [[1]]", "apart 1: groups is [[1]], not a list of length 2 or more"),
        ("[[apart]]\ngroups = [[1, 2], [3, 2]]", "apart 1: neuron 2 is in two of its groups"),
        ("[[apart]]\nranges = [[1, 2], [5, 3]]", "apart 1: range is [5, 3]"),
        ("[[apart]]\ngroups = [[1], [60]]", "apart 1: neuron 60 is outside 0 .. 59"),
        (
            "[[apart]]\ngroups = [[1], [5]]\n[[together]]\nneurons = [1, 2, 5]",
            "apart 1: neuron 1 and neuron 5 are in two of its groups, but c.toml: together 1",
        ),
        (
            "[[apart]]\ngroups = [[1], [5]]\n[[pin]]\nneurons = [1, 5]\ncore = 3",
            "apart 1: neuron 1 and neuron 5 are in two of its groups, but c.toml: pin 1 puts",
        ),
        (
            "[[region]]\nneurons = [4]\ncores = [1]\n[[pin]]\nneurons = [4]\ncore = 3",
            "region 1: neuron 4 must be in its region, but c.toml: pin 1 pins it to core 3",
        ),
        (
            "[[region]]\nneurons = [4]\ncores = [1, 2]\nexclusive = true\n"
            "[[pin]]\nneurons = [5]\ncore = 2",
            "pin 1: pins neuron 5 to core 2, which c.toml: region 1 keeps for other neurons",
        ),
        (
            "[[region]]\nneurons = [4, 5]\ncores = [1, 2]\n"
            "[[region]]\nneurons = [5, 6]\ncores = [3]",
            "region 2: neuron 5 is also in c.toml: region 1, and the regions have no core in",
        ),
        (
            "[[region]]\nneurons = [4]\ncores = [1, 2]\n[[region]]\nneurons = [5]\ncores = [3]\n"
            "[[together]]\nneurons = [4, 5]",
            "region 2: neuron 4 (c.toml: together 1) is also in c.toml: region 1",
        ),
        (
            "[[region]]\nneurons = [4]\ncores = [1]\nexclusive = true\n"
            "[[together]]\nneurons = [4, 5]",
            "region 1: neuron 4 is in this exclusive region and neuron 5 is not, but c.toml: "
            "together 1 puts them on one core",
        ),
        (
            "[[region]]\nneurons = [4]\nrectangle = [0, 0, 3, 3]\nexclusive = true",
            "region 1: exclusive regions leave no core for neuron 0",
        ),
        (
            "[[region]]\nneurons = [4]\ncores = [1, 2]\n[[region]]\nneurons = [4]\ncores = [2, 3]\n"
            "[[region]]\nneurons = [5]\ncores = [2]\nexclusive = true",
            "region 1: neuron 4 has no core left, given c.toml: region 2 and exclusive c.toml: "
            "region 3",
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
        np.ones(5, np.bool_),
    )
    item = found.item.tolist()
    assert [len({item[v] for v in group}) for group in ([0, 1, 2], [5, 7, 8])] == [1, 1]
    assert len(set(item)) == 6
    assert {int(found.core[item[v]]) for v in (5, 7, 8)} == {3}
    assert [int(found.core[item[v]]) for v in (6, 0, 9)] == [4, -1, -1]
    with pytest.raises(MapperError, match="pin it to core 3"):
        combine(
            [constraint([0, 1]), constraint([0], 3), constraint([1], 4)], 10, np.ones(5, np.bool_)
        )
    core = np.array([1, 1, 1, 0, 0, 3, 4, 3, 2, 0])
    assert [one.fault(core) for one in (constraint([0, 1, 2]), constraint([5], 3))] == ["", ""]
    assert "neuron 8 is on core 2, not on 3" in constraint([7, 8], 3).fault(core)
    assert "neuron 3 is on core 0, not on 1" in constraint([2, 3]).fault(core)
    inside, region = np.array([0, 1, 2]), np.array([1, 2])
    assert RegionConstraint("r", inside, region, False).fault(core) == ""
    assert "neuron 8 is on core 2, which is exclusive" in RegionConstraint(
        "r", inside, region, True
    ).fault(core)
    assert "neuron 3 is on core 0, outside" in RegionConstraint(
        "r", np.array([2, 3]), region, False
    ).fault(core)
    apart = ApartConstraint("a", (np.array([0, 1]), np.array([8]), np.array([5])))
    assert apart.fault(core) == ""
    apart = ApartConstraint("a", (np.array([0, 5]), np.array([8, 7])))
    assert "neuron 5 and neuron 7 are both on core 3" in apart.fault(core)


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


LAYERED = """
[[region]]
range = [0, 2499]
rectangle = [0, 0, 7, 1]
exclusive = true

[[region]]
range = [2500, 4999]
rectangle = [0, 2, 7, 7]

[[apart]]
ranges = [[2500, 4999], [5000, 6999], [7000, 7499]]

[[pin]]
neurons = [9000, 9001]
core = [7, 7]

[[together]]
range = [9900, 9910]
"""


@pytest.mark.jit
@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [
        ("--preset", "fast"),
        ("--preset", "default", "--synapses-per-core", "1500"),
        ("--preset", "strong", "--set", "net-budget=1000000", "--set", "cycles=1"),
        ("--preset", "classic"),
        ("--preset", "fast", "--objective", "core"),
        ("--preset", "fast", "--objective", "multicast"),
        ("--preset", "fast", "--objective", "cut"),
        ("--preset", "fast", "--cores", "60"),
    ],
)
def test_every_preset_keeps_regions_and_groups_apart(
    words: tuple[str, ...], folder: Path, run: Run
) -> None:
    """Three layers, two of which share no core with others, and one region without others."""
    path = random_network(folder / "net.bin", 10_000, 40_000)
    Path("c.toml").write_text(LAYERED)
    arguments = (path, "--chip", "8x8", "--neurons-per-core", "180", *words)
    found = run("run", *arguments, "--constraints", "c.toml", "--seed", "1", "-o", "out")
    assert found.code == 0, found
    core = np.load("out/mapping.npz")["core"]
    assert core[:2500].max() < 16
    assert core[2500:].min() >= 16
    layers = [set(core[a:b].tolist()) for a, b in ((2500, 5000), (5000, 7000), (7000, 7500))]
    assert not layers[0] & layers[1] and not layers[0] & layers[2] and not layers[1] & layers[2]
    assert core[[9000, 9001]].tolist() == [63, 63]
    assert len(set(core[9900:9911].tolist())) == 1
    if "--cores" in words:
        assert len(set(core.tolist())) <= 60
    assert run("verify", "out").code == 0
    scored = run("score", path, "out/mapping.npz", "--chip", "8x8", "--neurons-per-core", "180",
                 "--constraints", "c.toml")  # fmt: skip
    assert scored.code == 0, scored


@pytest.mark.jit
def test_verify_and_score_find_broken_regions_and_groups(folder: Path, run: Run) -> None:
    path = random_network(folder / "net.bin", 60, 240)
    limits = (path, "--chip", "4x4", "--neurons-per-core", "8")
    text = "[[region]]\nrange = [0, 9]\nrectangle = [0, 0, 1, 0]\nexclusive = true\n"
    text += "[[apart]]\ngroups = [[20, 21], [30, 31]]\n"
    Path("c.toml").write_text(text)
    assert run("run", *limits, "--constraints", "c.toml", "-o", "out").code == 0
    assert run("verify", "out").code == 0
    core = np.load("out/mapping.npz")["core"]
    first, other = int(core[20]), int(core[40])
    for fault, said in (
        ("[[region]]\nneurons = [40]\ncores = [0, 1]\n", f"neuron 40 is on core {other}, "),
        (f"[[region]]\nneurons = [20]\ncores = [{first}]\nexclusive = true\n", "is exclusive"),
        ("[[apart]]\nranges = [[0, 4], [5, 9]]\n", "are both on core"),
    ):
        Path("out/constraints.toml").write_text(text + fault)
        wrong = run("verify", "out")
        assert wrong.code == 1
        assert said in wrong.err
        Path("c.toml").write_text(text + fault)
        words = ("--constraints", "c.toml", "--json")
        scored = run("score", path, "out/mapping.npz", *limits[1:], *words)
        assert scored.code == 1
        assert said in scored.json()["broken_constraints"][0]
        assert "constraint broken: c.toml: " in scored.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[[region]]\nrange = [0, 19]\ncores = [2, 3]\n",
            "c.toml: region 1: needs 20 neurons; the 2 cores that these neurons may use hold 16 "
            "(4 short)",
        ),
        (
            "[[region]]\nrange = [0, 1]\nrectangle = [0, 0, 3, 1]\nexclusive = true\n"
            "[[region]]\nrange = [10, 20]\ncores = [9]\n",
            "c.toml: region 2: needs 11 neurons; the 1 cores",
        ),
        (
            "[[region]]\nrange = [0, 1]\nrectangle = [0, 0, 3, 2]\nexclusive = true\n",
            "other neurons: needs 58 neurons; the 4 cores",
        ),
        (
            "[[region]]\nrange = [0, 19]\ncores = [1, 2, 3]\n"
            "[[apart]]\nranges = [[0, 8], [9, 17]]\n",
            "needs 4 cores for neurons of groups that are kept apart; these neurons may use 3",
        ),
    ],
)
def test_check_and_run_refuse_regions_that_are_too_small(
    text: str, said: str, network: Path, run: Run
) -> None:
    Path("c.toml").write_text(text)
    for command in ("run", "check"):
        found = run(command, network, *CHIP, "--constraints", "c.toml")
        assert found.code == 3
        assert said in found.err


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
    pins = combine([Constraint("pin", np.array([4]), 2)], 30, chip.usable)
    groups = combine([Constraint("together", np.array([4, 5]), None)], 30, chip.usable)
    with NetworkFile(path) as network:
        assert make_job(network, chip, 1, pins).fans.into.sum() == network.meta.synapses
        assert not make_job(network, chip, 1, groups).fans.into.any()
