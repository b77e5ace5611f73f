"""Step 4, the limit: vertices leave parts that are over the capacity, at the least loss."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.errors import DoesNotFitError
from mapper.graph.csr import chunk_of
from storage.graph import Graph

MAX_ROUNDS = 64


@njit(cache=True, nogil=True)
def _best_part(chunk, local, sizes, capacity, part, load, pull):
    """Connected part with room and the largest pull (-1 if none), and what leaving its part loses.

    local : vertex, counted from the first of the chunk
    """
    first, indptr, ids, weights = chunk
    begin, end = indptr[local], indptr[local + 1]
    size, own = sizes[first + local], part[first + local]
    for e in range(begin, end):
        pull[part[ids[e]]] += weights[e]
    best = -1
    strongest = np.int64(-1)
    for e in range(begin, end):
        k = part[ids[e]]
        if k != own and load[k] + size <= capacity and pull[k] > strongest:
            best = k
            strongest = pull[k]
    loss = pull[own] - max(strongest, 0)
    for e in range(begin, end):
        pull[part[ids[e]]] = 0
    return best, loss


@njit(cache=True, nogil=True)
def _losses(chunk, sizes, capacity, part, load, pull, loss):
    """What each vertex of an overfull part loses by leaving it."""
    for local in range(chunk.indptr.size - 1):
        v = chunk.first + local
        if load[part[v]] > capacity:
            _, loss[v] = _best_part(chunk, local, sizes, capacity, part, load, pull)


@njit(cache=True, nogil=True)
def _leave(chunk, sizes, capacity, chosen, part, load, pull):
    """Move the chosen vertices while their part is overfull; returns how many moved.

    Where no connected part has room, the emptiest part takes the vertex if it fits there.
    """
    moved = 0
    for local in range(chunk.indptr.size - 1):
        v = chunk.first + local
        own = part[v]
        if not chosen[v] or load[own] <= capacity:
            continue
        best, _ = _best_part(chunk, local, sizes, capacity, part, load, pull)
        if best < 0:
            best = load.argmin()
            if load[best] + sizes[v] > capacity:
                continue
        load[own] -= sizes[v]
        load[best] += sizes[v]
        part[v] = best
        moved += 1
    return moved


def _choose(
    candidates: NDArray[np.int64],
    loss: NDArray[np.int64],
    sizes: NDArray[np.int64],
    part: NDArray[np.int32],
    load: NDArray[np.int64],
    capacity: int,
) -> NDArray[np.bool_]:
    """The vertices of each overfull part that lose least per size, enough to undo its excess."""
    order = candidates[np.lexsort((loss[candidates] / sizes[candidates], part[candidates]))]
    held = np.cumsum(sizes[order])
    starts = np.flatnonzero(np.r_[True, part[order][1:] != part[order][:-1]])
    before = np.repeat(np.r_[0, held[starts[1:] - 1]], np.diff(np.r_[starts, order.size]))
    left_before = held - before - sizes[order]  # size that has left when a vertex's turn comes
    chosen = np.zeros(sizes.size, np.bool_)
    chosen[order[left_before < load[part[order]] - capacity]] = True
    return chosen


def balance(
    graph: Graph,
    sizes: NDArray[np.int64],
    part: NDArray[np.int32],
    load: NDArray[np.int64],
    capacity: int,
    threads: int = 1,
) -> int:
    """Empty overfull parts down to the capacity; `part` and `load` change in place.

    Returns the number of moves. Parts stay overfull only where no vertex that could leave fits
    anywhere: on coarse levels that is put right further down.
    """
    moves = 0
    pull = np.zeros(load.size, np.int64)
    loss = np.zeros(sizes.size, np.int64)
    for _ in range(MAX_ROUNDS):
        candidates = np.flatnonzero((load[part] > capacity) & (sizes > 0))
        if not candidates.size:
            break
        for block in graph.blocks(threads=threads):
            _losses(chunk_of(block), sizes, capacity, part, load, pull, loss)
        chosen = _choose(candidates, loss, sizes, part, load, capacity)
        moved = 0
        for block in graph.blocks(threads=threads):
            moved += _leave(chunk_of(block), sizes, capacity, chosen, part, load, pull)
        moves += moved
        if not moved:
            break
    return moves


def repack(
    sizes: NDArray[np.int64], part: NDArray[np.int32], load: NDArray[np.int64], capacity: int
) -> bool:
    """Last resort for tight cores and vertices of many sizes: place what is too much anew.

    Overfull parts give up their smallest vertices until they fit; these are put, largest first,
    into the fullest part that has room (best-fit decreasing, the classic heuristic of bin
    packing). If that leaves vertices over, all vertices are packed anew. Returns whether it fits.
    """
    loose: list[int] = []
    for k in np.flatnonzero(load > capacity):
        members = np.flatnonzero(part == k)
        members = members[np.argsort(sizes[members], kind="stable")]
        keep = np.cumsum(sizes[members]) <= capacity
        loose += members[~keep].tolist()
        load[k] = sizes[members[keep]].sum()
    for everything in (False, True):
        if everything:
            loose = np.flatnonzero(sizes > 0).tolist()
            load[:] = 0
        loose.sort(key=lambda v: -sizes[v])
        left = []
        for v in loose:
            rooms = np.flatnonzero(load + sizes[v] <= capacity)
            if not rooms.size:
                left.append(v)
                continue
            k = rooms[np.argmax(load[rooms])]
            part[v] = k
            load[k] += sizes[v]
        if not left:
            return True
    return False


def enforce_capacity(
    graph: Graph,
    sizes: NDArray[np.int64],
    part: NDArray[np.int32],
    load: NDArray[np.int64],
    capacity: int,
    threads: int = 1,
) -> None:
    """Empty overfull parts, by all means; `part` and `load` change in place.

    Raises `DoesNotFitError` if the vertices cannot be packed.
    """
    if load.max() > capacity:
        balance(graph, sizes, part, load, capacity, threads)
    over = int(load.max() - capacity)
    if over > 0 and not repack(sizes, part, load, capacity):
        raise DoesNotFitError(
            f"the vertices could not be packed into {load.size} cores: a core is over its limit by "
            f"{over / capacity:.2%} at best; the sizes leave too little slack, take a larger chip "
            "or larger cores"
        )


def enforce_and_renumber(
    graph: Graph,
    sizes: NDArray[np.int64],
    part: NDArray[np.int32],
    load: NDArray[np.int64],
    capacity: int,
    cores: int,
    threads: int = 1,
) -> tuple[NDArray[np.int32], int]:
    """Put right what moves of single vertices could not, and number the parts anew.

    Returns (part, count). Raises `DoesNotFitError` if the vertices cannot be packed.
    """
    if load.max() > capacity and load.size < cores:
        load = np.r_[load, np.zeros(cores - load.size, np.int64)]
    enforce_capacity(graph, sizes, part, load, capacity, threads)
    used, numbered = np.unique(part, return_inverse=True)
    return numbered.astype(np.int32), int(used.size)
