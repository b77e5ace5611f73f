"""Step 4, capacity: move vertices out of overfull parts at the least loss."""

from __future__ import annotations

import numpy as np
from numba import njit

from mapper.errors import DoesNotFitError
from mapper.graph.by_label import numbered
from mapper.graph.csr import chunk_of
from storage.arrays import Int32, Int64, Mask
from storage.graph import Graph

MAX_ROUNDS = 64


@njit(cache=True, nogil=True)
def _best_part(chunk, local, sizes, capacity, part, block_weights, affinity):
    """Find the connected part with slack and the largest affinity (-1 if none), and the loss.

    The loss is the decrease of affinity when the vertex leaves its part.

    local : vertex, counted from the first of the chunk
    """
    first, indptr, ids, weights = chunk
    begin, end = indptr[local], indptr[local + 1]
    size, own = sizes[first + local], part[first + local]
    for e in range(begin, end):
        affinity[part[ids[e]]] += weights[e]
    best = -1
    strongest = np.int64(-1)
    for e in range(begin, end):
        k = part[ids[e]]
        if k != own and block_weights[k] + size <= capacity and affinity[k] > strongest:
            best = k
            strongest = affinity[k]
    loss = affinity[own] - max(strongest, 0)
    for e in range(begin, end):
        affinity[part[ids[e]]] = 0
    return best, loss


@njit(cache=True, nogil=True)
def _losses(chunk, sizes, capacity, part, block_weights, affinity, loss):
    """Compute the loss of each vertex of an overfull part if it leaves."""
    for local in range(chunk.indptr.size - 1):
        v = chunk.first + local
        if block_weights[part[v]] > capacity:
            _, loss[v] = _best_part(chunk, local, sizes, capacity, part, block_weights, affinity)


@njit(cache=True, nogil=True)
def _leave(chunk, sizes, capacity, chosen, part, block_weights, affinity):
    """Move the chosen vertices while their part is overfull; return the number of moves.

    If no connected part has slack, the vertex goes to the emptiest part, provided it fits.
    """
    moved = 0
    for local in range(chunk.indptr.size - 1):
        v = chunk.first + local
        own = part[v]
        if not chosen[v] or block_weights[own] <= capacity:
            continue
        best, _ = _best_part(chunk, local, sizes, capacity, part, block_weights, affinity)
        if best < 0:
            best = block_weights.argmin()
            if block_weights[best] + sizes[v] > capacity:
                continue
        block_weights[own] -= sizes[v]
        block_weights[best] += sizes[v]
        part[v] = best
        moved += 1
    return moved


def _choose(
    candidates: Int64, loss: Int64, sizes: Int64, part: Int32, block_weights: Int64, capacity: int
) -> Mask:
    """Choose vertices of overfull parts, least loss per size first, to remove the excess."""
    order = candidates[np.lexsort((loss[candidates] / sizes[candidates], part[candidates]))]
    cumulative = np.cumsum(sizes[order])
    starts = np.flatnonzero(np.r_[True, part[order][1:] != part[order][:-1]])
    before = np.repeat(np.r_[0, cumulative[starts[1:] - 1]], np.diff(np.r_[starts, order.size]))
    left_before = cumulative - before - sizes[order]  # total size chosen before this vertex
    chosen = np.zeros(sizes.size, np.bool_)
    chosen[order[left_before < block_weights[part[order]] - capacity]] = True
    return chosen


def balance(
    graph: Graph, sizes: Int64, part: Int32, block_weights: Int64, capacity: int, threads: int = 1
) -> int:
    """Empty overfull parts down to the capacity; `part` and `block_weights` change in place.

    Returns the number of moves. Parts stay overfull only if no vertex that could leave fits
    anywhere: on coarse levels this is repaired on finer ones.
    """
    moves = 0
    affinity = np.zeros(block_weights.size, np.int64)
    loss = np.zeros(sizes.size, np.int64)
    for _ in range(MAX_ROUNDS):
        candidates = np.flatnonzero((block_weights[part] > capacity) & (sizes > 0))
        if not candidates.size:
            break
        for block in graph.blocks(threads=threads):
            _losses(chunk_of(block), sizes, capacity, part, block_weights, affinity, loss)
        chosen = _choose(candidates, loss, sizes, part, block_weights, capacity)
        moved = 0
        for block in graph.blocks(threads=threads):
            moved += _leave(chunk_of(block), sizes, capacity, chosen, part, block_weights, affinity)
        moves += moved
        if not moved:
            break
    return moves


def repack(sizes: Int64, part: Int32, block_weights: Int64, capacity: int) -> bool:
    """Last resort for tight cores and vertices of many sizes: repack the excess.

    Overfull parts give up their largest vertices until they fit; these are placed, largest first,
    into the fullest part that has slack (best-fit decreasing, the classic heuristic of bin
    packing). If vertices remain, all vertices are packed from scratch. Returns whether all fit.
    """
    loose: list[int] = []
    for k in np.flatnonzero(block_weights > capacity):
        members = np.flatnonzero(part == k)
        members = members[np.argsort(sizes[members], kind="stable")]
        keep = np.cumsum(sizes[members]) <= capacity
        loose += members[~keep].tolist()
        block_weights[k] = sizes[members[keep]].sum()
    for everything in (False, True):
        if everything:
            loose = np.flatnonzero(sizes > 0).tolist()
            block_weights[:] = 0
        loose.sort(key=lambda v: -sizes[v])
        left = []
        for v in loose:
            fitting = np.flatnonzero(block_weights + sizes[v] <= capacity)
            if not fitting.size:
                left.append(v)
                continue
            k = fitting[np.argmax(block_weights[fitting])]
            part[v] = k
            block_weights[k] += sizes[v]
        if not left:
            return True
    return False


def enforce_capacity(
    graph: Graph, sizes: Int64, part: Int32, block_weights: Int64, capacity: int, threads: int = 1
) -> None:
    """Empty overfull parts by all available methods; `part` and `block_weights` change in place.

    Raises `DoesNotFitError` if the vertices cannot be packed.
    """
    if block_weights.max() > capacity:
        balance(graph, sizes, part, block_weights, capacity, threads)
    over = int(block_weights.max() - capacity)
    if over > 0 and not repack(sizes, part, block_weights, capacity):
        raise DoesNotFitError(
            f"the vertices could not be packed into {block_weights.size} cores: a core is over its "
            f"limit by {over / capacity:.2%} at best, as the sizes leave too little slack; use a "
            "larger chip or larger cores"
        )


def enforce_and_renumber(
    graph: Graph,
    sizes: Int64,
    part: Int32,
    block_weights: Int64,
    capacity: int,
    cores: int,
    threads: int = 1,
) -> tuple[Int32, int]:
    """Enforce the capacity, with unused cores if needed, and renumber the parts.

    Returns (part, count). Raises `DoesNotFitError` if the vertices cannot be packed.
    """
    if block_weights.max() > capacity and block_weights.size < cores:
        block_weights = np.r_[block_weights, np.zeros(cores - block_weights.size, np.int64)]
    enforce_capacity(graph, sizes, part, block_weights, capacity, threads)
    return numbered(part, block_weights.size)
