"""Step 2: matching of vertices along heavy connections.

Heavy-edge matching after Karypis and Kumar, "A fast and high quality multilevel scheme for
partitioning irregular graphs", SIAM J. Sci. Comput. 20 (1998), with a limit on the size of a pair.
All repeats are matched in the same pass over the graph: reading blocks costs more than matching.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mapper.graph.csr import chunk_of
from storage.arrays import Int32, Int64
from storage.graph import Graph


@njit(cache=True, nogil=True)
def _match_block(chunk, order, sizes, limit, mate):
    """Pair the block's vertices, visited in `order`; return the weight inside new pairs.

    A vertex pairs along its heaviest connection to an unmatched vertex within the limit. Ties go to
    the first one, searched from a random place in the list: otherwise meshes, whose weights are all
    equal, would pair along the numbering of their vertices.
    """
    first, indptr, ids, weights = chunk
    inside = np.int64(0)
    for step in range(order.size):
        local = order[step]
        v = first + local
        begin, end = indptr[local], indptr[local + 1]
        if mate[v] >= 0 or begin == end:
            continue
        heaviest = np.int64(-1)
        partner = np.int64(-1)
        # the order is random, and so is its mirror
        turn = order[order.size - 1 - step] % (end - begin)
        for i in range(end - begin):
            e = begin + (turn + i) % (end - begin)
            u = ids[e]
            if weights[e] > heaviest and mate[u] < 0 and sizes[u] + sizes[v] <= limit:
                heaviest = weights[e]
                partner = np.int64(u)
        if partner >= 0:
            mate[v] = partner
            mate[partner] = v
            inside += heaviest
    return inside


@njit(cache=True, nogil=True)
def _number_pairs(mate, coarse):
    """Number the pairs in the order of their lower vertices; return the number of pairs."""
    count = 0
    for v in range(mate.size):
        if mate[v] < 0 or mate[v] > v:
            coarse[v] = count
            count += 1
        else:
            coarse[v] = coarse[mate[v]]
    return count


def match(
    graph: Graph, sizes: Int64, limit: int, repeats: int, rng: np.random.Generator, threads: int = 1
) -> tuple[Int32, int]:
    """Pair vertices along heavy connections in random order; keep the best of several repeats.

    sizes : ndarray[int64], shape (vertices,), capacity that each vertex uses
    limit : largest total size of a pair

    Returns (coarse, count): coarse id of every vertex, and the number of coarse vertices. The best
    repeat has the largest connection weight inside its pairs. The order is random over blocks and
    over the vertices of each block, so that a graph on disk is read sequentially.
    """
    mates = np.full((repeats, graph.vertices), -1, np.int32)
    inside = np.zeros(repeats, np.int64)
    for block in graph.blocks(rng.permutation(graph.block_count).tolist(), threads):
        chunk = chunk_of(block)
        for repeat in range(repeats):
            order = rng.permutation(block.vertices)
            inside[repeat] += _match_block(chunk, order, sizes, limit, mates[repeat])
    coarse = np.empty(graph.vertices, np.int32)
    count = _number_pairs(mates[int(inside.argmax())], coarse)
    return coarse, int(count)
