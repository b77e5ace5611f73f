"""Step 3, one bisection: greedy graph growing from random starts.

Karypis and Kumar's GGGP (SIAM J. Sci. Comput. 20, 1998): the selected set grows by the vertex that
adds least to the cut. The cost of a vertex is the weight of its connections to unselected vertices
minus the weight to selected ones, so the cut is the running sum of the costs. Vertices without a
selected neighbour come last: a vertex of small degree is cheap anywhere, and selecting it far away
starts a second region (measured: 2 to 8 % more cut, docs/method.md).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.graph.csr import Subgraph
from mapper.graph.heap import remove, sift_down, sift_up
from storage.arrays import Int64

WAITING = 1 << 62  # added to the cost of vertices without a selected neighbour
PARALLEL_ABOVE = 20_000  # connections; below this a thread costs more than it saves


@njit(cache=True, nogil=True)
def _grow(indptr, ids, weights, sizes, order, target, low, high, selected):
    """Grow `selected` (0/1 per vertex) from order[0] to about `target`; return the cut.

    order : all vertices in random order; breaks ties between equal costs
    low, high : size limits of the selected set, kept if vertices allow it
    """
    n = indptr.size - 1
    cost = np.zeros(n, np.int64)
    heap = np.empty(n, np.int64)
    place = np.empty(n, np.int64)
    for i in range(n):
        v = order[i]
        heap[i] = v
        place[v] = i
        selected[v] = 0
        for e in range(indptr[v], indptr[v + 1]):
            cost[v] += weights[e]
        cost[v] += WAITING
    length = n
    for i in range(n // 2 - 1, -1, -1):
        sift_down(heap, place, cost, i, length)

    cut = np.int64(0)
    block_weight = np.int64(0)
    v = order[0]
    while block_weight < target and length > 0:
        length = remove(heap, place, cost, v, length)
        over = block_weight + sizes[v] - target
        if block_weight + sizes[v] <= high:
            if over > target - block_weight and block_weight >= low:
                break  # stopping here is closer to the target
            block_weight += sizes[v]
            cut += cost[v] if cost[v] < WAITING // 2 else cost[v] - WAITING
            selected[v] = 1
            for e in range(indptr[v], indptr[v + 1]):
                u = ids[e]
                if place[u] >= 0:
                    cost[u] -= 2 * weights[e]
                    if cost[u] >= WAITING // 2:
                        cost[u] -= WAITING
                    sift_up(heap, place, cost, place[u])
        if length > 0:
            v = heap[0]
    return cut


def grow_half(
    graph: Subgraph,
    target: int,
    low: int,
    high: int,
    repeats: int,
    rng: np.random.Generator,
    threads: int = 1,
) -> NDArray[np.uint8]:
    """Select vertices of total size near `target` with a small cut: best of several random starts.

    low, high : the selected set should have at least size `low` and never more than `high`. A set
        that misses `low` (vertices too large to fit) ranks below all sets that reach it.

    Returns side : ndarray[uint8], shape (n,), 1 for selected vertices.
    """
    orders = [rng.permutation(graph.members.size) for _ in range(repeats)]

    def attempt(order: Int64) -> tuple[int, int, NDArray[np.uint8]]:
        side = np.empty(order.size, np.uint8)
        cut = _grow(
            graph.indptr, graph.ids, graph.weights, graph.sizes, order, target, low, high, side
        )
        missing = max(0, low - int(graph.sizes[side == 1].sum()))
        return missing, int(cut), side

    if threads > 1 and graph.ids.size > PARALLEL_ABOVE:
        with ThreadPoolExecutor(threads) as pool:
            attempts = list(pool.map(attempt, orders))
    else:
        attempts = [attempt(order) for order in orders]
    return min(attempts, key=lambda found: found[:2])[2]
