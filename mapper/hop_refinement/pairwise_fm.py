"""Exchanges between pairs of nearby cores by FM on hops.

Between two cores a and b the hops of their vertices are a cut with a bias: a cut connection inside
the pair costs its weight times the distance of a and b, and connections to vertices elsewhere make
each vertex prefer one of the two. So two-way FM finds exchanges of whole clusters of vertices, also
where both cores are full (the pairwise refinement of Sanders and Schulz, ESA 2011, with distances
as costs). Disjoint pairs are processed in parallel, with all other positions frozen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.graph.csr import Csr
from mapper.hop_refinement.mesh import _apart
from mapper.partitioning.two_way_fm import PATIENT, new_queues, two_way_fm
from storage.arrays import Int32, Int64, Mask

INT32_MOST = np.int64(2**31 - 1)


class Batch(NamedTuple):
    """Cores whose vertices have their rows in memory.

    cores : ndarray[bool], shape (cores of the chip,)
    offset, degree : shape (vertices,), start and length of each row in `ids` and `weights`
    """

    cores: Mask
    offset: Int64
    degree: Int32
    ids: Int32
    weights: Int32


@njit(cache=True, nogil=True)
def _pair_graph(a, b, by_core, batch, sizes, core, grid):
    """Build the graph inside two cores, with the bias of each vertex towards the first core.

    Vertices of a come first, then vertices of b.
    """
    members, start, rank = by_core
    _, offset, degree, ids, weights = batch
    of_a = start[a + 1] - start[a]
    n = of_a + start[b + 1] - start[b]
    apart = _apart(a, b, grid)
    entries = 0
    for i in range(n):
        v = members[start[a] + i] if i < of_a else members[start[b] + i - of_a]
        entries += degree[v]
    indptr = np.empty(n + 1, np.int64)
    inner = np.empty(entries, np.int32)
    inner_weights = np.empty(entries, np.int32)
    own_sizes = np.empty(n, np.int64)
    bias = np.empty(n, np.int64)
    at = 0
    indptr[0] = 0
    for i in range(n):
        v = members[start[a] + i] if i < of_a else members[start[b] + i - of_a]
        links = ids[offset[v] : offset[v] + degree[v]]
        link_weights = weights[offset[v] : offset[v] + degree[v]]
        towards = np.int64(0)
        for e in range(links.size):
            u = np.uint32(links[e])
            c = core[u]
            w = np.int64(link_weights[e])
            if c in (a, b) and rank[u] >= 0:
                inner[at] = rank[u] if c == a else rank[u] + of_a
                inner_weights[at] = min(w * apart, INT32_MOST)
                at += 1
            else:
                towards += w * (_apart(c, b, grid) - _apart(c, a, grid))
        own_sizes[i] = sizes[v]
        bias[i] = towards
        indptr[i + 1] = at
    return Csr(indptr, inner[:at], inner_weights[:at], own_sizes, bias)


@njit(cache=True, nogil=True)
def _limits(held_a, held_b, most_a, most_b, least_a, least_b):
    """Return the most that each of two cores may hold, so that both hold at least their least.

    If they hold too little for both, a core gets the spare size of the other, or keeps its size.
    """
    total = held_a + held_b
    if total < least_a + least_b:
        if held_a >= least_a:
            least_b = total - least_a
        elif held_b >= least_b:
            least_a = total - least_b
        else:
            least_a, least_b = held_a, held_b
    if least_b > 0:
        most_a = min(most_a, total - least_b)
    if least_a > 0:
        most_b = min(most_b, total - least_a)
    return most_a, most_b


@njit(cache=True, nogil=True)
def _exchange(pairs, by_core, batch, sizes, core, grid, passes, side, side_start):
    """Run FM between the cores of each pair; return the hops saved, by frozen positions.

    pairs : ndarray[int64], shape (pairs, 2)
    side : receives 1 for vertices that belong on the second core; pair p starts at side_start[p]
    """
    won = np.int64(0)
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        graph = _pair_graph(a, b, by_core, batch, sizes, core, grid)
        n = graph.sizes.size
        of_a = by_core.start[a + 1] - by_core.start[a]
        mine = side[side_start[p] : side_start[p] + n]
        held = np.zeros(2, np.int64)
        for i in range(n):
            mine[i] = 0 if i < of_a else 1
            held[mine[i]] += graph.sizes[i]
        most_a, most_b = _limits(
            held[0], held[1], grid.capacities[a], grid.capacities[b], grid.least[a], grid.least[b]
        )
        won += two_way_fm(graph, most_a, most_b, passes, mine, new_queues(n), PATIENT)
    return won


@njit(cache=True, nogil=True)
def _settle(pairs, by_core, core, side, side_start):
    """Assign the vertices of all pairs to the core of their side; return the number of moves."""
    members, start, _ = by_core
    moved = 0
    for p in range(pairs.shape[0]):
        at = side_start[p]
        for k in range(2):
            for i in range(start[pairs[p, k]], start[pairs[p, k] + 1]):
                core[members[i]] = pairs[p, side[at]]
                moved += side[at] != k
                at += 1
    return moved
