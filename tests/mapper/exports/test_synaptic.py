"""Exports that use synaptic weights: which weights they accept, and notes about the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hw.chip import ChipDesign, chip_shape
from hw.core.arithmetic import simulate
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from mapper.exports.hardware_network import read_spiking, tables_of
from mapper.exports.sanafe import spikes_above
from mapper.exports.synaptic import AS_STORED, MAGNITUDES
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run, tree
from tests.mapper.exports.mapped import sanafe_chip, sanafe_spikes

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
Fails = Callable[..., str]
Array = np.ndarray[Any, Any]
FORMATS = ("a.tables.json", "a.yaml", "a.nir")
FAST = ("--chip", "2x2", "--neurons-per-core", "4", "--preset", "fast", "--threads", "1", "-q")


def mapped(run: Run, *words: Any) -> None:
    assert run("run", *words, *FAST, "-o", "out").code == 0


@pytest.fixture
def plain(folder: Path, run: Run) -> Path:
    """A mapping of a network with integer weights of unknown meaning; a self-loop is dropped."""
    rows = ["0,1,3", "1,2,3", "2,0,3", "2,2,9", "2,3,2", "3,0,1", "0,4,1", "4,5,2", "5,0,3"]
    (folder / "net.csv").write_text("\n".join(rows) + "\n")
    mapped(run, "net.csv")
    return folder / "out"


@pytest.fixture
def signed(folder: Path, run: Run) -> Path:
    """A mapping of a table in which three of five weights are negative."""
    (folder / "net.csv").write_text("0,1,-3\n1,2,3\n2,0,-3\n2,3,2\n3,0,-1\n")
    mapped(run, "net.csv")
    return folder / "out"


@pytest.fixture
def rated(folder: Path, run: Run) -> Path:
    (folder / "net.csv").write_text("0,1,3\n1,2,3\n2,0,3\n")
    (folder / "rates.csv").write_text("0 4\n1 5\n2 6\n")
    mapped(run, "net.csv", "--rates", "rates.csv")
    return folder / "out"


@pytest.fixture
def model(folder: Path, run: Run) -> Path:
    """A mapping of the traffic of a NIR graph; signs, self-loops and thresholds are lost."""
    nir = pytest.importorskip("nir")
    ones = np.ones(4)
    rng = np.random.default_rng(1)
    weight = rng.choice([-3.0, 2.0], size=(4, 4))
    nodes = {
        "input": nir.Input({"input": np.array([4])}),
        "lif": nir.LIF(tau=ones, r=ones, v_leak=ones, v_threshold=5 * ones),
        "back": nir.Linear(weight=weight),
        "output": nir.Output({"output": np.array([4])}),
    }
    edges = [("input", "lif"), ("lif", "back"), ("back", "lif"), ("lif", "output")]
    nir.write(folder / "model.nir", nir.NIRGraph(nodes, edges))
    mapped(run, "model.nir", "--weights-are", "rate", "--rates", "uniform")
    return folder / "out"


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("signed", "3 of 5 weights lost their sign"),
        ("rated", "they are firing rates"),
        ("model", "the import dropped thresholds and leaks of the NIR graph"),
    ],
)
def test_other_weights_are_refused(
    name: str, source: str, why: str, request: pytest.FixtureRequest, run: Run, fails: Fails
) -> None:
    if name == "a.nir":
        pytest.importorskip("nir")
    out = request.getfixturevalue(source)
    before = tree(out.parent)
    told = fails("export", out, name, "--threshold", "3")
    assert "not synaptic weights" in told
    assert why in told
    assert told.endswith("add --magnitudes")
    assert tree(out.parent) == before
    found = run("export", out, name, "--threshold", "3", "--magnitudes")
    assert found.code == 0
    assert (
        "takes the numbers of the network for weights of synapses, which they are not" in found.err
    )


def test_losses_of_a_model_are_counted_and_noted(model: Path, run: Run) -> None:
    options = ("--threshold", "3", "--magnitudes")
    found = run("export", model, "a.tables.json", *options, "--json")
    facts, tables = json.loads(found.out), json.loads(Path("a.tables.json").read_text())
    network = json.loads((model / "report.json").read_text())["network"]
    signs, loops = network["weights_negative"], network["self_loops"]
    assert signs > 0
    assert loops == 4
    expected = {"signs": signs, "weights": network["synapses"]}
    expected |= {"parameters": network["neurons"], "self_loops": loops}
    for of in (facts, tables):
        assert (of["weights"], of["left_out"]) == (MAGNITUDES, expected)
    for line in (
        f"note: tables has no signs: those of {signs} of 20 weights left out",
        "note: tables has no weights: 16 firing rates in their place",
        f"note: tables has no self-loops: {loops} dropped by the import",
        "note: tables has no thresholds and leaks of the NIR graph: those of 8 neurons left out",
    ):
        assert line in found.err
    assert run("export", model, "a.yaml", *options).code == 0
    assert f"\n# has no signs: those of {signs} of 20 weights" in Path("a.yaml").read_text()


def test_its_own_graph_keeps_signs(model: Path, run: Run, fails: Fails) -> None:
    found = run("export", model, "a.nir", "--graph", "model.nir")
    assert (found.code, found.err) == (0, "")
    told = fails("export", model, "a.nir", "--graph", "model.nir", "--magnitudes", code=2)
    assert told == "--graph has its own weights; leave out --magnitudes"


def test_use_of_plain_weights_is_noted(plain: Path, run: Run, fails: Fails) -> None:
    for name in FORMATS:
        if name == "a.nir":
            pytest.importorskip("nir")
        found = run("export", plain, name, "--threshold", "3", "--json")
        facts = json.loads(found.out)
        assert (facts["weights"], facts["left_out"]) == (AS_STORED, {"self_loops": 1})
        kind = {"a.yaml": "sanafe", "a.nir": "nir"}.get(name, "tables")
        assert f"note: {kind} takes the weights of the network for those of synapses\n" in found.err
    told = fails("export", plain, "a.csv", "--magnitudes", code=2)
    assert told.startswith("--magnitudes is for the formats tables, sanafe, nir, not for csv")


def test_a_missing_threshold_is_noted(plain: Path, run: Run) -> None:
    found = run("export", plain, "a.yaml")
    assert "note: sanafe has no threshold: that of 6 neurons is SANA-FE's own, 0\n" in found.err


def test_undirected_edges_are_noted_as_two(folder: Path, run: Run) -> None:
    with NetworkWriter(folder / "net.bin", 3, undirected=True) as writer:
        writer.add(np.array([0, 1]), np.array([1, 2]), np.array([2, 3]))
        writer.finish()
    mapped(run, "net.bin")
    found = run("export", "out", "a.yaml", "--threshold", "1", "--json").json()
    assert (found["synapses"], found["left_out"]) == (4, {"undirected": 2})


@pytest.mark.parametrize("threshold", [3, 2.5, 0, -7, 1e-9, 2**40 + 0.5])
def test_spikes_above_is_at_the_threshold(threshold: float) -> None:
    above = spikes_above(threshold)
    assert above < threshold
    assert not above < np.nextafter(threshold, -np.inf) or threshold == 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_sanafe_and_the_hardware_spike_equally(plain: Path, run: Run) -> None:
    """Potentials that reach the threshold exactly spike in both, not one tick later."""
    options = ("--threshold", "3", "--bias", "1")
    assert run("export", plain, "a.yaml", *options, "-q").code == 0
    text = Path("a.yaml").read_text()
    Path("logged.yaml").write_text(text.replace("bias: 1}", "bias: 1, log_spikes: true}"))
    theirs = sanafe_spikes(sanafe_chip("logged.yaml"), 20, 6)
    shape = chip_shape(2, 2, CoreShape(neurons=8, axons=16, routes=32, synapses=32))
    network = read_spiking(plain / "network.bin", threshold=3, potential_bias=1)
    ours, _ = simulate(network, shape, 20)
    assert np.array_equal(ours, theirs)
    late, _ = simulate(
        read_spiking(plain / "network.bin", threshold=4, potential_bias=1), shape, 20
    )
    assert not np.array_equal(late, theirs), "the network must distinguish > from >="
    chip_run = ChipSimulator(ChipDesign(2, 2, shape)).run(tables_of(plain, network, shape), 20)
    assert np.array_equal(chip_run.spikes, theirs)
