"""NIR graphs as models: populations with their parameters, and the synapses between them.

Unlike a network file (`storage.formats.hdf5.nirfile`), a model keeps populations apart, with delays
and the parameters of each kind of neuron. All nodes on the paths between two populations become one
matrix for each delay: the sum over the paths of the products of their weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from storage.budget import require_room
from storage.errors import BadInputError, MemoryShortError, with_place
from storage.formats.hdf5 import file as hdf5
from storage.formats.hdf5.nirfile import layer_of, nodes_towards, understood
from storage.formats.hdf5.nirgraph import POPULATIONS, NirNode, read_graph
from storage.formats.hdf5.nirneurons import bias_of
from storage.formats.hdf5.nirobject import tree
from storage.formats.hdf5.nirshapes import Shapes
from storage.formats.layers.linear import Rows, Same, Shape, add, pull, row_blocks

Floats = NDArray[np.float64]
DEFAULTS = {"w_in": 1.0, "v_reset": 0.0}
"""Values of parameters that a node leaves out."""
OPTIONAL = {"CubaLI": ("w_in",), "CubaLIF": ("w_in", "v_reset"), "IF": ("v_reset",),
            "LIF": ("v_reset",)}  # fmt: skip
"""Optional parameters of each kind; `POPULATIONS` has the required ones."""
TIMES = ("tau", "tau_mem", "tau_syn")
NEURON_BYTES = 64  # several real parameters
SYNAPSE_BYTES = 12  # a weight and the number of its source
ROWS_PER_BLOCK = 1 << 12  # target neurons whose paths are multiplied at a time, at most


class NirPopulation(NamedTuple):
    """Neurons of a node.

    kind : type of the node; "Output" for readout elements that weights lead to
    parameters : by name, each of shape (neurons,)
    """

    name: str
    kind: str
    shape: Shape
    parameters: dict[str, Floats]


class NirConnection(NamedTuple):
    """Synapses of one delay between two populations.

    source, target : numbers of the populations
    weight : csr_array of float64, shape (neurons of target, neurons of source)
    delay : in the time unit of the file
    """

    source: int
    target: int
    weight: Any
    delay: float


class NirModel(NamedTuple):
    """A model.

    bias : input current of each population by all paths, shape (neurons,), or None
    outputs : name of each output and the number of its population
    time_step : `dt` of the metadata of the graph, None if the file gives none
    """

    populations: tuple[NirPopulation, ...]
    connections: tuple[NirConnection, ...]
    bias: tuple[Floats | None, ...]
    outputs: tuple[tuple[str, int], ...]
    time_step: float | None


def read_nir_model(source: Any, memory: int | None = None) -> NirModel:
    """Read a NIR file, or a `nir.NIRGraph` in memory.

    memory : bytes for each parameter and each matrix; None: no limit
    Raises `BadInputError` that names the node, if the graph violates the rules of NIR,
    `MemoryShortError` if it declares more than the memory.
    """
    if not isinstance(source, Path):
        return _model(tree(source), memory)
    with hdf5.opened(source, "nir") as file:
        try:
            return _model(file, memory)
        except (BadInputError, MemoryShortError) as error:
            raise with_place(str(source), error) from error


def _model(file: Any, memory: int | None) -> NirModel:
    nodes = read_graph(file, memory)
    order, shapes, numbers = understood(nodes)
    place = {number: at for at, number in enumerate(numbers)}
    populations = tuple(_population(nodes[number], shapes.stop[number]) for number in numbers)
    connections: list[NirConnection] = []
    bias: list[Floats | None] = []
    for number in numbers:
        paths = DelayedPaths(nodes, number, order, shapes)
        for (other, delay), weight in sorted(paths.matrices().items()):
            weight.eliminate_zeros()
            connections.append(NirConnection(place[other], place[number], weight, delay))
        bias.append(paths.bias)
    outputs = _outputs(nodes, place)
    if not outputs:
        raise BadInputError("no Output; connect the last population to one")
    if not any(node.kind == "Input" for node in nodes):
        raise BadInputError("no Input; connect one to the first weights")
    return NirModel(populations, tuple(connections), tuple(bias), outputs, _time_step(file))


def _population(node: NirNode, shape: Shape) -> NirPopulation:
    """Return the neurons of a node; raise `BadInputError` for parameters that do not fit."""
    parameters: dict[str, Floats] = {}
    if node.memory is not None:
        what = f"node {node.name!r} ({node.kind}): its population"
        require_room(what, NEURON_BYTES * math.prod(shape), node.memory)
    for name in (*POPULATIONS.get(node.kind, ()), *OPTIONAL.get(node.kind, ())):
        if name in DEFAULTS and not node.has(name):
            parameters[name] = np.full(math.prod(shape), DEFAULTS[name])
            continue
        values = node.array(name).astype(np.float64)
        values = values.reshape(shape) if values.size == math.prod(shape) else values
        parameters[name] = np.broadcast_to(values, shape).ravel()
        if name in TIMES and (parameters[name] <= 0).any():
            raise node.fault(
                f"{name} is {parameters[name].min():g}; time constants must be above 0"
            )
    return NirPopulation(node.name, node.kind, tuple(shape), parameters)


def _outputs(nodes: Sequence[NirNode], place: dict[int, int]) -> tuple[tuple[str, int], ...]:
    """Return the outputs of the whole graph and the population of each."""
    found = []
    for number, node in enumerate(nodes):
        if node.kind != "Output":
            continue
        at = number
        while at not in place:  # nodes in between only change the shape
            if len(nodes[at].before) != 1:
                raise node.fault("several nodes lead to it; give each a separate Output")
            at = nodes[at].before[0]
        found.append((node.name, place[at]))
    return tuple(found)


def _time_step(file: Any) -> float | None:
    metadata = file["node"].get("metadata")
    if metadata is None or not hasattr(metadata, "items") or "dt" not in metadata:
        return None
    hdf5.require_content(metadata["dt"], "dt of the metadata")
    value = np.asarray(metadata["dt"][()])
    if value.size != 1 or value.dtype.kind not in "iuf" or not float(value.ravel()[0]) > 0:
        raise BadInputError(f"dt of the metadata is {value}; it must be one number above 0")
    return float(value.ravel()[0])


class DelayedPaths:
    """All paths from other populations to the neurons of one, as matrices by delay.

    bias : input current of the neurons by all paths, shape (neurons,), None without biases; after
        `matrices`
    """

    def __init__(
        self, nodes: Sequence[NirNode], target: int, order: Sequence[int], shapes: Shapes
    ) -> None:
        """order : all nodes without neurons in topological order"""
        self.bias: Floats | None = None
        self._nodes, self._target, self._shapes = nodes, target, shapes
        self._way = nodes_towards(nodes, target, order)
        self._size = math.prod(shapes.before[target])
        self._layers = {number: layer_of(nodes, number, shapes) for number in self._way}
        self._delays = {
            number: _delays(nodes[number], shapes.before[number])
            for number in self._way
            if nodes[number].kind == "Delay"
        }

    def matrices(self) -> dict[tuple[int, float], Any]:
        """Return the weights by source node and delay, csr_array (neurons, neurons of source)."""
        target, fan_in = self._nodes[self._target], self._fan_in()
        if target.memory is not None:
            what = f"node {target.name!r} ({target.kind}): its matrix of synapses"
            require_room(what, SYNAPSE_BYTES * self._size * fan_in, target.memory)
        blocks: dict[tuple[int, float], list[Any]] = {}
        heights: list[int] = []
        for block in row_blocks(self._size, fan_in):
            for at in range(0, block.size, ROWS_PER_BLOCK):
                wanted = block[at : at + ROWS_PER_BLOCK]
                for key, rows in self._rows(wanted).items():
                    known = blocks.setdefault(key, [])
                    known += [csr_array((n, rows.shape[1])) for n in heights[len(known) :]]
                    known.append(rows)
                heights.append(wanted.size)
        for known in blocks.values():
            width = known[0].shape[1]
            known += [csr_array((n, width)) for n in heights[len(known) :]]
        return {key: vstack(known, format="csr") for key, known in blocks.items()}

    def _fan_in(self) -> int:
        """Return about how many entries the matrices of one neuron hold at most."""
        most = 1
        for number in self._way:
            most = max(most, self._layers[number].fan_in)
        return most

    def _rows(self, wanted: NDArray[np.int64]) -> dict[tuple[int, float], Rows]:
        """Return the rows of the neurons `wanted`, by source node and delay."""
        start = Same(self._size).rows(wanted)
        found: dict[tuple[int, float], Rows] = {}
        for other in self._nodes[self._target].before:
            found[other, 0.0] = start
        for number in self._way:
            for key in [key for key in found if key[0] == number]:
                rows = found.pop(key)
                self._add_bias(number, rows, wanted)
                for delay, part in self._later(number, rows):
                    before = pull(part, self._layers[number])
                    for other in self._nodes[number].before:
                        one = (other, key[1] + delay)
                        found[one] = add(found[one], before) if one in found else before
        return found

    def _later(self, number: int, rows: Rows) -> list[tuple[float, Rows]]:
        """Split rows by the delay of their columns, the elements of a Delay node."""
        if number not in self._delays:
            return [(0.0, rows)]
        delay = self._delays[number][rows.indices]
        found = []
        for value in np.unique(delay).tolist():
            part = rows.copy()
            part.data = np.where(delay == value, rows.data, 0.0)
            part.eliminate_zeros()
            found.append((float(value), part))
        return found

    def _add_bias(self, number: int, rows: Rows, wanted: NDArray[np.int64]) -> None:
        bias = bias_of(self._nodes, number, self._shapes.stop[number])
        if bias is None or not bias.any():
            return
        if self.bias is None:
            self.bias = np.zeros(self._size)
        self.bias[wanted] += rows @ bias.astype(np.float64)


def _delays(node: NirNode, shape: Shape) -> Floats:
    """Return the delay of each element of a Delay node; raise `BadInputError` below 0."""
    values = node.array("delay").astype(np.float64)
    values = values.reshape(shape) if values.size == math.prod(shape) else values
    if (values < 0).any():
        raise node.fault(f"a delay is {values.min():g}; delays must not be negative")
    return np.broadcast_to(values, shape).ravel()
