"""The hypergraph of a network: one net for each neuron that fires and has targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.csr import Subgraph
from mapper.hypergraph.hypergraph import Hypergraph, make_hypergraph
from mapper.monitoring.callbacks import Advance, ignore
from mapper.planning.sampling import CHECKED
from storage.arrays import Int32, Int64, Mask
from storage.store.network import RATE, NetworkFile


@njit(cache=True, nogil=True)
def _nets_of_block(first, indptr, ids, weights, rates, rated, out_lengths, out_pins, out_weights):
    """Write nets of consecutive neurons: the neuron, then its targets; return (nets, pins).

    rates : of all neurons, if `rated`; otherwise the rate is the largest weight of its synapses
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


Lists = tuple[Int64, Int32, Int64]


class NetReader:
    """Reads the nets of a network block by block.

    Neurons that are silent or have no targets have no net.
    """

    def __init__(self, network: NetworkFile) -> None:
        self._network = network
        self._rated = RATE in network.meta.attributes
        self._rates = network.attribute(RATE).stored if self._rated else np.zeros(0, np.int64)

    def read(self, index: int) -> Lists:
        """Read the nets of a block: start of each net's pins, pins, and weights."""
        first, last = self._network.block_bounds(index)
        indptr, ids, weights = self._network.read_outgoing(index)
        lengths, rates = np.empty((2, last - first), np.int64)
        pins = np.empty(ids.size + last - first, np.int32)
        found, used = _nets_of_block(
            first, indptr, ids, weights, self._rates, self._rated, lengths, pins, rates
        )
        return np.append(0, np.cumsum(lengths[:found])), pins[:used].copy(), rates[:found]

    def stream(self, team: ThreadTeam) -> Iterator[Lists]:
        """Yield all blocks in order, read ahead by the threads."""
        return team.stream(self.read, range(self._network.block_count))


def read_nets(
    network: NetworkFile, sizes: Int64, team: ThreadTeam, advance: Advance = ignore
) -> Hypergraph:
    """Read all nets of a network into memory.

    sizes : ndarray[int64], shape (neurons,), capacity that each uses
    """
    return _joined(NetReader(network).stream(team), sizes, advance)


def read_sample(
    network: NetworkFile,
    sizes: Int64,
    share: float,
    seed: int,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> tuple[Hypergraph, Hypergraph]:
    """Read the nets of a random share of the neurons; one in `CHECKED` is kept separate.

    Returns (nets, nets to check with). advance : called with the number of synapses read
    """
    chosen = np.random.default_rng([seed, network.vertices]).random(network.vertices)
    reader = NetReader(network)

    def read(index: int) -> tuple[Lists, Lists, int]:
        lists = reader.read(index)
        start, pins, weights = lists
        drawn = chosen[pins[start[:-1]]] / share
        checked = drawn < 1 / CHECKED
        kept = _select(lists, (drawn < 1) & ~checked), _select(lists, checked)
        return *kept, pins.size - weights.size

    found: tuple[list[Lists], list[Lists]] = [], []
    for kept, checked, entries in team.stream(read, range(network.block_count)):
        found[0].append(kept)
        found[1].append(checked)
        advance(entries)
    return _joined(found[0], sizes), _joined(found[1], sizes)


def _select(lists: Lists, picked: Mask) -> Lists:
    """Return the selected nets."""
    start, pins, weights = lists
    lengths = np.diff(start)[picked]
    first = np.append(0, np.cumsum(lengths))
    at = np.repeat(start[:-1][picked] - first[:-1], lengths) + np.arange(first[-1])
    return first, pins[at], weights[picked]


def _joined(lists: Iterable[Lists], sizes: Int64, advance: Advance = ignore) -> Hypergraph:
    """Build the hypergraph of nets in several lists."""
    lengths, pins, weights = [np.zeros(1, np.int64)], [], []
    for some_start, some_pins, some_weights in lists:
        lengths.append(np.diff(some_start))
        pins.append(some_pins)
        weights.append(some_weights)
        advance(some_pins.size - some_weights.size)
    start = np.cumsum(np.concatenate(lengths))
    return make_hypergraph(start, np.concatenate(pins), np.concatenate(weights), sizes)


@njit(cache=True, nogil=True)
def _add_nets(start, pins, weights, part, marks, matrix):
    """Add the rate of each net between its source part and every other part that it reaches.

    marks : scratch per part, -1 on entry
    matrix : ndarray[int64], shape (parts, parts)
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


def net_traffic(graph: Hypergraph, part: Int32, parts: int) -> Subgraph:
    """Return the traffic between groups, each neuron counted once per group that it reaches."""
    matrix = np.zeros((parts, parts), np.int64)
    marks = np.full(parts, -1, np.int64)
    _add_nets(graph.start, graph.pins, graph.weights, part, marks, matrix)
    return traffic_of(matrix, np.bincount(part, graph.sizes, parts).astype(np.int64))


def traffic_of(matrix: Int64, sizes: Int64) -> Subgraph:
    """Return the graph of a matrix of traffic between groups; sizes : of the groups."""
    source, target = np.nonzero(matrix)
    indptr = np.append(0, np.cumsum(np.bincount(source, minlength=sizes.size)))
    members = np.arange(sizes.size, dtype=np.int64)
    return Subgraph(indptr, target.astype(np.int32), matrix[source, target], sizes, members)
