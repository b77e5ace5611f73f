"""Nets for annealing of ticks: all nets of a network, or some targets of each.

A cortical neuron is in a thousand nets, each of which reaches a hundred cores; pricing a move with
all of them takes too long. Some targets of each net, evenly spaced in its list from a random start,
represent all: the rate of the net is scaled to keep its number of packets. Synaptic events, which
move with a neuron, are counted over all synapses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.hypergraph.hypergraph import Hypergraph, make_hypergraph
from mapper.hypergraph.net_rows import Lists
from storage.arrays import Float64, Int32, Int64

SYNAPSE, CORE, TREE = 0, 1, 2  # packets per spike: to each synapse, to each core, or a tree
SCALE = 64  # units of the rates of thinned nets per unit of rate


class TickNets(NamedTuple):
    """Nets, and quantities that do not depend on the mapping.

    neurons : shape (vertices,), size of each vertex in neurons
    events : shape (vertices,), rate of the spikes that each receives
    packets : shape (nets,), packets that the source sends per spike, unless it sends one per core
    unit : rates and events per unit of the network
    """

    graph: Hypergraph
    neurons: Int64
    events: Float64
    packets: Float64
    unit: int


@njit(cache=True, nogil=True)
def _receive(start, pins, weights, core, marks, events, reached):
    """Add the spikes that each vertex receives from some nets, and count the cores they reach.

    marks : shape (cores,), -1 on entry
    reached : shape (nets,)
    """
    for e in range(start.size - 1):
        reached[e] = 0
        for p in range(start[e] + 1, start[e + 1]):
            v = pins[p]
            events[v] += weights[e]
            if marks[core[v]] != e:
                marks[core[v]] = e
                reached[e] += 1


class Received(NamedTuple):
    """Nets under a mapping.

    events : shape (vertices,), rate of the spikes that each vertex receives from these nets
    reached : shape (nets,), cores that each net reaches
    """

    lists: Lists
    events: Float64
    reached: Int64


def whole_nets(graph: Hypergraph, neurons: Int64, delivery: int) -> TickNets:
    """Return all nets with all targets."""
    degree = np.diff(graph.start) - 1
    packets = degree.astype(np.float64) if delivery == SYNAPSE else np.ones(degree.size)
    lists = graph.start, graph.pins, graph.weights
    events = receive(lists, np.zeros(graph.vertices, np.int32)).events
    return TickNets(graph, neurons, events, packets, 1)


def thin_nets(
    received: Iterable[Received], sizes: Int64, neurons: Int64, core: Int32, most: int,
    delivery: int, seed: int,
) -> TickNets:  # fmt: skip
    """Return nets with at most `most` targets each.

    received : all nets, in pieces, under this mapping
    sizes : capacity that each vertex uses
    core : of each vertex; the number of packets under this mapping is kept
    """
    rng = np.random.default_rng([seed, sizes.size])
    events = np.zeros(sizes.size)
    found = []
    for some in received:
        events += some.events * SCALE
        found.append(_thinned(some, core, most, delivery, rng))
    start = np.append(0, np.cumsum(np.concatenate([lengths for lengths, _, _, _ in found])))
    pins, weights, packets = (np.concatenate([one[i] for one in found]) for i in (1, 2, 3))
    return TickNets(make_hypergraph(start, pins, weights, sizes), neurons, events, packets, SCALE)


def receive(lists: Lists, core: Int32) -> Received:
    """Return nets with the spikes and cores that they reach under a mapping."""
    events, reached = np.zeros(core.size), np.empty(lists[2].size, np.int64)
    marks = np.full(int(core.max(initial=0)) + 1, -1, np.int64)
    _receive(*lists, core, marks, events, reached)
    return Received(lists, events, reached)


def _thinned(
    received: Received, core: Int32, most: int, delivery: int, rng: np.random.Generator
) -> tuple[Int64, Int32, Int64, Float64]:
    """Return the number of pins of each net, the pins, the rates, and `packets`."""
    start, pins, weights = received.lists
    degree = np.diff(start) - 1
    kept = np.minimum(degree, most)
    net = np.repeat(np.arange(degree.size), kept)
    turn = np.arange(net.size) - np.repeat(np.cumsum(kept) - kept, kept)
    begin = (rng.random(degree.size) * degree).astype(np.int64)
    at = start[net] + 1 + (turn * degree[net] + begin[net]) // kept[net]
    if delivery == SYNAPSE:
        ratio = degree / kept
    else:
        ratio = received.reached / _reached(net, core[pins[at]], degree.size)
    out = np.insert(pins[at], np.cumsum(kept) - kept, pins[start[:-1]]).astype(np.int32)
    rates = np.maximum(1, np.rint(weights * ratio * SCALE)).astype(np.int64)
    packets = kept.astype(np.float64) if delivery == SYNAPSE else 1 / ratio
    return kept + 1, out, rates, packets


def _reached(net: Int64, core: Int32, nets: int) -> Int64:
    """Return the number of cores that each net reaches."""
    most = int(core.max(initial=0)) + 1
    return np.bincount(np.unique(net * most + core) // most, minlength=nets)
