"""Bisection of one graph in memory: growing, refinement and smoothing of two sides.

Greedy graph growing (Karypis and Kumar 1998), two-way FM (Fiduccia and Mattheyses 1982), and power
iteration towards the Fiedler vector. `mapper.partitioning.multilevel_bisection` combines them over
levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.graph.heap import remove, sift_down, sift_up
from mapper.random_numbers import next_random
from storage.arrays import Int64

RUN = 16  # length of runs sorted by insertion
PATIENT = 8  # FM ends a pass after moves of one in PATIENT vertices without gain
HASTY = 32  # same if the sides are good already
LEAST_MOVES = 32  # least moves before a pass ends


class Queues(NamedTuple):
    """Scratch of FM: a queue of vertices per side, and the moves made.

    heap : ndarray[int64], shape (2, n), by the cost (loss) of moving; place, cost, moves :
        ndarray[int64], shape (n,), place in the queue, cost, and vertices moved
    """

    heap: Int64
    place: Int64
    cost: Int64
    moves: Int64


@njit(cache=True, nogil=True)
def new_queues(n):
    return Queues(
        np.empty((2, n), np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )


@njit(cache=True, nogil=True)
def _grow(graph, target, most, side, queues, state):
    """Grow side 0 from a random vertex, by the vertex that adds least to the cost, up to target."""
    indptr, ids, weights, sizes, bias = graph
    heap, place, cost = queues.heap[0], queues.place, queues.cost
    n = sizes.size
    for v in range(n):
        side[v] = 1
        place[v] = -1
    block_weight = np.int64(0)
    length = 0
    left = n
    while block_weight < target and left > 0:
        if length == 0:  # the start, or a connected component is exhausted
            v = next_random(state) % np.int64(n)
            while side[v] != 1:
                v = (v + 1) % np.int64(n)
        else:
            v = heap[0]
            length = remove(heap, place, cost, v, length)
        left -= 1
        if block_weight + sizes[v] > most:
            side[v] = 2  # too large: not tried again
            continue
        side[v] = 0
        block_weight += sizes[v]
        for e in range(indptr[v], indptr[v + 1]):
            u = ids[e]
            if side[u] != 1:
                continue
            if place[u] < 0:
                c = -bias[u]
                for f in range(indptr[u], indptr[u + 1]):
                    c += weights[f] if side[ids[f]] != 0 else -np.int64(weights[f])
                cost[u] = c
                heap[length] = u
                place[u] = length
                length += 1
            else:
                cost[u] -= 2 * np.int64(weights[e])
            sift_up(heap, place, cost, place[u])
    for v in range(n):
        if side[v] == 2:
            side[v] = 1


@njit(cache=True, nogil=True)
def _falling(x):
    """Return the stable order of descending values: `argsort` of -x by a merge sort.

    numba's `argsort` takes ten times as long to compile.
    """
    n = x.size
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for low in range(0, n, RUN):
        for i in range(low, min(low + RUN, n)):
            j = i
            while j > low and x[order[j - 1]] < x[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    width = RUN
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            a, b = low, middle
            for k in range(low, high):
                if a < middle and (b == high or x[order[a]] >= x[order[b]]):
                    other[k] = order[a]
                    a += 1
                else:
                    other[k] = order[b]
                    b += 1
        order, other = other, order
        width *= 2
    return order


@njit(cache=True, nogil=True)
def _smooth(graph, target, steps, x, side):
    """Average x over neighbours `steps` times, then cut where side 0 has its target.

    x : ndarray[float32], shape (n,); power iteration with the random walk's matrix, without the
        constant vector, so x converges to the Fiedler vector
    """
    indptr, ids, weights, sizes, _ = graph
    n = sizes.size
    y = np.empty(n, np.float32)
    share = np.empty(n, np.float32)
    degree = np.empty(n, np.float64)
    total = 0.0
    for v in range(n):
        heavy = np.int64(0)
        for e in range(indptr[v], indptr[v + 1]):
            heavy += weights[e]
        degree[v] = heavy
        share[v] = 0.8 / heavy if heavy > 0 else 0.0
        total += heavy
    for _ in range(steps):
        mean = 0.0
        for v in range(n):
            # four sums, to break the dependency chain of additions
            row = ids[indptr[v] : indptr[v + 1]]
            row_weights = weights[indptr[v] : indptr[v + 1]]
            a = np.float32(0.0)
            b = np.float32(0.0)
            c = np.float32(0.0)
            d = np.float32(0.0)
            fours = row.size // 4
            for q in range(fours):
                e = 4 * q
                a += np.float32(row_weights[e]) * x[np.uint32(row[e])]
                b += np.float32(row_weights[e + 1]) * x[np.uint32(row[e + 1])]
                c += np.float32(row_weights[e + 2]) * x[np.uint32(row[e + 2])]
                d += np.float32(row_weights[e + 3]) * x[np.uint32(row[e + 3])]
            for e in range(4 * fours, row.size):
                a += np.float32(row_weights[e]) * x[np.uint32(row[e])]
            # lazy: with a full step the two colours of a bipartite graph would alternate forever
            y[v] = share[v] * ((a + b) + (c + d)) + np.float32(0.2) * x[v]
            mean += y[v] * degree[v]
        mean = mean / total if total > 0 else 0.0
        largest = np.float32(1e-30)
        for v in range(n):
            x[v] = y[v] - np.float32(mean)
            largest = max(largest, abs(x[v]))
        for v in range(n):
            x[v] /= largest
    block_weight = np.int64(0)
    for v in _falling(x):
        side[v] = 0 if block_weight + sizes[v] // 2 < target else 1
        block_weight += sizes[v]


@njit(cache=True, nogil=True)
def _cost_and_excess(graph, most0, most1, side):
    """Return the weight between the sides plus bias of side 1, and the size above the limits."""
    indptr, ids, weights, sizes, bias = graph
    cut = np.int64(0)
    held0 = np.int64(0)
    held1 = np.int64(0)
    for v in range(sizes.size):
        if side[v] == 0:
            held0 += sizes[v]
            for e in range(indptr[v], indptr[v + 1]):
                if side[np.uint32(ids[e])] != 0:
                    cut += weights[e]
        else:
            held1 += sizes[v]
            cut += bias[v]
    return cut, max(np.int64(0), held0 - most0) + max(np.int64(0), held1 - most1)


@njit(cache=True, nogil=True)
def _fill_queues(graph, side, queues, length, block_weights):
    """Queue the vertices of both sides by their cost of moving.

    length, block_weights : vertices of each side and their size, zero on entry, filled
    """
    indptr, ids, weights, sizes, bias = graph
    heap, place, cost, _ = queues
    for v in range(sizes.size):
        s = side[v]
        c = bias[v] if s == 0 else -bias[v]
        for e in range(indptr[v], indptr[v + 1]):
            c += weights[e] if side[np.uint32(ids[e])] == s else -np.int64(weights[e])
        cost[v] = c
        block_weights[s] += sizes[v]
        heap[s, length[s]] = v
        place[v] = length[s]
        length[s] += 1
    for s in range(2):
        for i in range(length[s] // 2 - 1, -1, -1):
            sift_down(heap[s], place, cost, i, length[s])


@njit(cache=True, nogil=True)
def _giving_side(most, block_weights, sizes, queues, length):
    """Return the side whose first vertex moves next, -1 if no first vertex may move.

    A side over its limit must give next. So a vertex may move without slack if another can come
    back.
    """
    heap, cost = queues.heap, queues.cost
    s = -1
    for t in range(2):
        if block_weights[t] > most[t] and length[t] > 0:
            s = t
    if s >= 0:
        return s
    for t in range(2):
        if length[t] == 0:
            continue
        fits = block_weights[1 - t] + sizes[heap[t, 0]] <= most[1 - t]
        if not fits and length[1 - t] == 0:
            continue
        if s < 0 or cost[heap[t, 0]] < cost[heap[s, 0]]:
            s = t
    return s


@njit(cache=True, nogil=True)
def _change_side(graph, v, side, queues, length, block_weights):
    """Move a vertex that has left its queue, and update the costs of its neighbours."""
    indptr, ids, weights, sizes, _ = graph
    heap, place, cost, _ = queues
    s = np.int64(side[v])
    side[v] = 1 - s
    block_weights[s] -= sizes[v]
    block_weights[1 - s] += sizes[v]
    for e in range(indptr[v], indptr[v + 1]):
        u = ids[e]
        if place[u] < 0:
            continue
        if side[u] == s:  # v has left u's side
            cost[u] -= 2 * np.int64(weights[e])
            sift_up(heap[s], place, cost, place[u])
        else:
            cost[u] += 2 * np.int64(weights[e])
            sift_down(heap[1 - s], place, cost, place[u], length[1 - s])


@njit(cache=True, nogil=True)
def _excess(block_weights, most):
    """Return the size above the limits of both sides."""
    return max(np.int64(0), block_weights[0] - most[0]) + max(
        np.int64(0), block_weights[1] - most[1]
    )


@njit(cache=True, nogil=True)
def two_way_fm(graph, most0, most1, passes, side, queues, haste):
    """Run two-way FM: best single move first, each vertex once per pass; keep the best prefix.

    With zero slack all moves are exchanges, see `_giving_side`.

    haste : PATIENT or HASTY

    Returns the decrease of the cost; getting below the limits may raise it.
    """
    sizes = graph.sizes
    heap, place, cost, moves = queues
    n = sizes.size
    won = np.int64(0)
    for v in range(n):
        place[v] = -1
    most = np.array([most0, most1])
    patience = max(LEAST_MOVES, n // haste)
    for _ in range(passes):
        length = np.zeros(2, np.int64)
        block_weights = np.zeros(2, np.int64)
        _fill_queues(graph, side, queues, length, block_weights)
        gain = np.int64(0)
        best_gain = np.int64(0)
        best_excess = _excess(block_weights, most)
        done = 0
        best_done = 0
        while done - best_done < patience:
            s = _giving_side(most, block_weights, sizes, queues, length)
            if s < 0:  # one side is left and its first vertex does not fit: try the next
                t = 0 if length[0] > 0 else 1
                if length[t] == 0:
                    break
                length[t] = remove(heap[t], place, cost, heap[t, 0], length[t])
                continue
            v = heap[s, 0]
            length[s] = remove(heap[s], place, cost, v, length[s])
            gain -= cost[v]
            _change_side(graph, v, side, queues, length, block_weights)
            moves[done] = v
            done += 1
            excess = _excess(block_weights, most)
            if excess < best_excess or (excess == best_excess and gain > best_gain):
                best_excess = excess
                best_gain = gain
                best_done = done
        for i in range(best_done, done):
            side[moves[i]] = 1 - side[moves[i]]
        for v in range(n):
            place[v] = -1
        won += best_gain
        if best_done == 0:
            break
    return won
