"""NIR models of whole numbers: the same spikes from file to cores, whatever the mapping.

The reference is the model itself, in a few lines of Python: potentials in real numbers, a spike
above the threshold, a reset to its value or by subtraction. A leak rounds as cores do.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hw.chip import Chip
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from mapper.exports.base import open_run
from mapper.exports.hardware_network import core_network, tables_of
from tests.mapper.conftest import Run

nir = pytest.importorskip("nir")
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

TICKS = 40
INPUTS, NEURONS = 5, 11
MAPPINGS = (("2x2", "4", "fast"), ("3x1", "8", "classic"), ("4x2", "2", "default"))
Bools = NDArray[np.bool_]


class Case(NamedTuple):
    """A model: weights (target, source), and what its neurons do in a tick.

    shift : of the leak, None for none
    options : that an export needs to know
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
        """Spikes of inputs and cells, shape (ticks, neurons); told : of inputs."""
        potential, spikes = np.zeros(NEURONS), np.zeros(INPUTS + NEURONS, bool)
        found = np.zeros((TICKS, INPUTS + NEURONS), bool)
        weights = np.column_stack([self.into, self.back])
        for tick in range(TICKS):
            if self.shift is not None:  # counted from the reset potential, as cores do
                above = potential - self.reset
                potential = self.reset + above - np.floor(above / 2**self.shift)
            potential = potential + weights @ spikes + self.drive
            fires = potential > self.threshold
            rest = potential - self.threshold if self.subtract else self.reset
            potential = np.where(fires, rest, potential)
            spikes = np.concatenate([told[tick], fires])
            found[tick] = spikes
        return found


def case(name: str) -> Case:
    """signed : weights of both signs, self-loops, biases; leaks : also leaks, and a reset that is
    not to zero; subtracts : quarters, and a reset by subtraction."""
    rng = np.random.default_rng(8)
    into = rng.integers(-4, 9, (NEURONS, INPUTS)).astype(float)
    back = rng.integers(-5, 6, (NEURONS, NEURONS)).astype(float)
    np.fill_diagonal(back, rng.choice([-3.0, 2.0], NEURONS))
    ones = np.ones(NEURONS)
    if name == "signed":
        node = nir.IF(r=ones, v_threshold=6 * ones, v_reset=0 * ones)
        return Case(into, back, node, None, 1.0, 6.0, 0.0, False, ())
    if name == "leaks":  # in a tick an eighth leaks, towards 10: 1.625 a tick from the reset on
        node = nir.LIF(
            tau=8 * ones, r=8 * ones, v_leak=13 * ones, v_threshold=9 * ones, v_reset=-3 * ones
        )
        return Case(into, back, node, 3, 2.0, 9.0, -3.0, False, ("--tick-length", "1"))
    node = nir.IF(r=ones, v_threshold=6.5 * ones)
    return Case(into / 4, back / 4, node, None, 0.75, 6.5, 0.0, True, ("--reset", "subtract"))


def from_tables(path: Path, told: Bools) -> Bools:
    """Spikes of all neurons by what tables.json says, and docs/core.md of it."""
    tables = json.loads(path.read_text())
    cores, no_leak = tables["cores"], 2 ** tables["shape"]["leak_bits"] - 1
    potentials = [list(core["potentials"]) for core in cores]
    sums = [[0] * len(core["neurons"]) for core in cores]
    spikes = np.zeros((TICKS, told.shape[1] + NEURONS), bool)
    for tick in range(TICKS):
        arriving = [[0] * len(core["neurons"]) for core in cores]
        for core, own, total in zip(cores, potentials, sums, strict=True):
            for i, neuron in enumerate(core["neurons"]):
                threshold, bias, leak, subtract = core["parameters"][i]
                value = own[i] - (0 if leak == no_leak else own[i] >> leak) + total[i] + bias
                fires = value >= threshold
                own[i] = (value - threshold if subtract else 0) if fires else value
                if neuron in tables["inputs"]:
                    fires = bool(told[tick, tables["inputs"].index(neuron)])
                if not fires:
                    continue
                spikes[tick, neuron] = True
                for x, y, axon in core["routes"][slice(*core["route_indptr"][i : i + 2])]:
                    k = y * tables["width"] + x
                    there = slice(*cores[k]["synapse_indptr"][axon : axon + 2])
                    for target, weight in cores[k]["synapses"][there]:
                        arriving[k][target] += weight
        sums = arriving
    return spikes


def from_amaranth(out: Path, shape: CoreShape, options: dict[str, Any], told: Bools) -> Bools:
    """Spikes of the chip itself; the host sends the packets of inputs."""
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
    # before a tick, of the spikes in the tick before it
    events = [[], *(np.flatnonzero(row).tolist() for row in told[:-1])]
    chip = Chip(tables.width, tables.height, shape)
    spikes = ChipSimulator(chip).run(fed, TICKS, events).spikes
    found = np.array(spikes[:, : INPUTS + NEURONS])
    assert not found[:, inputs].any()  # they never spike by themselves
    found[:, inputs] = told
    return found


def from_sanafe(name: str, told: Bools) -> Bools:
    """Spikes of SANA-FE's simulator, from the files of an export."""
    sanafe = pytest.importorskip("sanafe")
    lines, number = [], 0
    for line in Path(name).read_text().splitlines():
        if "soma_hw_name" in line:
            train = ", ".join(map(str, told[:, number].astype(int)))
            line, number = line.replace("}", f", spikes: [{train}]}}"), number + 1
        if line.startswith("        - "):
            line = line.replace("}", ", log_spikes: true}")
        lines.append(line)
    assert number == INPUTS
    Path("logged.yaml").write_text("\n".join(lines) + "\n")
    arch = sanafe.load_arch(str(Path(name).with_suffix(".arch.yaml")))
    chip = sanafe.SpikingChip(arch)
    chip.load(sanafe.load_net("logged.yaml", arch))
    found = np.zeros((TICKS, INPUTS + NEURONS), bool)
    for tick, spikes in enumerate(chip.sim(TICKS, spike_trace=True)["spike_trace"]):
        for spike in spikes:
            found[tick, int(str(spike).split(".")[1])] = True
    return found


@pytest.fixture(params=["signed", "leaks", "subtracts"])
def model(request: pytest.FixtureRequest, folder: Path) -> Iterator[Case]:
    found = case(request.param)
    found.write(folder / "model.nir")
    yield found


def test_the_same_spikes_everywhere(model: Case, run: Run) -> None:
    told = np.random.default_rng(9).random((TICKS, INPUTS)) < 0.4
    expected = model.run(told)
    rates = expected[:, INPUTS:].mean(axis=0)
    assert rates.max() > 0.15  # else nothing is compared
    assert 0.05 < rates.mean() < 0.8
    assert run("import", "model.nir", "net.bin", "-q").code == 0
    for number, (chip, neurons, preset) in enumerate(MAPPINGS):
        out = f"out{number}"
        words = ("--chip", chip, "--neurons-per-core", neurons, "--preset", preset, "-q")
        assert run("run", "net.bin", *words, "--threads", "1", "-o", out).code == 0
        exported = run("export", out, f"{out}.tables.json", *model.options, "--json").json()
        assert exported["weights"] == "synaptic"
        assert set(exported["left_out"]) <= {"leak_rounding"}
        assert np.array_equal(from_tables(Path(f"{out}.tables.json"), told), expected), chip
        assert run("export", out, f"{out}.yaml", *model.options, "-q").code == 0
        assert np.array_equal(from_sanafe(f"{out}.yaml", told), expected), chip


def test_the_hardware_spikes_as_the_model(model: Case, run: Run) -> None:
    told = np.random.default_rng(10).random((TICKS, INPUTS)) < 0.4
    words = ("--chip", "2x2", "--neurons-per-core", "8", "--preset", "fast", "-q")
    assert run("run", "model.nir", *words, "-o", "out").code == 0
    assert run("export", "out", "a.tables.json", *model.options, "-q").code == 0
    shape = CoreShape(**json.loads(Path("a.tables.json").read_text())["shape"])
    names = {"--tick-length": ("tick_length", 1.0), "--reset": ("reset", "subtract")}
    options = dict([names[model.options[0]]]) if model.options else {}
    found = from_amaranth(Path("out"), shape, options, told)
    assert np.array_equal(found, model.run(told))


def test_a_graph_comes_back_as_it_was(model: Case, run: Run) -> None:
    """The NIR graph of a mapping has the weights, biases and parameters of the model."""
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
    assert run("run", "back.nir", *words, "-o", "again").code == 0  # and it is a model again
