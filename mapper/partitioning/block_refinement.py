"""Step 4: greedy moves of single vertices between parts, block by block."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.graph.csr import chunk_of
from storage.graph import Graph


@njit(cache=True, nogil=True)
def _refine_block(chunk, order, sizes, capacity, part, block_weights, affinity, connected):
    """Visit the block's vertices in `order` and move each to its best part with slack.

    affinity : scratch, zero on entry and exit; weight from the vertex into each part
    connected : scratch, parts that the vertex is connected to

    The published rule tries the parts by increasing cost W_i - W_k while it is negative, and takes
    the first one with slack. This is the same as the largest W_k above W_i among the parts with
    slack. Returns the number of moves and the reduction of the cut weight.
    """
    first, indptr, ids, weights = chunk
    moves = 0
    gained = np.int64(0)
    for step in range(order.size):
        local = order[step]
        v = first + local
        own = part[v]
        found = 0
        for e in range(indptr[local], indptr[local + 1]):
            k = part[ids[e]]
            if affinity[k] == 0:
                connected[found] = k
                found += 1
            affinity[k] += weights[e] + 1  # plus one, to mark parts reached with weight 0
        for e in range(indptr[local], indptr[local + 1]):
            affinity[part[ids[e]]] -= 1
        best = own
        for i in range(found):
            k = connected[i]
            if (
                k != own
                and block_weights[k] + sizes[v] <= capacity
                and affinity[k] > affinity[best]
            ):
                best = k
        if best != own:
            gained += affinity[best] - affinity[own]
            block_weights[own] -= sizes[v]
            block_weights[best] += sizes[v]
            part[v] = best
            moves += 1
        for i in range(found):
            affinity[connected[i]] = 0
    return moves, gained


@njit(cache=True, nogil=True)
def _cut_of_block(chunk, part):
    first, indptr, ids, weights = chunk
    cut = np.int64(0)
    for v in range(indptr.size - 1):
        for e in range(indptr[v], indptr[v + 1]):
            if part[ids[e]] != part[first + v]:
                cut += weights[e]
    return cut


def refine(
    graph: Graph,
    sizes: NDArray[np.int64],
    part: NDArray[np.int32],
    block_weights: NDArray[np.int64],
    capacity: int,
    rng: np.random.Generator,
    threads: int = 1,
) -> tuple[int, int]:
    """Visit all vertices once in random order; `part` and `block_weights` change in place.

    part : ndarray[int32], shape (vertices,); block_weights : ndarray[int64], shape (parts,), their
        sizes

    Returns the number of moves and the reduction of the cut weight.
    """
    moves = gained = 0
    affinity = np.zeros(block_weights.size, np.int64)
    connected = np.empty(block_weights.size, np.int64)
    for block in graph.blocks(rng.permutation(graph.block_count).tolist(), threads):
        order = rng.permutation(block.vertices)
        moved, gain = _refine_block(
            chunk_of(block), order, sizes, capacity, part, block_weights, affinity, connected
        )
        moves += int(moved)
        gained += int(gain)
    return moves, gained


def cut_weight(graph: Graph, part: NDArray[np.int32], threads: int = 1) -> int:
    """Return the weight of the connections between different parts, each pair counted once."""
    total = 0
    for block in graph.blocks(threads=threads):
        total += int(_cut_of_block(chunk_of(block), part))
    return total // 2
