"""Whether a network can fit a chip at all, and the capacity that partitioning works with."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chipsim.chip import Chip
from mapper.errors import DoesNotFitError
from storage.graph import Block, Csr, Graph
from storage.network import ID, NetworkFile

FINEST = 1 << 30  # shares of a core, when several limits are folded into one


@dataclass(frozen=True, slots=True)
class Demand:
    """What one limit needs at least, against what the chip has.

    limit : name of the limit; needed, available : over all usable cores
    vertex : a vertex that no core can hold alone, or None; largest : what the largest one needs
    original_id : the id of that vertex in the file that the network came from, if it is kept
    """

    limit: str
    per_core: int
    needed: int
    available: int
    vertex: int | None
    largest: int
    original_id: int | None = None

    @property
    def fits(self) -> bool:
        return self.vertex is None and self.needed <= self.available

    def __str__(self) -> str:
        faults = []
        if self.vertex is not None:
            origin = "" if self.original_id is None else f" (id {self.original_id})"
            faults.append(
                f"vertex {self.vertex}{origin} needs {self.largest} {self.limit}, a core has "
                f"{self.per_core}: {self.largest - self.per_core} too few"
            )
        if self.fits or self.needed > self.available:
            state = "fits" if self.fits else f"{self.needed - self.available} too few"
            faults.append(
                f"{self.limit}: {self.needed} needed, {self.available} on the chip: {state}"
            )
        return "; ".join(faults)


def incoming_synapses(graph: Graph, threads: int = 1) -> NDArray[np.int64]:
    """Synapses that end in each vertex, shape (vertices,)."""
    counts = np.zeros(graph.vertices, np.int64)
    for block in graph.blocks(threads=threads):
        into = np.ones(block.connections, np.bool_) if graph.undirected else block.incoming > 0
        before = np.r_[0, np.cumsum(into)][block.indptr]
        counts[block.first : block.first + block.vertices] = np.diff(before)
    return counts


def demands(graph: Graph, chip: Chip, threads: int = 1) -> list[Demand]:
    """Lower bounds for every limit of the chip that a bound is known for.

    neurons and synapses add up over cores. Every synapse of a neuron comes from another source,
    so that its fan-in alone is a lower bound of the axons_in of its core.
    """
    found = [_demand("neurons", graph.vertex_sizes(), chip.neurons, chip)]
    if chip.synapses is not None or chip.axons_in is not None:
        fan_in = incoming_synapses(graph, threads)
        if chip.synapses is not None:
            found.append(_demand("synapses", fan_in, chip.synapses, chip))
        if chip.axons_in is not None:
            found.append(_demand("axons_in", fan_in, chip.axons_in, chip, adds_up=False))
    return [_with_origin(demand, graph) for demand in found]


def _demand(
    limit: str, use: NDArray[np.int64], per_core: int, chip: Chip, adds_up: bool = True
) -> Demand:
    worst = int(use.argmax())
    largest = int(use[worst])
    return Demand(
        limit,
        per_core,
        int(use.sum()) if adds_up else largest,
        per_core * chip.usable_count,
        worst if largest > per_core else None,
        largest,
    )


def _with_origin(demand: Demand, graph: Graph) -> Demand:
    if demand.vertex is None or not isinstance(graph, NetworkFile):
        return demand
    if ID not in graph.meta.attributes:
        return demand
    original = int(graph.attribute(ID).stored[demand.vertex])
    return replace(demand, original_id=original)


def require_fit(graph: Graph, chip: Chip, threads: int = 1) -> None:
    """Raise `DoesNotFitError` that says which limit lacks how much."""
    short = [str(demand) for demand in demands(graph, chip, threads) if not demand.fits]
    if short:
        raise DoesNotFitError(
            f"chip {chip.name} with {chip.usable_count} usable cores is too small: "
            f"{'; '.join(short)}; take a larger chip or larger cores"
        )


class _Resized(Graph):
    """A graph with other vertex sizes."""

    def __init__(self, graph: Graph, sizes: NDArray[np.int64]) -> None:
        self._graph = graph
        self._sizes = sizes
        self.vertices = graph.vertices
        self.connections = graph.connections
        self.block_size = graph.block_size
        self.undirected = graph.undirected

    def vertex_sizes(self) -> NDArray[np.int64]:
        return self._sizes

    def read_block(self, index: int) -> Block:
        return self._graph.read_block(index)

    def read_undirected(self, index: int) -> Csr:
        return self._graph.read_undirected(index)


def with_one_capacity(graph: Graph, chip: Chip, threads: int = 1) -> tuple[Graph, int]:
    """The graph with sizes that stand for all limits that add up, and the capacity of a core.

    With a limit on neurons alone these are the graph and that limit. With one on synapses as
    well, a vertex's size becomes the larger of the two shares of a core that it uses: parts
    within the capacity are then within both limits (the converse does not hold).
    """
    if chip.synapses is None:
        return graph, chip.neurons
    capacity = math.lcm(chip.neurons, chip.synapses)  # so that shares are exact, if that is small
    if capacity > FINEST:
        capacity = FINEST
    shares = np.maximum(
        -(-graph.vertex_sizes() * capacity // chip.neurons),
        -(-incoming_synapses(graph, threads) * capacity // chip.synapses),
    )
    return _Resized(graph, shares), capacity
