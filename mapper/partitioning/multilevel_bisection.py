"""Bisection of one graph in memory: a small multilevel method on one thread.

Coarsening by label propagation, growing on the coarsest level, FM on every level. On the finest
level the cut is also smoothed: the two sides as values +1 and -1 are averaged over neighbours a few
times and cut at the median. If connections reach farther than a part is wide, FM alone gives ragged
parts: on a sheet of cortex the cut of one bisection is equal, but the cut after all bisections and
k-way refinement is 0.772 instead of 0.777.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.graph.affinity import sum_by_part
from mapper.graph.csr import Csr
from mapper.partitioning.sampled_smoothing import smooth_by_sample
from mapper.partitioning.two_way_fm import (
    HASTY,
    PATIENT,
    _cost_and_excess,
    _grow,
    _smooth,
    new_queues,
    two_way_fm,
)
from mapper.random_numbers import next_random
from storage.arrays import Int32, Int64

COARSEST = 96  # vertices at which greedy growing starts
PREFER_SMOOTH = 1.01  # a smoothed cut may be this much worse: its shape is worth more
DENSE = 16  # connections per vertex above which coarse levels cost more than they gain
# levels that keep more than this share of the connections are not worthwhile either
WORTHWHILE = 0.6
TRIED_ENTRIES = 20_000  # entries of all starts together, if there is more than one
MOST_LEVELS = 64
UNSEEN = np.int64(2**62)


class BisectionEffort(NamedTuple):
    """Effort of each bisection.

    tries : random starts on the coarsest level; passes : of FM on each level
    smoothing : averaging steps on the finest level, 0 for none
    """

    tries: int = 4
    passes: int = 2
    smoothing: int = 12


class ClusterScratch(NamedTuple):
    """Scratch with one number per vertex in each array; `affinity` is zero on entry and exit."""

    size: Int64
    affinity: Int64
    found: Int64
    order: Int64


@njit(cache=True, nogil=True)
def _cluster(graph, limit, cluster, scratch, state):
    """Run two rounds of label propagation in random order; return the number of clusters."""
    indptr, ids, weights, sizes, _ = graph
    cluster_sizes, affinity = scratch.size, scratch.affinity
    connected, order = scratch.found, scratch.order
    n = sizes.size
    for v in range(n):
        cluster[v] = v
        cluster_sizes[v] = sizes[v]
        order[v] = v
    for _ in range(2):
        for i in range(n - 1, 0, -1):
            j = next_random(state) % (i + 1)
            order[i], order[j] = order[j], order[i]
        for i in range(n):
            v = order[i]
            low, high = indptr[v], indptr[v + 1]
            count = sum_by_part(ids[low:high], weights[low:high], cluster, affinity, connected)
            own = cluster[v]
            best = own
            most = affinity[own]
            for t in range(count):
                c = connected[t]
                if affinity[c] > most and cluster_sizes[c] + sizes[v] <= limit:
                    best = c
                    most = affinity[c]
            for t in range(count):
                affinity[connected[t]] = 0
            cluster_sizes[own] -= sizes[v]
            cluster_sizes[best] += sizes[v]
            cluster[v] = best
    number = np.int64(0)
    for v in range(n):
        connected[v] = -1
    for v in range(n):
        c = cluster[v]
        if connected[c] < 0:
            connected[c] = number
            number += 1
        cluster[v] = connected[c]
    return number


@njit(cache=True, nogil=True)
def _contract(graph, cluster, count, coarse, scratch):
    """Build the graph of clusters; weights of parallel connections add up, saturated at int32.

    coarse : filled; has room for as many entries as the graph
    """
    indptr, ids, weights, sizes, bias = graph
    out_indptr, out_ids, out_weights, out_sizes, out_bias = coarse
    affinity, connected, order = scratch.affinity, scratch.found, scratch.order
    n = sizes.size
    start = np.zeros(count + 1, np.int64)
    for v in range(n):
        start[cluster[v] + 1] += 1
    for c in range(count):
        start[c + 1] += start[c]
        out_sizes[c] = 0
        out_bias[c] = 0
    at = start[:-1].copy()
    for v in range(n):
        order[at[cluster[v]]] = v
        at[cluster[v]] += 1
        out_sizes[cluster[v]] += sizes[v]
        out_bias[cluster[v]] += bias[v]
    entries = 0
    out_indptr[0] = 0
    for c in range(count):
        found = 0
        for i in range(start[c], start[c + 1]):
            v = order[i]
            for e in range(indptr[v], indptr[v + 1]):
                d = cluster[ids[e]]
                if d == c:
                    continue
                if affinity[d] == 0 and weights[e] > 0:
                    connected[found] = d
                    found += 1
                affinity[d] += weights[e]
        for t in range(found):
            out_ids[entries] = connected[t]
            out_weights[entries] = min(affinity[connected[t]], 2**31 - 1)
            affinity[connected[t]] = 0
            entries += 1
        out_indptr[c + 1] = entries


@njit(cache=True, nogil=True)
def _copy(n, source, target):
    """Copy n values; slice assignment in numba would also compile its error messages."""
    for i in range(n):
        target[i] = source[i]


@njit(cache=True, nogil=True)
def _grown(array, need):
    """Return the array, or a longer copy of it."""
    if array.size >= need:
        return array
    longer = np.empty(max(need, 2 * array.size), array.dtype)
    _copy(array.size, array, longer)
    return longer


class CoarseLevels(NamedTuple):
    """Levels of a graph from fine to coarse, stored contiguously in the same arrays.

    cluster : of each vertex of all levels but the last
    vertex_at, entry_at : start of each level in the arrays, and of the next one
    counts : vertices of each level
    """

    indptr: Int64
    ids: Int32
    weights: Int32
    sizes: Int64
    bias: Int64
    cluster: Int32
    vertex_at: Int64
    entry_at: Int64
    counts: Int64


@njit(cache=True, nogil=True)
def _level(levels, k):
    """Return one of the levels."""
    first, stop = levels.vertex_at[k], levels.vertex_at[k] + levels.counts[k]
    low, high = levels.entry_at[k], levels.entry_at[k + 1]
    return Csr(
        levels.indptr[first : stop + 1], levels.ids[low:high], levels.weights[low:high],
        levels.sizes[first:stop], levels.bias[first:stop],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _first_level(graph):
    """Return a copy of the graph as the only level, with room for more."""
    n, entries = graph.sizes.size, graph.ids.size
    room = 2 * n + 64
    levels = CoarseLevels(
        np.empty(room, np.int64), np.empty(entries, np.int32), np.empty(entries, np.int32),
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32),
        np.zeros(MOST_LEVELS + 2, np.int64), np.zeros(MOST_LEVELS + 2, np.int64),
        np.zeros(MOST_LEVELS + 2, np.int64),
    )  # fmt: skip
    _copy(n + 1, graph.indptr, levels.indptr)
    _copy(entries, graph.ids, levels.ids)
    _copy(entries, graph.weights, levels.weights)
    _copy(n, graph.sizes, levels.sizes)
    _copy(n, graph.bias, levels.bias)
    levels.counts[0] = n
    levels.vertex_at[1] = n + 1
    levels.entry_at[1] = entries
    return levels


@njit(cache=True, nogil=True)
def _with_room(levels, vertices, entries):
    """Return the levels, in arrays of at least this size."""
    return CoarseLevels(
        _grown(levels.indptr, vertices), _grown(levels.ids, entries),
        _grown(levels.weights, entries), _grown(levels.sizes, vertices),
        _grown(levels.bias, vertices), _grown(levels.cluster, vertices),
        levels.vertex_at, levels.entry_at, levels.counts,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _coarsen(graph, state):
    """Return the levels of a graph, and the number of the coarsest one."""
    levels = _first_level(graph)
    n = graph.sizes.size
    scratch = ClusterScratch(
        np.empty(n, np.int64), np.zeros(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    )
    total = np.int64(0)
    for v in range(n):
        total += graph.sizes[v]
    last = 0
    while levels.counts[last] > COARSEST and last < MOST_LEVELS - 1:
        fine = _level(levels, last)
        m, entries = fine.sizes.size, fine.ids.size
        limit = max(np.int64(1), 6 * total // m)
        v0, v1, e1 = levels.vertex_at[last], levels.vertex_at[last + 1], levels.entry_at[last + 1]
        cluster = levels.cluster[v0 : v0 + m]
        count = _cluster(fine, limit, cluster, scratch, state)
        if count > 0.9 * m:
            break
        levels = _with_room(levels, v1 + count + 1, e1 + entries)
        levels.counts[last + 1] = count
        levels.entry_at[last + 2] = levels.ids.size  # once contracted, the end of its entries
        coarse = _level(levels, last + 1)
        _contract(fine, cluster, count, coarse, scratch)
        if coarse.indptr[count] > WORTHWHILE * entries:
            break
        levels.vertex_at[last + 2] = v1 + count + 1
        levels.entry_at[last + 2] = e1 + coarse.indptr[count]
        last += 1
    return levels, last


@njit(cache=True, nogil=True)
def _start(graph, target, most0, most1, effort, queues, state, side):
    """Grow a side from several random vertices, refine each, and write the best to `side`."""
    n = graph.sizes.size
    trial = np.empty(n, np.uint8)
    best_cut = UNSEEN
    best_excess = UNSEEN
    for _ in range(max(1, min(effort.tries, TRIED_ENTRIES // max(1, graph.ids.size)))):
        _grow(graph, target, most0, trial, queues, state)
        two_way_fm(graph, most0, most1, effort.passes, trial, queues, PATIENT)
        cut, excess = _cost_and_excess(graph, most0, most1, trial)
        if excess < best_excess or (excess == best_excess and cut < best_cut):
            best_cut = cut
            best_excess = excess
            _copy(n, trial, side)


@njit(cache=True, nogil=True)
def _smooth_sides(graph, target, most0, most1, effort, queues, side):
    """Smooth the sides and refine them; keep the result unless it is clearly worse."""
    n = graph.sizes.size
    cut, excess = _cost_and_excess(graph, most0, most1, side)
    x = np.empty(n, np.float32)
    for v in range(n):
        x[v] = 1.0 if side[v] == 0 else -1.0
    trial = np.empty(n, np.uint8)
    _smooth(graph, target, effort.smoothing, x, trial)
    two_way_fm(graph, most0, most1, effort.passes, trial, queues, PATIENT)
    new_cut, new_excess = _cost_and_excess(graph, most0, most1, trial)
    if new_excess < excess or (new_excess == excess and new_cut <= PREFER_SMOOTH * cut):
        _copy(n, trial, side)


@njit(cache=True, nogil=True)
def bisect_graph(graph, target, most0, most1, effort, state, side):
    """Cut one graph in two; `side` gets 0 or 1 per vertex."""
    n = graph.sizes.size
    queues = new_queues(n)
    if effort.smoothing > 0 and graph.ids.size > DENSE * n:
        # from a random vertex: values that spread from it converge to the Fiedler vector
        x = np.zeros(n, np.float32)
        x[next_random(state) % np.int64(n)] = 1.0
        smooth_by_sample(graph, target, 2 * effort.smoothing, x, side)
        two_way_fm(graph, most0, most1, effort.passes, side, queues, HASTY)
        return
    levels, last = _coarsen(graph, state)
    _start(_level(levels, last), target, most0, most1, effort, queues, state, side)
    finer = np.empty(n, np.uint8)
    for k in range(last - 1, -1, -1):
        now = _level(levels, k)
        for v in range(now.sizes.size):
            finer[v] = side[levels.cluster[levels.vertex_at[k] + v]]
        _copy(now.sizes.size, finer, side)
        two_way_fm(now, most0, most1, effort.passes, side, queues, PATIENT)
    if effort.smoothing > 0 and n > 8:
        _smooth_sides(graph, target, most0, most1, effort, queues, side)
