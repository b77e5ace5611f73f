"""Compiled spiking models as SANA-FE networks and NIR graphs: simulated, they spike as the cores.

SANA-FE's own simulator runs the exported files. The NIR graph is read again by the reference in
floating point, and compiled again.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mapper
from mapper.spiking.artifacts.folder import SpikingFolder, read_folder
from mapper.spiking.discretise import model_of_graph
from mapper.spiking.integer_run import run_integers
from mapper.spiking.pipeline import samples_of
from mapper.spiking.reference import SpikeTrains, run_reference
from tests.mapper.conftest import Run
from tests.mapper.exports.mapped import sanafe_chip, sanafe_spikes

nir = pytest.importorskip("nir", reason="needs nir")
pytestmark = pytest.mark.jit
TICKS, INPUTS, HIDDEN, CLASSES = 40, 9, 12, 4


class Kind(NamedTuple):
    """Neurons of a test: `exact` names the exports that must spike equally."""

    name: str
    reset: str
    exact: tuple[str, ...]


KINDS = [
    Kind("IF", "zero", ("sanafe", "nir")),
    Kind("IF", "subtract", ("sanafe", "nir")),
    Kind("LIF", "zero", ("sanafe",)),
    Kind("CubaLIF", "zero", ()),
]


def neurons(kind: str, size: int, rng: np.random.Generator) -> Any:
    ones = np.ones(size)
    bound = {"v_threshold": rng.uniform(0.8, 1.2, size), "v_reset": 0 * ones}
    if kind == "IF":
        return nir.IF(r=ones, **bound)
    leak = {"r": ones, "v_leak": rng.uniform(-0.1, 0.3, size)}
    if kind == "LIF":
        return nir.LIF(tau=rng.uniform(5, 20, size), **leak, **bound)
    taus = {"tau_syn": rng.uniform(2, 4, size), "tau_mem": rng.uniform(5, 20, size)}
    return nir.CubaLIF(**taus, **leak, **bound)


def save_model(kind: str, delay: int, size: tuple[int, ...] = (INPUTS,)) -> None:
    """Write a network of two layers, the first recurrent, with a delay between them."""
    rng = np.random.default_rng(5)
    gain = {"IF": 0.3, "LIF": 4.0, "CubaLIF": 8.0}[kind]
    nodes = {
        "input": nir.Input({"input": np.array(size)}),
        "flat": nir.Flatten({"input": np.array(size)}, 0, -1),
        "fc1": nir.Affine(rng.normal(gain, gain, (HIDDEN, INPUTS)), rng.normal(0, 0.1, HIDDEN)),
        "hidden.cells": neurons(kind, HIDDEN, rng),
        "recurrent": nir.Linear(rng.normal(0, gain / 4, (HIDDEN, HIDDEN))),
        "late": nir.Delay(np.full(HIDDEN, float(delay))),
        "fc2": nir.Linear(rng.normal(gain, gain, (CLASSES, HIDDEN))),
        "classes": neurons(kind, CLASSES, rng),
        "output": nir.Output({"output": np.array([CLASSES])}),
    }
    chain = ["input", "flat", "fc1", "hidden.cells", "late", "fc2", "classes", "output"]
    edges = [*pairwise(chain), ("hidden.cells", "recurrent"), ("recurrent", "hidden.cells")]
    nir.write("model.nir", nir.NIRGraph(nodes, edges, metadata={"dt": 1.0}))
    np.savez("spikes.npz", x=rng.random((3, TICKS, *size)) < 0.3)


def compiled(kind: Kind, delay: int, size: tuple[int, ...] = (INPUTS,)) -> SpikingFolder:
    save_model(kind.name, delay, size)
    mapper.compile_model(
        "model.nir", mapper.Chip("c", 2, 2, neurons=8), output="out", calibrate="spikes.npz",
        reset=kind.reset, weight_bits=8, keep_going=True,
    )  # fmt: skip
    return read_folder(Path("out"))


def expected(folder: SpikingFolder) -> dict[str, SpikeTrains]:
    """Return the spikes of the integers, at the ticks of the model, by population."""
    samples = samples_of(folder.model, Path("spikes.npz"))
    run = run_integers(folder.integers, folder.model, samples)
    found = {each.name: run.spikes[n] for n, each in enumerate(folder.model.populations)}
    assert 0.05 < found["hidden.cells"].tick.size / (3 * TICKS * HIDDEN) < 0.9
    assert found["classes"].tick.size > 20
    return found


def equal(one: SpikeTrains, other: SpikeTrains) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def sanafe_trains(folder: SpikingFolder, sample: int) -> np.ndarray[Any, Any]:
    """Return the spikes of neurons in SANA-FE, shape (ticks, neurons): one tick late."""
    given = np.load("spikes.npz")["x"][sample].reshape(TICKS, -1)
    lines, number = [], 0
    for line in Path("a.yaml").read_text().splitlines():
        if "soma_hw_name" in line:
            train = ", ".join(map(str, given[:, number].astype(int)))
            line, number = line.replace("}", f", spikes: [{train}]}}"), number + 1
        if line.startswith("        - "):
            line = line.replace("}", ", log_spikes: true}")
        lines.append(line)
    assert number == given.shape[1]
    Path("logged.yaml").write_text("\n".join(lines) + "\n")
    whole = folder.manifest.neurons + folder.manifest.inputs
    ticks = TICKS + 1 + folder.last
    return sanafe_spikes(sanafe_chip("logged.yaml"), ticks, whole)[1:]


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name}-{kind.reset}")
def test_sanafe_spikes_as_the_cores(kind: Kind, delay: int, folder: Path, run: Run) -> None:
    out = compiled(kind, delay)
    wanted = expected(out)
    exported = run("export", "out", "a.yaml", "--json").json()
    assert exported["neurons"] == HIDDEN + CLASSES + INPUTS
    assert exported["synapses"] == out.integers.network.source.size
    left = {"currents", "current_bias"} if kind.name == "CubaLIF" else set()
    assert exported["left_out"].keys() <= left
    for sample in range(3):
        found = sanafe_trains(out, sample)
        for number, each in enumerate(out.model.populations):
            if each.dynamics is None:
                continue
            late, first = out.integers.latency[number], out.model.first[number]
            own = found[late : late + TICKS, first : first + each.size]
            trains = wanted[each.name]
            spikes = np.zeros_like(own)
            of_sample = trains.sample == sample
            spikes[trains.tick[of_sample], trains.neuron[of_sample]] = True
            differ = np.count_nonzero(spikes != own)
            if "sanafe" in kind.exact:
                assert differ == 0, each.name
            else:
                assert differ < 0.1 * np.count_nonzero(spikes | own) + 3


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name}-{kind.reset}")
def test_a_nir_graph_spikes_as_the_cores(kind: Kind, delay: int, folder: Path, run: Run) -> None:
    out = compiled(kind, delay, (3, 3))
    wanted = expected(out)
    found = run("export", "out", "back.nir", "--json").json()
    leaks = kind.name != "IF"
    assert found["left_out"] == ({"decay_rounding": HIDDEN + CLASSES} if leaks else {})
    model = model_of_graph(Path("back.nir"), reset=kind.reset)  # type: ignore[arg-type]
    assert {each.delay for each in model.connections} == {0, delay}
    real = run_reference(model, samples_of(model, Path("spikes.npz")))
    again = mapper.compile_model(
        "back.nir", "2x2", calibrate="spikes.npz", reset=kind.reset,  # type: ignore[arg-type]
        weight_bits=8, keep_going=True,
    )  # fmt: skip
    integers = read_folder(again.folder).integers
    cores = again.simulate("spikes.npz").spikes
    for number, each in enumerate(model.populations):
        if each.dynamics is None:
            continue
        of_integers = wanted[each.name.replace("hidden_", "hidden.")]
        assert equal(cores[each.name], of_integers), each.name
        if "nir" in kind.exact:
            assert equal(real.spikes[number], of_integers), each.name
        else:
            counts = of_integers.tick.size, real.spikes[number].tick.size
            assert abs(counts[0] - counts[1]) < 0.05 * counts[0]
    assert np.array_equal(np.sort(integers.network.weight),
                          np.sort(out.integers.network.weight))  # fmt: skip
    for name in ("current_decay", "potential_decay"):
        one, other = (getattr(each.network, name) for each in (integers, out.integers))
        assert sorted(one.tolist()) == sorted(other.tolist())


def test_silent_outputs_keep_their_units(folder: Path, run: Run) -> None:
    """Potentials of a readout in the graph are the potentials on the cores."""
    rng = np.random.default_rng(2)
    ones = np.ones(3)
    nodes = {
        "input": nir.Input({"input": np.array([6])}),
        "fc": nir.Linear(rng.normal(0, 1, (3, 6)) * [[1], [5], [40]]),
        "read": nir.LI(tau=8 * ones, r=ones, v_leak=0 * ones),
        "output": nir.Output({"output": np.array([3])}),
    }
    edges = list(pairwise(nodes))
    nir.write("model.nir", nir.NIRGraph(nodes, edges, metadata={"dt": 1.0}))
    np.savez("spikes.npz", x=rng.random((4, TICKS, 6)) < 0.4)
    found = mapper.compile_model("model.nir", "2x2", calibrate="spikes.npz", output="out")
    wanted = found.simulate("spikes.npz").outputs["output"].potentials
    assert wanted is not None
    assert run("export", "out", "back.nir").code == 0
    model = model_of_graph(Path("back.nir"))
    real = run_reference(model, samples_of(model, Path("spikes.npz")))
    (potentials,) = real.potentials.values()
    assert np.abs(potentials - wanted).max() < 1e-3 * np.abs(wanted).max()


def test_long_delays_and_full_cores_are_reported(folder: Path, run: Run) -> None:
    compiled(KINDS[0], 20)
    found = run("export", "out", "a.yaml", "--json")
    assert found.json()["left_out"] == {"delays": 48}
    assert "sanafe has no delays above 5 ticks: 48 synapses act after 5" in found.err
    assert run("export", "out", "b.nir", "--json").json()["left_out"] == {}
    for words, said in (
        (("a.csv",), "a.csv: compiled spiking models are exported as tables, sanafe, nir; give a "
                     "name that ends with .tables.json, .yaml, .nir"),
        (("a.yaml", "--threshold", "2"), "--threshold is for output folders of a run"),
    ):  # fmt: skip
        refused = run("export", "out", *words)
        assert refused.code == 2 and said in refused.err and len(refused.err.splitlines()) == 1
