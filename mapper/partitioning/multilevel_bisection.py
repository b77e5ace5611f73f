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
from numpy.typing import NDArray

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

COARSEST = 96  # vertices at which greedy growing starts
PREFER_SMOOTH = 1.01  # a smoothed cut may be this much worse: its shape is worth more
DENSE = 16  # connections per vertex above which coarse levels cost more than they gain
# levels that keep more than this share of the connections are not worthwhile either
WORTHWHILE = 0.6
TRIED_ENTRIES = 20_000  # entries of all starts together, if there is more than one
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

    size: NDArray[np.int64]
    affinity: NDArray[np.int64]
    found: NDArray[np.int64]
    order: NDArray[np.int64]


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


@njit(cache=True, nogil=True)
def bisect_graph(graph, target, most0, most1, effort, state, side):
    """Cut one graph in two; `side` gets 0 or 1 per vertex."""
    indptr, ids, weights, sizes, bias = graph
    tries, passes, smoothing = effort
    n = sizes.size
    queues = new_queues(n)
    if smoothing > 0 and ids.size > DENSE * n:
        # from a random vertex: values that spread from it converge to the Fiedler vector
        x = np.zeros(n, np.float32)
        x[next_random(state) % np.int64(n)] = 1.0
        smooth_by_sample(graph, target, 2 * smoothing, x, side)
        two_way_fm(graph, most0, most1, passes, side, queues, HASTY)
        return
    # levels are stored contiguously in the same arrays; v_at and e_at are their starts
    all_indptr = np.empty(2 * n + 64, np.int64)
    all_ids = np.empty(ids.size, np.int32)
    all_weights = np.empty(ids.size, np.int32)
    all_sizes = np.empty(2 * n + 64, np.int64)
    clusters = np.empty(2 * n + 64, np.int32)
    v_at = np.zeros(66, np.int64)
    e_at = np.zeros(66, np.int64)
    counts = np.zeros(66, np.int64)
    _copy(n + 1, indptr, all_indptr)
    _copy(ids.size, ids, all_ids)
    _copy(ids.size, weights, all_weights)
    _copy(n, sizes, all_sizes)
    all_bias = np.empty(2 * n + 64, np.int64)
    _copy(n, bias, all_bias)
    counts[0] = n
    e_at[1] = ids.size
    v_at[1] = n + 1
    scratch = ClusterScratch(
        np.empty(n, np.int64), np.zeros(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    )
    total = np.int64(0)
    for v in range(n):
        total += sizes[v]
    levels = 1
    while counts[levels - 1] > COARSEST and levels < 64:
        m = counts[levels - 1]
        v0, e0, v1, e1 = v_at[levels - 1], e_at[levels - 1], v_at[levels], e_at[levels]
        limit = max(np.int64(1), 6 * total // m)
        clusters = _grown(clusters, v1 + m)
        fine = Csr(
            all_indptr[v0 : v0 + m + 1], all_ids[e0:e1], all_weights[e0:e1],
            all_sizes[v0 : v0 + m], all_bias[v0 : v0 + m],
        )  # fmt: skip
        cluster = clusters[v0 : v0 + m]
        count = _cluster(fine, limit, cluster, scratch, state)
        if count > 0.9 * m:
            break
        all_indptr = _grown(all_indptr, v1 + count + 1)
        all_sizes = _grown(all_sizes, v1 + count + 1)
        all_bias = _grown(all_bias, v1 + count + 1)
        all_ids = _grown(all_ids, e1 + (e1 - e0))
        all_weights = _grown(all_weights, e1 + (e1 - e0))
        coarse = Csr(
            all_indptr[v1 : v1 + count + 1], all_ids[e1:], all_weights[e1:],
            all_sizes[v1 : v1 + count], all_bias[v1 : v1 + count],
        )  # fmt: skip
        _contract(fine, cluster, count, coarse, scratch)
        if all_indptr[v1 + count] > WORTHWHILE * (e1 - e0):
            break
        counts[levels] = count
        v_at[levels + 1] = v1 + count + 1
        e_at[levels + 1] = e1 + all_indptr[v1 + count]
        levels += 1

    trial = np.empty(n, np.uint8)
    finer = np.empty(n, np.uint8)
    best_cut = UNSEEN
    best_excess = UNSEEN
    for level in range(levels - 1, -1, -1):
        m = counts[level]
        v0, e0, e1 = v_at[level], e_at[level], e_at[level + 1]
        now = Csr(
            all_indptr[v0 : v0 + m + 1], all_ids[e0:e1], all_weights[e0:e1],
            all_sizes[v0 : v0 + m], all_bias[v0 : v0 + m],
        )  # fmt: skip
        if level == levels - 1:
            for _ in range(max(1, min(tries, TRIED_ENTRIES // max(1, e1 - e0)))):
                _grow(now, target, most0, trial, queues, state)
                two_way_fm(now, most0, most1, passes, trial, queues, PATIENT)
                cut, excess = _cost_and_excess(now, most0, most1, trial)
                if excess < best_excess or (excess == best_excess and cut < best_cut):
                    best_cut = cut
                    best_excess = excess
                    _copy(m, trial, side)
        else:
            for v in range(m):
                finer[v] = side[clusters[v0 + v]]
            _copy(m, finer, side)
            two_way_fm(now, most0, most1, passes, side, queues, PATIENT)
    if smoothing > 0 and n > 8:
        cut, excess = _cost_and_excess(graph, most0, most1, side)
        x = np.empty(n, np.float32)
        for v in range(n):
            x[v] = 1.0 if side[v] == 0 else -1.0
        _smooth(graph, target, smoothing, x, trial)
        two_way_fm(graph, most0, most1, passes, trial, queues, PATIENT)
        new_cut, new_excess = _cost_and_excess(graph, most0, most1, trial)
        if new_excess < excess or (new_excess == excess and new_cut <= PREFER_SMOOTH * cut):
            _copy(n, trial, side)
