"""Splitting the parts of a partition into parts of fewer cores.

The inner connections of as many parts as fit the memory are gathered in one pass over the rows;
then the parts are cut in two again and again, each by one thread, all threads at work.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.partition.bipartition import BisectionEffort, _split_gathered
from mapper.partition.rows import Rows
from mapper.team import Team

GATHERED_BYTES = 8  # of an entry: id and weight


@njit(cache=True, nogil=True)
def _gather(first, indptr, ids, weights, part, low, high, rank, offset, used, out_ids, out_weights):
    """Rows of the vertices in parts low .. high-1, without what leaves the part, ids by rank."""
    for i in range(indptr.size - 1):
        v = first + i
        own = part[v]
        if own < low or own >= high:
            continue
        at = offset[v]
        for e in range(indptr[i], indptr[i + 1]):
            u = np.uint32(ids[e])
            if part[u] == own:
                out_ids[at] = rank[u]
                out_weights[at] = weights[e]
                at += 1
        used[v] = at - offset[v]


def _batches(at_part: NDArray[np.int64], entries: int) -> list[tuple[int, int]]:
    """Ranges of parts that together have at most so many entries, or are one part."""
    found = []
    low, parts = 0, at_part.size - 1
    while low < parts:
        fits = int(np.searchsorted(at_part, at_part[low] + entries, side="right")) - 1
        found.append((low, max(low + 1, fits)))
        low = found[-1][1]
    return found


def split_parts(
    rows: Rows,
    part: NDArray[np.int32],
    cores: NDArray[np.int64],
    stop: int,
    capacity: int,
    effort: BisectionEffort,
    seed: int,
    memory: int,
    team: Team,
    advance: Callable[[int], None] = lambda done: None,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Cut all parts until none has over `stop` cores.

    part : ndarray[int32], shape (vertices,); cores : ndarray[int64], shape (parts,), cores that
    each part will be spread over in the end, of `capacity` each
    memory : bytes for gathered rows; a part that needs more is gathered alone

    Returns the new part of every vertex and the cores of the new parts.
    """
    n, parts = rows.vertices, cores.size
    members = np.argsort(part, kind="stable")
    start = np.zeros(parts + 1, np.int64)
    np.cumsum(np.bincount(part, minlength=parts), out=start[1:])
    rank = np.empty(n, np.int32)
    rank[members] = np.arange(n) - np.repeat(start[:-1], np.diff(start))

    # A row gets room for all its entries: those that leave the part are never written, and pages
    # that are never touched cost nothing.
    before = np.zeros(n + 1, np.int64)
    np.cumsum(rows.degrees()[members], out=before[1:])
    at_part = before[start]

    offset, used = np.zeros(n, np.int64), np.zeros(n, np.int32)
    piece = np.zeros(n, np.int32)
    piece_start = np.zeros(parts + 1, np.int64)
    np.cumsum(cores, out=piece_start[1:])
    piece_cores = np.zeros(int(piece_start[-1]), np.int64)
    pieces = np.ones(parts, np.int64)
    batches = _batches(at_part, memory // GATHERED_BYTES)
    longest = max((int(at_part[high] - at_part[low]) for low, high in batches), default=0)
    ids, weights = np.empty(longest, np.int32), np.empty(longest, np.int32)

    def split(blocks: NDArray[np.int64]) -> None:
        _split_gathered(
            blocks, members, start, offset, used, ids, weights, rows.sizes, cores, stop, capacity,
            effort.tries, effort.passes, effort.smoothing, seed, piece, piece_cores, piece_start,
            pieces,
        )  # fmt: skip

    for low, high in batches:
        mine = members[start[low] : start[high]]
        offset[mine] = before[start[low] : start[high]] - at_part[low]

        def gather(index: int, low: int = low, high: int = high) -> int:
            chunk = rows.read(index)
            _gather(
                chunk.first, chunk.indptr, chunk.ids, chunk.weights, part, low, high, rank,
                offset, used, ids, weights,
            )  # fmt: skip
            return int(chunk.indptr[-1] - chunk.indptr[0])

        for entries in team.stream(gather, range(rows.chunks)):
            advance(entries)
        # the largest first, so that threads end together; small ones in bunches
        work = np.diff(at_part[low : high + 1])
        order = low + np.argsort(-work, kind="stable")
        ends = np.linspace(0, work.sum(), 8 * team.threads + 1)[1:-1]
        bunches = np.unique(np.searchsorted(np.cumsum(work[order - low]), ends))
        team.map(split, [blocks for blocks in np.split(order, bunches) if blocks.size])
    base = np.zeros(parts + 1, np.int64)
    np.cumsum(pieces, out=base[1:])
    new_cores = np.concatenate(
        [piece_cores[piece_start[b] : piece_start[b] + pieces[b]] for b in range(parts)]
    )
    return (base[part] + piece).astype(np.int32), new_cores
