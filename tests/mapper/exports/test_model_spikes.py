"""Integer NIR models: the same spikes from file to cores, for any mapping.

The reference is the model in plain Python: potentials in floating point, a spike above the
threshold, a reset to a value or by subtraction. Leaks of the cores round, but far below a spike.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hw.chip import ChipDesign
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from mapper.exports.base import open_run
from mapper.exports.hardware_network import core_network, tables_of
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.exports.mapped import sanafe_chip, sanafe_spikes, spikes_of

nir = pytest.importorskip("nir")
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

TICKS = 40
AMARANTH_TICKS = 60
"""Core shape for these models; their chips have up to 16 cores."""
INPUTS, NEURONS = 5, 11
MAPPINGS = (("2x2", "4", "fast"), ("3x1", "8", "classic"), ("4x2", "2", "default"))
Bools = NDArray[np.bool_]
Fails = Callable[..., str]


class Case(NamedTuple):
    """A model: weights (target, source), and the update of its neurons per tick.

    shift : of the leak, None for no leak
    options : required by exports
    """

    into: NDArray[Any]
    back: NDArray[Any]
    node: Any
    shift: int | None
    drive: float
    threshold: float
    reset: float
    subtract: bool
    options: tuple[str, ...]

    def write(self, path: Path) -> None:
        nodes = {
            "input": nir.Input({"input": np.array([INPUTS])}),
            "into": nir.Affine(weight=self.into, bias=np.full(NEURONS, self.bias)),
            "cells": self.node,
            "back": nir.Linear(weight=self.back),
            "output": nir.Output({"output": np.array([NEURONS])}),
        }
        edges = [("input", "into"), ("into", "cells"), ("cells", "back"), ("back", "cells")]
        nir.write(path, nir.NIRGraph(nodes, [*edges, ("cells", "output")]))

    @property
    def bias(self) -> float:
        return self.drive if self.shift is None else 0.0

    def run(self, told: Bools) -> Bools:
        """Return the spikes of inputs and cells, shape (ticks, neurons); told : spikes of the
        inputs.
        """
        potential, spikes = np.zeros(NEURONS), np.zeros(INPUTS + NEURONS, bool)
        found = np.zeros((TICKS, INPUTS + NEURONS), bool)
        weights = np.column_stack([self.into, self.back])
        for tick in range(TICKS):
            if self.shift is not None:  # counted from the reset potential
                potential = potential - (potential - self.reset) / 2**self.shift
            potential = potential + weights @ spikes + self.drive
            fires = potential > self.threshold
            rest = potential - self.threshold if self.subtract else self.reset
            potential = np.where(fires, rest, potential)
            spikes = np.concatenate([told[tick], fires])
            found[tick] = spikes
        return found


def case(name: str) -> Case:
    """signed : weights of both signs, self-loops, biases
    leaks : also leaks, and a nonzero reset
    subtracts : quarters, and a reset by subtraction
    """
    rng = np.random.default_rng(8)
    into = rng.integers(-4, 9, (NEURONS, INPUTS)).astype(float)
    back = rng.integers(-5, 6, (NEURONS, NEURONS)).astype(float)
    np.fill_diagonal(back, rng.choice([-3.0, 2.0], NEURONS))
    ones = np.ones(NEURONS)
    if name == "signed":
        node = nir.IF(r=ones, v_threshold=6 * ones, v_reset=0 * ones)
        return Case(into, back, node, None, 1.0, 6.0, 0.0, False, ())
    if name == "leaks":  # an eighth leaks per tick, towards 10: 1.625 per tick from the reset on
        node = nir.LIF(
            tau=8 * ones, r=8 * ones, v_leak=13 * ones, v_threshold=9 * ones, v_reset=-3 * ones
        )
        return Case(into, back, node, 3, 2.0, 9.0, -3.0, False, ("--tick-length", "1"))
    node = nir.IF(r=ones, v_threshold=6.5 * ones, v_reset=-ones)  # v_reset is not used
    return Case(into / 4, back / 4, node, None, 0.75, 6.5, -1.0, True, ("--reset", "subtract"))


def from_tables(path: Path, told: Bools) -> Bools:
    """Return the spikes of all neurons computed from tables.json according to docs/core.md."""
    tables = json.loads(path.read_text())
    cores, unity = tables["cores"], 2 ** tables["shape"]["decay_bits"]
    states = [[list(state) for state in core["states"]] for core in cores]
    sums = [[0] * len(core["neurons"]) for core in cores]
    spikes = np.zeros((len(told), sum(len(core["neurons"]) for core in cores)), bool)
    inputs = {neuron: place for place, neuron in enumerate(tables["inputs"])}

    def decayed(value: int, factor: int) -> int:
        return (value * factor // unity) if value >= 0 else -(-value * factor // unity)

    for tick in range(len(told)):
        arriving = [[0] * len(core["neurons"]) for core in cores]
        for core, own, total in zip(cores, states, sums, strict=True):
            for i, neuron in enumerate(core["neurons"]):
                number, threshold, reset, current_bias, potential_bias = core["parameters"][i]
                kept_current, kept, shift, refractory, subtract, silent = core["profiles"][number]
                assert refractory == 0
                current, value, _ = own[i]
                current = decayed(current, kept_current) + (total[i] << shift) + current_bias
                value = decayed(value, kept) + current + potential_bias
                fires = value >= threshold and not silent
                value = (value - threshold if subtract else reset) if fires else value
                own[i] = [current, value, 0]
                if neuron in inputs:
                    fires = bool(told[tick, inputs[neuron]])
                if not fires:
                    continue
                spikes[tick, neuron] = True
                for x, y, axon in core["routes"][slice(*core["route_indptr"][i : i + 2])]:
                    k = y * tables["width"] + x
                    first, count, base = cores[k]["lists"][axon]
                    for target, weight, delay in cores[k]["synapses"][first : first + count]:
                        assert delay == 0
                        arriving[k][base + target] += weight
        sums = arriving
    return spikes


def from_amaranth(out: Path, shape: CoreShape, options: dict[str, Any], told: Bools) -> Bools:
    """Return the spikes of the Amaranth chip; the host sends the packets of the inputs."""
    with open_run(out) as run:
        numbers = core_network(run.network, shape, options)
    tables = tables_of(out, numbers.network, shape)
    routes = {}
    for core in tables.cores:
        for i, neuron in enumerate(core.neurons.tolist()):
            routes[neuron] = core.routes[core.route_indptr[i] : core.route_indptr[i + 1]].tolist()
    inputs = np.flatnonzero(numbers.inputs).tolist()
    packets = tuple(tuple(map(tuple, routes[neuron])) for neuron in inputs)
    fed = dataclasses.replace(tables, input_packets=packets)
    # packets before a tick carry the spikes of the previous tick
    events = [[], *(np.flatnonzero(row).tolist() for row in told[:-1])]
    chip = ChipDesign(tables.width, tables.height, shape)
    spikes = ChipSimulator(chip).run(fed, len(told), events).spikes
    found = np.array(spikes[:, : numbers.inputs.size])
    assert not found[:, inputs].any()  # they never spike by themselves
    found[:, inputs] = told
    return found


def from_sanafe(name: str, told: Bools) -> Bools:
    """Return the spikes of SANA-FE's simulator from exported files; told : spikes of the inputs."""
    lines, number, neurons = [], 0, 0
    for line in Path(name).read_text().splitlines():
        if "soma_hw_name" in line:
            train = ", ".join(map(str, told[:, number].astype(int)))
            line, number = line.replace("}", f", spikes: [{train}]}}"), number + 1
        if line.startswith("        - "):
            neurons = int(line.split(":")[0].removeprefix("        - ").split("..")[-1]) + 1
            line = line.replace("}", ", log_spikes: true}")
        lines.append(line)
    assert number == told.shape[1]
    Path("logged.yaml").write_text("\n".join(lines) + "\n")
    chip = sanafe_chip("logged.yaml", str(Path(name).with_suffix(".arch.yaml")))
    return sanafe_spikes(chip, len(told), neurons)


def from_simulate(
    run: Run, out: str, told: Bools, inputs: NDArray[Any], neurons: int, options: Sequence[str]
) -> Bools:
    """Return the spikes of `mapper simulate --spikes`; inputs : neurons of the columns of told."""
    ticks, columns = np.nonzero(told)  # here a spike counts in its own tick
    np.savez("in.npz", neuron=inputs[columns], tick=ticks + 1)
    words = ("--spikes", "in.npz", "--ticks", len(told), "--save", "spikes.npz", "-q")
    assert run("simulate", out, *words, *options).code == 0
    found = np.zeros((len(told), neurons), bool)
    with np.load("spikes.npz") as saved:
        found[saved["tick"], saved["neuron"]] = True
    return found


@pytest.fixture(params=["signed", "leaks", "subtracts"])
def model(request: pytest.FixtureRequest, folder: Path) -> Iterator[Case]:
    found = case(request.param)
    found.write(folder / "model.nir")
    yield found


@pytest.mark.heavy
@pytest.mark.sample(1)
def test_the_same_spikes_everywhere(model: Case, run: Run) -> None:
    told = np.random.default_rng(9).random((TICKS, INPUTS)) < 0.4
    expected = model.run(told)
    rates = expected[:, INPUTS:].mean(axis=0)
    assert rates.max() > 0.15  # otherwise the test compares nothing
    assert 0.05 < rates.mean() < 0.8
    assert run("import", "model.nir", "net.bin", "-q").code == 0
    for number, (chip, neurons, preset) in enumerate(MAPPINGS):
        out = f"out{number}"
        words = ("--chip", chip, "--neurons-per-core", neurons, "--preset", preset, "-q")
        assert run("run", "net.bin", *words, "--threads", "1", "-o", out).code == 0
        exported = run("export", out, f"{out}.tables.json", *model.options, "--json").json()
        assert exported["weights"] == "synaptic"
        assert set(exported["left_out"]) <= {"decay_rounding"}
        assert np.array_equal(from_tables(Path(f"{out}.tables.json"), told), expected), chip
        assert run("export", out, f"{out}.yaml", *model.options, "-q").code == 0
        assert np.array_equal(from_sanafe(f"{out}.yaml", told), expected), chip
        found = from_simulate(run, out, told, np.arange(INPUTS), expected.shape[1], model.options)
        assert np.array_equal(found[:, INPUTS:], expected[:, INPUTS:])


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_the_hardware_spikes_as_the_model(model: Case, run: Run) -> None:
    told = np.random.default_rng(10).random((TICKS, INPUTS)) < 0.4
    names = {"--tick-length": ("tick_length", 1.0), "--reset": ("reset", "subtract")}
    options = dict([names[model.options[0]]]) if model.options else {}
    expected = model.run(told)
    for number, (chip, neurons, preset) in enumerate(MAPPINGS):
        out = f"out{number}"
        words = ("--chip", chip, "--neurons-per-core", neurons, "--preset", preset, "-q")
        assert run("run", "model.nir", *words, "-o", out).code == 0
        assert run("export", out, f"{out}.tables.json", *model.options, "-q").code == 0
        shape = CoreShape(**json.loads(Path(f"{out}.tables.json").read_text())["shape"])
        assert np.array_equal(from_amaranth(Path(out), shape, options, told), expected), chip


@pytest.mark.heavy
@pytest.mark.sample(1)
def test_a_graph_survives_the_round_trip(model: Case, run: Run) -> None:
    """The exported NIR graph has the weights, biases and parameters of the model."""
    words = ("--chip", "2x2", "--neurons-per-core", "8", "--preset", "fast", "-q")
    assert run("run", "model.nir", *words, "-o", "out").code == 0
    assert run("export", "out", "back.nir", "-q").code == 0
    graph, weights, bias, held = nir.read("back.nir"), {}, {}, {}
    for name, node in graph.nodes.items():
        if name.startswith("core_"):
            held[name.removeprefix("core_")] = [int(n) for n in node.metadata["neurons"]]
    for name, node in graph.nodes.items():
        if name.startswith("weights_"):
            source, target = name.removeprefix("weights_").split("_to_")
            for i, j in zip(*np.nonzero(node.weight), strict=True):
                weights[held[source][j], held[target][i]] = float(node.weight[i, j])
            for neuron, value in zip(held[target], getattr(node, "bias", []), strict=False):
                bias[neuron] = bias.get(neuron, 0.0) + float(value)
        elif type(node) is type(model.node):
            assert np.all(node.v_threshold == model.threshold)
            assert np.all(node.v_reset == model.reset)
    dense = np.column_stack([model.into, model.back])
    expected = {
        (int(j), INPUTS + int(i)): dense[i, j] for i, j in zip(*np.nonzero(dense), strict=True)
    }
    assert weights == expected
    assert sum(bias.values()) == pytest.approx(NEURONS * model.bias)
    assert run("run", "back.nir", *words, "-o", "again").code == 0  # it can be mapped again


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize(
    ("name", "chips", "options"),
    [
        ("lif_norse", ("1x1", "2x1", "2x2"), ("--tick-length", "0.0001")),
        (
            "braille_noDelay_bias_zero",
            ("2x1", "3x2", "4x4"),
            ("--tick-length", "0.0001", "--weight-bits", "12", "--synapses", "4096"),
        ),
        pytest.param(
            "cnn_sinabs",
            ("8x8", "16x4", "12x6"),
            ("--axon-bits", "13", "--synapses", "131072"),
            marks=pytest.mark.slow_hw,
        ),
    ],
)
def test_real_models(
    name: str, chips: tuple[str, ...], options: tuple[str, ...], run: Run, data_dir: Path
) -> None:
    """Rounded to integers of cores: the same spikes in every mapping, and in SANA-FE.

    SANA-FE's currents keep fractions, so spikes of braille differ by some ticks.
    """
    assert run("import", data_dir / "nir" / f"{name}.nir", "net.bin", "-q").code == 0
    words = dict(zip(options[::2], options[1::2], strict=True))
    ticks = 12 if name == "cnn_sinabs" else 200
    given: dict[str, Any] = {"quantise": True}
    if "--tick-length" in words:
        given["tick_length"] = float(words["--tick-length"])
    expected, told = None, np.zeros((0, 0), bool)
    for number, chip in enumerate(chips):
        width, height = map(int, chip.split("x"))
        with NetworkFile(Path("net.bin")) as network:
            room = -(-network.vertices // (width * height)) + 8
        cores = ("--chip", chip, "--neurons-per-core", room, "--preset", "fast", "--threads", "1")
        assert run("run", "net.bin", *cores, "-q", "-o", f"out{number}").code == 0
        target, more = f"{number}.tables.json", (*options, "--quantise")
        found = run("export", f"out{number}", target, *more, "--json").json()
        tables = json.loads(Path(target).read_text())
        assert found["left_out"] == tables["left_out"]
        assert found["left_out"]["rounded"] > 0
        shape = CoreShape(**tables["shape"])
        if expected is None:
            with NetworkFile(Path("net.bin")) as network:
                numbers = core_network(network, shape, given)
            told = np.random.default_rng(4).random((ticks, numbers.inputs.sum())) < 0.3
            expected = spikes_of(numbers, told)
            assert expected[:, ~numbers.inputs].any()
        assert np.array_equal(from_tables(Path(target), told), expected)
        kept = [name for name in ("--tick-length", "--weight-bits") if name in words]
        given_here = [word for name in kept for word in (name, words[name])]
        given_here.append("--quantise")
        assert run("export", f"out{number}", "a.yaml", *given_here, "-q").code == 0
        spikes = from_sanafe("a.yaml", told)
        if name == "braille_noDelay_bias_zero":
            assert np.count_nonzero(spikes != expected) < 0.2 * np.count_nonzero(expected)
            assert np.count_nonzero(spikes) == pytest.approx(np.count_nonzero(expected), rel=0.02)
        else:
            assert np.array_equal(spikes, expected)
        inputs, own = np.flatnonzero(numbers.inputs), ~numbers.inputs
        saved = from_simulate(run, f"out{number}", told, inputs, own.size, given_here)
        assert np.array_equal(saved[:, own], expected[:, own])
        if name != "cnn_sinabs":  # its chips have 64 cores with 16,000 synapses each
            short = from_amaranth(Path(f"out{number}"), shape, given, told[:AMARANTH_TICKS])
            assert np.array_equal(short, expected[:AMARANTH_TICKS])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "give the length of a tick in their unit with --tick-length"),
        (("--tick-length", "9"), 1, "the time constant 8 of neuron 0 of population cells"),
        (("--tick-length", "0.9"), 1, "11 neurons have a decay that is no multiple of 2^-12"),
        (("--tick-length", "1", "--weight-bits", "3"), 1, "numbers beyond the bits of a core"),
        (("--tick-length", "1", "--magnitudes"), 2, "has synaptic weights"),
        (("--leak", "3"), 2, "add --threshold"),
        (("--threshold", "3", "--tick-length", "1"), 2, "--tick-length is for the time constants"),
    ],
)
def test_models_that_cores_cannot_compute_are_refused(
    words: tuple[str, ...], code: int, told: str, folder: Path, run: Run, fails: Fails
) -> None:
    case("leaks").write(folder / "model.nir")
    fast = ("--chip", "2x2", "--neurons-per-core", "8", "--preset", "fast", "-q")
    assert run("run", "model.nir", *fast, "-o", "out").code == 0
    for name in ("a.tables.json", "a.yaml"):
        message = fails("export", "out", name, *words, code=code)
        assert told in message
        assert not Path(name).exists()


def test_a_network_without_weights_is_refused(folder: Path, run: Run, fails: Fails) -> None:
    Path("net.csv").write_text("0,1,2\n1,2,-1\n")
    fast = ("--chip", "2x2", "--neurons-per-core", "8", "--preset", "fast", "-q")
    assert run("run", "net.csv", *fast, "-o", "out").code == 0
    for words in (("--tick-length", "1"), ("--quantise",)):
        message = fails("export", "out", "a.tables.json", "--threshold", "1", *words, code=2)
        assert "is for networks with synaptic weights; leave it out" in message
    message = fails("export", "out", "a.tables.json", "--threshold", "1")
    assert "import its source again with --weights-are synapse" in message
    assert run("run", "net.csv", *fast, "--weights-are", "synapse", "-o", "again").code == 0
    report = json.loads(Path("again/report.json").read_text())["network"]
    assert (report["weights_are"], report["traffic"]["source"]) == ("synapse", "uniform")
    assert "add --threshold" in fails("export", "again", "a.tables.json", code=2)
    found = run("export", "again", "a.tables.json", "--threshold", "1", "--json").json()
    assert (found["weights"], found["left_out"]) == ("synaptic", {})
    tables = json.loads(Path("a.tables.json").read_text())
    assert sorted(w for core in tables["cores"] for _, w, _ in core["synapses"]) == [-1, 2]
    assert run("import", "net.csv", "net.bin", "-q").code == 0
    told = fails("run", "net.bin", *fast, "--weights-are", "synapse", "-o", "no", code=2)
    assert "is a network file; --weights-are is for files to import" in told
