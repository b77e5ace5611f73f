"""The hypergraph of a network: a net for each neuron that fires and reaches others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.multicast.hypergraph import Hypergraph, Int32, Int64, make_hypergraph
from mapper.partition.growing import Subgraph
from mapper.team import Team
from storage.network import RATE, NetworkFile

PART_BYTES = 8  # of a pair of groups while traffic is added up


@njit(cache=True, nogil=True)
def _nets_of_block(first, indptr, ids, weights, rates, rated, out_lengths, out_pins, out_weights):
    """Nets of consecutive neurons: the neuron, then its targets; returns (nets, pins).

    rates : of all neurons, if `rated`; else the rate is the largest weight of a neuron's synapses
    """
    found = 0
    at = 0
    for i in range(indptr.size - 1):
        v = first + i
        rate = np.int64(0)
        for e in range(indptr[i], indptr[i + 1]):
            rate = max(rate, weights[e])
        if rated:
            rate = rates[v]
        if rate == 0 or indptr[i] == indptr[i + 1]:
            continue
        out_pins[at] = v
        at += 1
        for e in range(indptr[i], indptr[i + 1]):
            out_pins[at] = ids[e]
            at += 1
        out_lengths[found] = 1 + indptr[i + 1] - indptr[i]
        out_weights[found] = rate
        found += 1
    return found, at


def read_nets(
    network: NetworkFile,
    sizes: Int64,
    team: Team,
    advance: Callable[[int], None] = lambda done: None,
) -> Hypergraph:
    """All nets of a network, in memory. Neurons that are silent or reach no other have none.

    sizes : ndarray[int64], shape (neurons,), capacity that each uses
    """
    rated = RATE in network.meta.attributes
    rates = network.attribute(RATE).stored if rated else np.zeros(0, np.int64)

    def read(index: int) -> tuple[Int64, Int32, Int64, int]:
        first, last = network.block_bounds(index)
        indptr, ids, weights = network.read_outgoing(index)
        lengths, out_weights = np.empty((2, last - first), np.int64)
        pins = np.empty(ids.size + last - first, np.int32)
        found, used = _nets_of_block(
            first, indptr, ids, weights, rates, rated, lengths, pins, out_weights
        )
        return lengths[:found], pins[:used].copy(), out_weights[:found], ids.size

    lengths, pins, weights = [np.zeros(1, np.int64)], [], []
    for some_lengths, some_pins, some_weights, entries in team.stream(
        read, range(network.block_count)
    ):
        lengths.append(some_lengths)
        pins.append(some_pins)
        weights.append(some_weights)
        advance(entries)
    start = np.cumsum(np.concatenate(lengths))
    return make_hypergraph(start, np.concatenate(pins), np.concatenate(weights), sizes)


@njit(cache=True, nogil=True)
def _add_nets(start, pins, weights, part, marks, matrix):
    """Add the rate of each net for every part that it reaches from the part of its source.

    marks : scratch per part, -1 on entry; matrix : ndarray[int64], shape (parts, parts)
    """
    for e in range(start.size - 1):
        own = part[pins[start[e]]]
        marks[own] = e
        for p in range(start[e] + 1, start[e + 1]):
            k = part[pins[p]]
            if marks[k] != e:
                marks[k] = e
                matrix[own, k] += weights[e]
                matrix[k, own] += weights[e]


def net_traffic(graph: Hypergraph, part: NDArray[np.int32], parts: int) -> Subgraph:
    """The graph of groups, a neuron counted once for each group that it reaches."""
    matrix = np.zeros((parts, parts), np.int64)
    marks = np.full(parts, -1, np.int64)
    _add_nets(graph.start, graph.pins, graph.weights, part, marks, matrix)
    source, target = np.nonzero(matrix)
    indptr = np.zeros(parts + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=parts), out=indptr[1:])
    sizes = np.zeros(parts, np.int64)
    np.add.at(sizes, part, graph.sizes)
    return Subgraph(
        indptr, target.astype(np.int32), matrix[source, target], sizes,
        np.arange(parts, dtype=np.int64),
    )  # fmt: skip
