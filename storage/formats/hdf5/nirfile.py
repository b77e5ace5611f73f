"""NIR graphs (Neuromorphic Intermediate Representation, .nir). Needs h5py (extra `nir`).

Neurons are the elements of the nodes CubaLI, CubaLIF, I, IF, LI, LIF, Threshold and Input; Inputs
send the spikes that come from outside, as in the other layered networks here. An Output holds no
neurons, unless weights lead to it: then its elements are the readout neurons. Ids run through these
nodes in `nirgraph.visiting_order`, row-major within each; the attribute `population` names the node
of a neuron.

Synapses are the products of all nodes on a path between two of these nodes (Affine, Linear, Conv1d,
Conv2d, SumPool2d, AvgPool2d, Scale), summed over all paths; Delay and Flatten change nothing. If
the sum is zero there is no synapse, and `weights_zero` of the provenance counts it. Weights are
kept with their signs, and so are the kinds, parameters and biases of neurons
(`storage.store.neurons`), unless the job states that the numbers are traffic; then
`weights_negative` counts the negative ones. Delays are dropped and counted. The format has no
firing rates: by default each neuron gets a `rate` of 1, and so does each of its synapses; on
request the traffic of a synapse is the magnitude of its weight, and neurons have no rates
(`traffic`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.budget import require_room
from storage.errors import BadInputError, MemoryShortError, with_place
from storage.formats.base import ImportJob
from storage.formats.hdf5 import file as hdf5
from storage.formats.hdf5.nirgraph import (
    NirNode,
    connection_order,
    read_graph,
    visiting_order,
)
from storage.formats.hdf5.nirneurons import NirNeurons, bias_of
from storage.formats.hdf5.nirobject import tree
from storage.formats.hdf5.nirshapes import Shapes
from storage.formats.layers.linear import (
    Convolution,
    Dense,
    LinearLayer,
    Pooling,
    Rows,
    Same,
    Shape,
    SynapseWriter,
    add,
    pull,
    row_blocks,
)
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import POPULATION
from storage.store.traffic import UNIFORM

NEURON_BYTES = 24  # kind, population, and at least one parameter


def layer_of(nodes: Sequence[NirNode], number: int, shapes: Shapes) -> LinearLayer:
    """Return the linear map of a node without neurons; reads the weights."""
    node, taken = nodes[number], shapes.before[number]
    if node.kind in ("Linear", "Affine"):
        return Dense(node.array("weight"))
    if node.kind in ("Conv1d", "Conv2d"):
        groups = node.whole("groups")[0] if node.has("groups") else 1
        return Convolution(node.array("weight"), shapes.windows(number), groups)
    if node.kind.endswith("Pool2d"):
        mean = "kernel" if node.kind == "AvgPool2d" else ""
        return Pooling(taken[0], shapes.windows(number), mean)
    size = int(np.prod(taken))
    if node.kind == "Scale":
        return Same(size, np.broadcast_to(_fitted(node.array("scale"), taken), taken).ravel())
    return Same(size)


def _fitted(values: NDArray[Any], shape: Shape) -> NDArray[Any]:
    """Reshape values of equal size (axes of length 1 differ); return others for broadcasting."""
    return values.reshape(shape) if values.size == np.prod(shape) else values


def nodes_towards(nodes: Sequence[NirNode], target: int, order: Sequence[int]) -> list[int]:
    """Return the nodes without neurons on all paths to a population, from there backwards.

    order : all nodes without neurons in topological order
    """
    reached, waiting = {target}, [target]
    while waiting:
        for other in nodes[waiting.pop()].before:
            if other not in reached and not nodes[other].neurons:
                reached.add(other)
                waiting.append(other)
    return [number for number in reversed(order) if number in reached - {target}]


class _Paths:
    """All paths from other populations to the neurons of one, as matrices."""

    def __init__(self, nodes: Sequence[NirNode], target: int, order: Sequence[int], shapes: Shapes):
        """order : all nodes without neurons in topological order"""
        self._nodes, self._target = nodes, target
        self._way = nodes_towards(nodes, target, order)
        self._layers = {number: layer_of(nodes, number, shapes) for number in self._way}
        biases = {number: bias_of(nodes, number, shapes.stop[number]) for number in self._way}
        self._biases = {number: bias for number, bias in biases.items() if bias is not None}
        self.size = int(np.prod(shapes.before[target]))

    def fan_in(self) -> int:
        """Return about how many entries the matrices of one neuron hold at most."""
        entries = dict.fromkeys(self._nodes[self._target].before, 1)
        most = sum(entries.values())
        for number in self._way:
            layer = self._layers[number]
            made = entries[number] * layer.fan_in
            most = max(most, made)
            for other in self._nodes[number].before:
                entries[other] = min(entries.get(other, 0) + made, layer.inputs)
        return most

    def rows(
        self, wanted: NDArray[np.int64], on_bias: Callable[[Rows, NDArray[Any]], None]
    ) -> dict[int, Rows]:
        """Return matrices from the populations, keyed by node number, to the neurons `wanted`.

        on_bias : called with each bias on a path and the matrix from there to the neurons
        """
        start = Same(self.size).rows(wanted)
        found: dict[int, Rows] = dict.fromkeys(self._nodes[self._target].before, start)
        for number in self._way:
            stop = found.pop(number)
            if number in self._biases:
                on_bias(stop, self._biases[number])
            rows = pull(stop, self._layers[number])
            for other in self._nodes[number].before:
                found[other] = add(found[other], rows) if other in found else rows
        return found


def understood(nodes: Sequence[NirNode]) -> tuple[list[int], Shapes, list[int]]:
    """Return the order of nodes without neurons, the shapes, and the populations by id."""
    order = connection_order(nodes)  # first: a cycle would leave shapes unknown
    visited = visiting_order(nodes)
    return order, Shapes(nodes, visited), [number for number in visited if nodes[number].neurons]


def _convert(
    nodes: Sequence[NirNode], job: ImportJob, provenance: dict[str, Any], traffic: str | None
) -> NetworkMeta:
    traffic = traffic or UNIFORM
    order, shapes, populations = understood(nodes)
    sizes = [_elements(nodes[number], shapes.stop[number]) for number in populations]
    starts = dict(zip(populations, np.append(0, np.cumsum(sizes)).tolist(), strict=False))
    neurons = sum(sizes)
    require_room(f"a network of {neurons:,} neurons", NEURON_BYTES * neurons, job.memory)
    for number in order:  # finds all damaged weights before any multiplication
        layer_of(nodes, number, shapes)
    about = NirNeurons(neurons)
    with job.writer(neurons, weights_are_rates=traffic == UNIFORM) as writer:
        synapses = SynapseWriter(writer, traffic)
        for population, size in zip(populations, sizes, strict=True):
            paths = _Paths(nodes, population, order, shapes)
            about.add(nodes[population], starts[population], shapes.stop[population])
            for wanted in row_blocks(paths.size, paths.fan_in()):
                target = starts[population] + wanted
                for other, rows in paths.rows(
                    wanted, partial(about.add_bias, target=target)
                ).items():
                    source = starts[other] + np.arange(rows.shape[1])
                    synapses.add(rows, source, target)
            job.progress((starts[population] + size) / neurons)
        provenance |= synapses.finish() | _delays(nodes)
        labels = [nodes[number].name for number in populations]
        writer.set_attribute(POPULATION, np.repeat(np.arange(len(sizes)), sizes), labels)
        if writer.keeps_weights:
            about.write(writer)
        return writer.finish(provenance)


def _delays(nodes: Sequence[NirNode]) -> dict[str, int]:
    """Return the provenance entry on delays, which synapses lack; empty without delays."""
    delayed = sum(
        int(np.count_nonzero(node.array("delay"))) for node in nodes if node.kind == "Delay"
    )
    return {"delays_left_out": delayed} if delayed else {}


def _elements(node: NirNode, shape: Shape) -> int:
    size = 1
    for length in shape:  # Python integers do not overflow
        size *= int(length)
    if size > MAX_VERTICES:
        raise node.fault(f"its shape {shape} exceeds {MAX_VERTICES} neurons")
    return size


@dataclass(frozen=True, slots=True)
class Population:
    """Neurons of a NIR file; their ids follow the previous population, row-major.

    group : path of the node in the HDF5 file
    """

    name: str
    group: str
    shape: Shape


def read_populations(source: Path) -> list[Population]:
    """Return the populations of a NIR graph, ordered by their ids in the network of `load`.

    Raises `BadInputError` like `load`.
    """
    with hdf5.opened(source, "nir") as file:
        try:
            nodes = read_graph(file)
            _, shapes, populations = understood(nodes)
        except (BadInputError, MemoryShortError) as error:
            raise with_place(str(source), error) from error
        return [
            Population(nodes[number].name, nodes[number].group.name, shapes.stop[number])
            for number in populations
        ]


def load(job: ImportJob, traffic: str | None = None) -> NetworkMeta:
    """Convert a NIR graph to a directed network file.

    traffic : `UNIFORM` (also if None) or `WEIGHTS` of `storage.store.traffic`
    Only the weights of nodes that lead to one population are in memory at a time.
    Raises `BadInputError` that names the node, if the graph violates the rules of NIR.
    """
    provenance = {"format": "nir", "source": job.source.name}
    with hdf5.opened(job.source, "nir") as file:
        try:
            return _convert(read_graph(file, job.memory), job, provenance, traffic)
        except (BadInputError, MemoryShortError) as error:
            raise with_place(str(job.source), error) from error


def load_graph(graph: Any, job: ImportJob, traffic: str | None = None) -> NetworkMeta:
    """Convert a `nir.NIRGraph` in memory to the network that `load` creates from its file.

    job : its source stands for the graph in messages; traffic : see `load`
    Raises `BadInputError` that names the node, if the graph violates the rules of NIR.
    """
    try:
        return _convert(read_graph(tree(graph)), job, {"format": "nir"}, traffic)
    except BadInputError as error:
        raise BadInputError(f"{job.source}: {error}") from error
