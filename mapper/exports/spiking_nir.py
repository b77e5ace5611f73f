"""Compiled spiking models as NIR graphs: the network of integers, in the units of the model.

Each population is a node of its kind. Weights, thresholds, biases and reset values are integers of
the cores times a unit per neuron: the power of two nearest to 1 / scale, so that sums are exact in
floating point, or for neurons that never spike 1 / scale itself, so that their potentials compare.
Decays of a / 2^decay_bits are time constants tick / (1 - a / 2^decay_bits), and r and w_in cancel
them in the weights. NIR's neurons spike above their threshold, cores at it: thresholds are half an
integer lower. A reset by subtraction subtracts them, so that they are lower by `BELOW` only
where potentials leak, and not at all where they do not, as those start an integer too low in cores.

Delays of the model are Delay nodes; delays that balance paths of the chip are left out, since
`mapper compile` adds them again. NIR has only dense matrices, and a Linear node has one axis: the
populations are flat, and inputs keep their shape by a Flatten.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import MapperError
from mapper.exports.nir_graph import MAX_WEIGHTS
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.model import SpikingPopulation
from mapper.spiking.schedule import schedule
from storage.extras import require
from storage.files import write_file
from storage.formats.losses import Loss

Floats = NDArray[Any]
BELOW = 2.0**-10
"""Integers by which a threshold that is subtracted is lower."""
NO_LEAK = 2.0**30
"""Time constant, in ticks, of single neurons without leak: their decay rounds to none again."""
WITHOUT_LEAK = {"LIF": "IF", "LI": "I"}
"""Kinds of populations in which all leaks are rounded to none."""


def save_nir(folder: SpikingFolder, destination: Path) -> dict[str, Any]:
    """Write the graph; return facts for the user.

    Raises `MapperError` if its matrices have more than `MAX_WEIGHTS` numbers.
    """
    nir = require("nir", "nir", destination, "NIR graphs")
    model, network = folder.model, folder.integers.network
    sizes = [each.size for each in model.populations]
    numbers = sum(sizes[each.source] * sizes[each.target] for each in model.connections)
    if numbers > MAX_WEIGHTS:
        raise MapperError(
            f"{folder.path}: its weights need {numbers:,} numbers, since NIR has only dense "
            f"matrices, and at most {MAX_WEIGHTS:,} are written; export the tables instead"
        )
    graph = _Graph(nir, folder)
    for number, each in enumerate(model.populations):
        graph.add_population(number, each)
    matrices = graph.add_connections()
    graph.add_outputs()
    losses = graph.losses()
    about = {
        "dt": model.tick, "reset": folder.manifest.reset, "chip": folder.chip.name,
        "left_out": "; ".join(f"has {loss.text}" for loss in losses),
    }  # fmt: skip
    buffer = io.BytesIO()
    nir.write(buffer, nir.NIRGraph(graph.nodes, graph.edges, metadata=about))
    write_file(destination, buffer.getvalue())
    return {"neurons": network.neurons, "matrices": matrices, "losses": losses}


class _Graph:
    """Nodes and edges of a graph that is built.

    unit : real value of an integer weight's unit 2^-shift, per neuron
    """

    def __init__(self, nir: Any, folder: SpikingFolder) -> None:
        self.nodes: dict[str, Any] = {}
        self.edges: list[tuple[str, str]] = []
        self._nir, self._folder = nir, folder
        network = folder.integers.network
        scale = folder.integers.state_scale
        self.unit = np.where(network.silent == 1, 1 / scale, 2.0 ** -np.rint(np.log2(scale)))
        kept = network.dynamics(folder.integers.shape)
        self._kept = kept[:, :2] / folder.integers.shape.unity  # of current and potential
        self._names: list[str] = []
        self._flat: list[str] = []  # nodes whose spikes have one axis
        self._bias: dict[int, Floats] = {}

    def _own(self, number: int) -> slice:
        model = self._folder.model
        return slice(model.first[number], model.first[number] + model.populations[number].size)

    def _fresh(self, name: str) -> str:
        """Return a name of a node that is not in use; dots and slashes would nest graphs."""
        plain = name.replace(".", "_").replace("/", "_")
        while plain in self.nodes:
            plain += "_"
        return plain

    def add_population(self, number: int, each: SpikingPopulation) -> None:
        """Add the node of a population, with a Flatten after an input of several axes."""
        nir, name = self._nir, self._fresh(each.name)
        self._names.append(name)
        self._flat.append(name)
        if each.dynamics is None:
            self.nodes[name] = nir.Input({"input": np.array(each.shape)})
            if len(each.shape) > 1:
                flat = self._flat[-1] = self._fresh(f"{name}_flat")
                types = {"input": np.array(each.shape)}
                self.nodes[flat] = nir.Flatten(input_type=types, start_dim=0, end_dim=-1)
                self.edges.append((name, flat))
            return
        own = self._own(number)
        network, unit = self._folder.integers.network, self.unit[own]
        current, potential = (network.current_bias[own] * unit, network.potential_bias[own] * unit)
        kind = each.kind
        if (self._kept[own, 1] == 1).all():
            kind = WITHOUT_LEAK.get(kind, kind)
        about = {"first": own.start, "scale": unit * self._folder.integers.state_scale[own]}
        given = self._parameters(kind, own)
        if "v_leak" in given:
            given["v_leak"] = potential * given["r"]
            self._bias[number] = current
        else:
            self._bias[number] = current + potential
        if kind == "Output":
            self.nodes[name] = nir.Output({"output": np.array([each.size])}, metadata=about)
        else:
            self.nodes[name] = getattr(nir, kind)(**given, metadata=about)

    def _parameters(self, kind: str, own: slice) -> dict[str, Floats]:
        """Return the parameters of neurons, with `v_leak` for a kind with time constants."""
        network, unit, tick = self._folder.integers.network, self.unit[own], self._folder.model.tick
        ones = np.ones(own.stop - own.start)
        lost = np.where(self._kept[own] < 1, 1 - self._kept[own], 1 / NO_LEAK)
        given: dict[str, Floats] = {}
        if kind.startswith("Cuba"):
            given |= {"tau_syn": tick / lost[:, 0], "w_in": 1 / lost[:, 0]}
        if kind in ("LIF", "LI") or kind.startswith("Cuba"):
            name = "tau_mem" if kind.startswith("Cuba") else "tau"
            given |= {name: tick / lost[:, 1], "r": 1 / lost[:, 1], "v_leak": 0 * ones}
        elif kind in ("IF", "I"):
            given["r"] = ones
        soft = network.subtract[own] == 1
        below = np.where(soft, np.where(self._kept[own, 1] < 1, BELOW, 0.0), 0.5)
        threshold = (network.threshold[own] - below) * unit
        if kind in ("IF", "LIF", "CubaLIF"):
            given["v_threshold"] = threshold
            given["v_reset"] = np.where(soft, 0.0, network.reset[own] * unit)
        elif kind == "Threshold":
            given["threshold"] = threshold
        return given

    def add_connections(self) -> int:
        """Add the matrices, each after the Delay of its connection; return their number.

        The first matrix that leads to a population also has its bias.
        """
        model, integers = self._folder.model, self._folder.integers
        network = integers.network
        delays = schedule(model, integers.shape.longest_delay).delays
        for count, (each, delay) in enumerate(zip(model.connections, delays, strict=True)):
            source, target = self._own(each.source), self._own(each.target)
            own = (network.delay == delay) & (network.source >= source.start)
            own &= (network.source < source.stop) & (network.target >= target.start)
            own &= network.target < target.stop
            matrix = np.zeros((target.stop - target.start, source.stop - source.start))
            rows, columns = network.target[own], network.source[own] - source.start
            real = np.ldexp(network.weight[own].astype(float), network.shift[rows])
            real *= self.unit[rows]
            if model.populations[each.source].dynamics is None:
                real /= integers.options.input_unit
            np.add.at(matrix, (rows - target.start, columns), real)
            begin = self._flat[each.source]
            if each.delay:
                late = self._fresh(f"delay{count}")
                size = model.populations[each.source].size
                self.nodes[late] = self._nir.Delay(np.full(size, each.delay * model.tick))
                self.edges.append((begin, late))
                begin = late
            name = self._fresh(f"weights{count}")
            bias = self._bias.pop(each.target, None)
            if bias is None or not bias.any():
                self.nodes[name] = self._nir.Linear(matrix)
            else:
                self.nodes[name] = self._nir.Affine(matrix, bias)
            self.edges += [(begin, name), (name, self._names[each.target])]
        return len(model.connections)

    def add_outputs(self) -> None:
        """Add the outputs; a population of kind Output is one."""
        for output in self._folder.model.outputs:
            each = self._folder.model.populations[output.population]
            if each.kind != "Output":
                name = self._fresh(output.name)
                self.nodes[name] = self._nir.Output({"output": np.array([each.size])})
                self.edges.append((self._flat[output.population], name))

    def losses(self) -> list[Loss]:
        """Return the arithmetic of cores that NIR does not have."""
        decays = int(((self._kept > 0) & (self._kept < 1)).any(axis=1).sum())
        text = (
            f"no rounding of decays: {decays:,} neurons keep fractions of currents and potentials "
            "that cores drop in every tick, and may spike at other ticks"
        )
        return [Loss("decay_rounding", decays, text)] if decays else []
