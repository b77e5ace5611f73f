"""Hypergraphs in memory: nets with pins, vertices with sizes; contraction and restriction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.graph.by_label import sums_by_label
from mapper.random_numbers import hashed
from storage.arrays import Int32, Int64


@njit(cache=True, nogil=True)
def _transpose(start, pins, count, vertex_start, nets):
    """Fill the nets of each vertex, in increasing order."""
    for v in range(vertex_start.size):
        vertex_start[v] = 0
    for p in range(pins.size):
        vertex_start[pins[p] + 1] += 1
    for v in range(count):
        vertex_start[v + 1] += vertex_start[v]
    at = vertex_start[:-1].copy()
    for e in range(start.size - 1):
        for p in range(start[e], start[e + 1]):
            v = pins[p]
            nets[at[v]] = e
            at[v] += 1


class Hypergraph(NamedTuple):
    """Nets and vertices, with incidence lists in both directions.

    start : ndarray[int64], shape (nets + 1,), first pin of each net
    pins : ndarray[int32], each once per net; the first one is the source of its spikes
    weights : ndarray[int64], shape (nets,), rate of the source
    vertex_start, nets : nets of each vertex, increasing
    sizes : ndarray[int64], shape (vertices,), capacity that each vertex uses
    """

    start: Int64
    pins: Int32
    weights: Int64
    vertex_start: Int64
    nets: Int32
    sizes: Int64

    @property
    def vertices(self) -> int:
        return self.sizes.size

    @property
    def net_count(self) -> int:
        return self.weights.size


def make_hypergraph(start: Int64, pins: Int32, weights: Int64, sizes: Int64) -> Hypergraph:
    """Build a hypergraph from its nets."""
    vertex_start = np.empty(sizes.size + 1, np.int64)
    nets = np.empty(pins.size, np.int32)
    _transpose(start, pins, sizes.size, vertex_start, nets)
    return Hypergraph(start, pins, weights, vertex_start, nets, sizes)


@njit(cache=True, nogil=True)
def _map_pins(start, pins, cluster, marks, out_start, out_pins):
    """Map nets to clusters: each cluster once per net, in order; drop nets of one cluster.

    cluster : of every vertex, negative for vertices to remove
    marks : scratch per cluster, -1 on entry
    out_start : shape (nets + 1,), filled; removed nets are empty. Returns the number of pins.
    """
    at = 0
    out_start[0] = 0
    for e in range(start.size - 1):
        first = at
        for p in range(start[e], start[e + 1]):
            c = cluster[pins[p]]
            if c >= 0 and marks[c] != e:
                marks[c] = e
                out_pins[at] = c
                at += 1
        if at - first == 1:
            at = first
        out_start[e + 1] = at
    return at


@njit(cache=True, nogil=True)
def _fingerprints(start, pins, directed, prints):
    """Compute a hash of the pins of each net.

    directed : the source is part of the hash
    """
    for e in range(start.size - 1):
        total = np.uint64(start[e + 1] - start[e])
        if directed and start[e + 1] > start[e]:
            total += np.uint64(pins[start[e]]) << np.uint64(32)
        for p in range(start[e], start[e + 1]):
            total += hashed(pins[p])
        prints[e] = total


@njit(cache=True, nogil=True)
def _merge_equal(order, prints, start, pins, weights, directed, marks, kept):
    """Merge nets with equal pins into the first of them, adding their weights.

    order : nets by fingerprint, then number
    marks : scratch per vertex, -1 on entry
    kept : shape (nets,), receives 1 for nets that remain; `weights` is changed
    """
    low = 0
    while low < order.size:
        high = low + 1
        while high < order.size and prints[order[high]] == prints[order[low]]:
            high += 1
        for i in range(low, high):
            e = order[i]
            length = start[e + 1] - start[e]
            if length == 0 or kept[e] == 2:
                continue
            kept[e] = 1
            if i + 1 == high:
                continue
            for p in range(start[e], start[e + 1]):
                marks[pins[p]] = e
            for j in range(i + 1, high):
                f = order[j]
                if kept[f] == 2 or start[f + 1] - start[f] != length:
                    continue
                same = not directed or pins[start[e]] == pins[start[f]]
                for p in range(start[f], start[f + 1]):
                    if marks[pins[p]] != e:
                        same = False
                        break
                if same:
                    weights[e] += weights[f]
                    kept[f] = 2
        low = high
    for e in range(kept.size):
        if kept[e] == 2:
            kept[e] = 0


@njit(cache=True, nogil=True)
def _select(start, pins, weights, kept, out_start, out_pins, out_weights):
    """Copy the nets that are kept, contiguously."""
    at = 0
    found = 0
    out_start[0] = 0
    for e in range(kept.size):
        if kept[e] == 0:
            continue
        for p in range(start[e], start[e + 1]):
            out_pins[at] = pins[p]
            at += 1
        out_weights[found] = weights[e]
        found += 1
        out_start[found] = at


def contract(graph: Hypergraph, cluster: Int32, count: int, directed: bool = False) -> Hypergraph:
    """Contract clusters; nets of the same clusters are merged, with the sum of weights.

    directed : merge only nets with the same source
    cluster : ndarray[int32], shape (vertices,), 0 .. count-1; negative vertices are removed, and
        nets keep their other pins: the connectivity inside a part does not change (the net
        splitting of Catalyurek and Aykanat, IEEE Trans. Parallel Distrib. Syst. 10, 1999)
    """
    start, pins = np.empty_like(graph.start), np.empty_like(graph.pins)
    used = _map_pins(graph.start, graph.pins, cluster, np.full(count, -1, np.int32), start, pins)
    prints = np.empty(graph.net_count, np.uint64)
    with np.errstate(over="ignore"):  # modulo 2^64, also with the JIT off
        _fingerprints(start, pins, directed, prints)
    order = np.argsort(prints, kind="stable")
    weights, kept = graph.weights.copy(), np.zeros(graph.net_count, np.uint8)
    marks = np.full(count, -1, np.int32)
    _merge_equal(order, prints, start, pins, weights, directed, marks, kept)
    number = int(np.count_nonzero(kept))
    total = int(np.diff(start)[kept == 1].sum())
    out = (np.empty(number + 1, np.int64), np.empty(total, np.int32), np.empty(number, np.int64))
    _select(start, pins[:used], weights, kept, *out)
    inside = cluster >= 0
    return make_hypergraph(*out, sums_by_label(cluster[inside], graph.sizes[inside], count))


@njit(cache=True, nogil=True)
def _connectivity(start, pins, weights, part, marks):
    """Sum over nets of weight * (parts of its pins - 1); marks : scratch per part, -1 on entry."""
    total = np.int64(0)
    for e in range(start.size - 1):
        found = 0
        for p in range(start[e], start[e + 1]):
            k = part[pins[p]]
            if marks[k] != e:
                marks[k] = e
                found += 1
        if found > 1:
            total += weights[e] * (found - 1)
    return total


def objective(graph: Hypergraph, part: Int32, capacities: Int64) -> tuple[int, int]:
    """Return the excess over the capacities of the parts, and the connectivity; less is better."""
    over = np.maximum(sums_by_label(part, graph.sizes, capacities.size) - capacities, 0)
    return int(over.sum()), connectivity(graph, part, capacities.size)


def connectivity(graph: Hypergraph, part: Int32, parts: int) -> int:
    """Return the cost of a partition: the objective km1."""
    marks = np.full(parts, -1, np.int64)
    return int(_connectivity(graph.start, graph.pins, graph.weights, part, marks))
