"""What annealing by ticks sees of a network: all its nets, or some targets of each.

A neuron of the cortex is in a thousand nets, each of which reaches a hundred cores; to price a move
by all of them takes too long. Some targets of each net, evenly spread over its list from a random
start, stand for all: the rate of the net is multiplied so that its packets stay as many. Synaptic
events, which a neuron brings along wherever it goes, are those of all synapses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.hypergraph.hypergraph import Hypergraph, Int32, Int64, make_hypergraph
from mapper.hypergraph.net_rows import Lists

Float64 = NDArray[np.float64]
SYNAPSE, CORE, TREE = 0, 1, 2  # what goes out for a spike
SCALE = 64  # parts of a unit of rate in which thinned nets count


class TickNets(NamedTuple):
    """Nets, and what does not depend on where they go.

    neurons : shape (vertices,), size of each vertex in neurons
    events : shape (vertices,), rate of the spikes that each receives
    packets : shape (nets,), that the source sends for a spike unless one goes to each core
    unit : rates and events that make one of the network
    """

    graph: Hypergraph
    neurons: Int64
    events: Float64
    packets: Float64
    unit: int


def whole_nets(graph: Hypergraph, neurons: Int64, delivery: int) -> TickNets:
    """All nets as they are."""
    degree = np.diff(graph.start) - 1
    packets = degree.astype(np.float64) if delivery == SYNAPSE else np.ones(degree.size)
    lists = graph.start, graph.pins, graph.weights
    return TickNets(graph, neurons, _events(lists, graph.vertices), packets, 1)


def thin_nets(
    lists: Iterable[Lists], sizes: Int64, neurons: Int64, core: Int32, most: int, delivery: int,
    seed: int,
) -> TickNets:  # fmt: skip
    """Up to so many targets of each net.

    lists : nets in pieces; sizes : of each vertex, in what capacities count
    core : of each vertex, under which packets stay as many
    """
    rng = np.random.default_rng([seed, sizes.size])
    events = np.zeros(sizes.size)
    found = []
    for some in lists:
        events += _events(some, sizes.size) * SCALE
        found.append(_thinned(some, core, most, delivery, rng))
    start = np.append(0, np.cumsum(np.concatenate([lengths for lengths, _, _, _ in found])))
    pins, weights, packets = (np.concatenate([one[i] for one in found]) for i in (1, 2, 3))
    return TickNets(make_hypergraph(start, pins, weights, sizes), neurons, events, packets, SCALE)


def _events(lists: Lists, vertices: int) -> Float64:
    """Rate of the spikes that each vertex receives."""
    start, pins, weights = lists
    rates = np.repeat(weights, np.diff(start) - 1).astype(np.float64)
    return np.bincount(np.delete(pins, start[:-1]), rates, vertices).astype(np.float64)


def _thinned(
    lists: Lists, core: Int32, most: int, delivery: int, rng: np.random.Generator
) -> tuple[Int64, Int32, Int64, Float64]:
    """Pins of each net, the pins, rates, and `packets`."""
    start, pins, weights = lists
    degree = np.diff(start) - 1
    kept = np.minimum(degree, most)
    net = np.repeat(np.arange(degree.size), kept)
    turn = np.arange(net.size) - np.repeat(np.cumsum(kept) - kept, kept)
    begin = (rng.random(degree.size) * degree).astype(np.int64)
    at = start[net] + 1 + (turn * degree[net] + begin[net]) // kept[net]
    if delivery == SYNAPSE:
        ratio = degree / kept
    else:
        every = np.repeat(np.arange(degree.size), degree)
        reached = _reached(every, core[np.delete(pins, start[:-1])], degree.size)
        ratio = reached / _reached(net, core[pins[at]], degree.size)
    out = np.insert(pins[at], np.cumsum(kept) - kept, pins[start[:-1]]).astype(np.int32)
    rates = np.maximum(1, np.rint(weights * ratio * SCALE)).astype(np.int64)
    packets = kept.astype(np.float64) if delivery == SYNAPSE else 1 / ratio
    return kept + 1, out, rates, packets


def _reached(net: Int64, core: Int32, nets: int) -> Int64:
    """Cores that each net reaches."""
    most = int(core.max(initial=0)) + 1
    return np.bincount(np.unique(net * most + core) // most, minlength=nets)
