"""Smoothing of a bisection from a sample of the connections of each vertex.

Averaging over neighbours spreads a value over the whole graph in many steps. Each step needs only
rough neighbourhoods: sixteen connections per vertex serve as well as a hundred. The number is equal
for all vertices, so a step needs no row boundaries: on blocks of a cortical sheet with 70
connections per vertex it takes 6 ns per vertex instead of 34. The last steps use all connections.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mapper.partitioning.two_way_fm import _smooth

SEEN = 16  # connections per vertex, evenly spaced in its row; repeated if it has fewer
WHOLE = 4  # one in WHOLE steps uses all connections: the last ones
KEEP = np.float32(0.2)  # share of its value that a vertex keeps in a step, see `_smooth`
CENTRED = 4  # steps between removals of the constant vector


@njit(cache=True, nogil=True)
def _see(graph, ids, weights):
    """Fill in the sampled connections, with weights as shares of the value moved in a step.

    ids, weights : shape (n, SEEN), int32 and float32. Returns the weight of each vertex.
    """
    indptr, all_ids, all_weights, sizes, _ = graph
    seen = np.zeros(sizes.size, np.float32)
    for v in range(sizes.size):
        low, degree = indptr[v], indptr[v + 1] - indptr[v]
        total = np.int64(0)
        for i in range(SEEN):
            ids[v, i] = v
            weights[v, i] = 0
            if degree > 0:
                e = low + i * degree // SEEN
                ids[v, i] = all_ids[e]
                weights[v, i] = all_weights[e]
                total += all_weights[e]
        if total > 0:
            seen[v] = total
            for i in range(SEEN):
                weights[v, i] *= (np.float32(1.0) - KEEP) / seen[v]
    return seen


@njit(cache=True, nogil=True)
def _step(ids, weights, x, y):
    """Set y to x averaged over the sampled connections."""
    for v in range(x.size):
        row, share = ids[v], weights[v]
        a = np.float32(0.0)  # four sums, to break the dependency chain of additions
        b = np.float32(0.0)
        c = np.float32(0.0)
        d = np.float32(0.0)
        for q in range(SEEN // 4):
            e = 4 * q
            a += share[e] * x[np.uint32(row[e])]
            b += share[e + 1] * x[np.uint32(row[e + 1])]
            c += share[e + 2] * x[np.uint32(row[e + 2])]
            d += share[e + 3] * x[np.uint32(row[e + 3])]
        y[v] = ((a + b) + (c + d)) + KEEP * x[v]


@njit(cache=True, nogil=True)
def _centre(x, seen):
    """Subtract the constant vector from x, and scale its largest value to 1."""
    mean = total = 0.0
    for v in range(x.size):
        mean += np.float64(x[v]) * seen[v]
        total += seen[v]
    middle = np.float32(mean / total if total > 0 else 0.0)
    largest = np.float32(1e-30)
    for v in range(x.size):
        x[v] -= middle
        largest = max(largest, abs(x[v]))
    for v in range(x.size):
        x[v] /= largest


@njit(cache=True, nogil=True)
def smooth_by_sample(graph, target, steps, x, side):
    """Smooth as `_smooth`, but most steps use only SEEN connections per vertex.

    x : ndarray[float32], shape (n,), overwritten with the final values; side : filled
    """
    n = graph.sizes.size
    whole = steps
    if graph.ids.size > 2 * SEEN * n:
        whole = -(-steps // WHOLE)
        ids, weights = np.empty((n, SEEN), np.int32), np.empty((n, SEEN), np.float32)
        seen = _see(graph, ids, weights)
        y = np.empty(n, np.float32)
        for done in range(steps - whole):
            _step(ids, weights, x, y)
            for v in range(n):
                x[v] = y[v]
            if done % CENTRED == CENTRED - 1:
                _centre(x, seen)
        _centre(x, seen)
    _smooth(graph, target, whole, x, side)
