"""Splitting the parts of a partition into parts of fewer cores.

The inner connections of as many parts as fit the memory are gathered in one pass over the rows;
then the parts are cut in two again and again until each piece has the number of cores that is
asked for. All of that happens by one thread for each part, all threads at work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.fleet.fleet import fleet_of
from mapper.fleet.shard import Shard, State, entries_of
from mapper.graph.by_label import by_label, sums_by_label
from mapper.graph.csr import Chunk, Csr
from mapper.graph.rows import Rows
from mapper.partitioning.multilevel_bisection import BisectionEffort, bisect_graph
from mapper.runtime.callbacks import Advance, ignore
from mapper.runtime.threads import ThreadTeam

NEAR = 1 << 16  # vertices of a part whose places in it take two bytes
LIGHT = 1 << 8  # weights below take one byte


@njit(cache=True, nogil=True)
def _gather(chunk, part, low, high, rank, used, out_ids, out_weights):
    """Rows of the vertices in parts low .. high-1, without what leaves the part, ids by rank.

    used : length that is left of each row of the chunk, 0 of those in other parts
    The rows lie one behind the other; returns their entries.
    """
    first, indptr, ids, weights = chunk
    at = 0
    for i in range(indptr.size - 1):
        own = part[first + i]
        used[i] = 0
        if own < low or own >= high:
            continue
        before = at
        for e in range(indptr[i], indptr[i + 1]):
            u = np.uint32(ids[e])
            if part[u] == own:
                out_ids[at] = rank[u]
                out_weights[at] = weights[e]
                at += 1
        used[i] = at - before
    return at


@njit(cache=True, nogil=True)
def _extract(graph, piece, wanted, local, members):
    """The graph inside a piece; `members` gets its vertices, `local` the places among them."""
    indptr, ids, weights, sizes, bias = graph
    count = 0
    entries = 0
    for v in range(sizes.size):
        if piece[v] == wanted:
            local[v] = count
            members[count] = v
            count += 1
            entries += indptr[v + 1] - indptr[v]
    indptr_out = np.empty(count + 1, np.int64)
    sizes_out = np.empty(count, np.int64)
    bias_out = np.empty(count, np.int64)
    sub_ids = np.empty(entries + 1, np.int32)
    sub_weights = np.empty(entries + 1, np.int32)
    at = 0
    indptr_out[0] = 0
    for c in range(count):
        v = members[c]
        sizes_out[c] = sizes[v]
        bias_out[c] = bias[v]
        for e in range(indptr[v], indptr[v + 1]):
            u = np.uint32(ids[e])
            sub_ids[at] = local[u]  # written anyway: whether it stays is hard to predict
            sub_weights[at] = weights[e]
            at += piece[u] == wanted
        indptr_out[c + 1] = at
    return Csr(indptr_out, sub_ids[:at], sub_weights[:at], sizes_out, bias_out)


@njit(cache=True, nogil=True)
def split_limits(size, cores, left, capacity):
    """Target of side 0 and limits of both: the slack is shared by the bisections still to come."""
    right = cores - left
    depth = 1
    while (1 << depth) < cores:
        depth += 1
    slack = max(1.0, cores * capacity / max(size, 1)) ** (1.0 / depth)
    share = size * (left / cores)
    target = np.int64(np.rint(share))
    most0 = max(min(np.int64(share * slack), left * capacity), target)
    most1 = max(min(np.int64((size - share) * slack), right * capacity), size - target)
    return target, most0, most1


@njit(cache=True, nogil=True)
def _divide(n, m, members, side, at, count, left, piece, piece_cores):
    """Make two pieces of piece `at`, which are `at` and the one behind it, of `count` pieces.

    members : the vertices of the piece, `m` of all `n`; left : cores of side 0
    """
    for v in range(n):
        if piece[v] > at:
            piece[v] += 1
    for c in range(m):
        piece[members[c]] = at + side[c]
    for b in range(count, at + 1, -1):
        piece_cores[b] = piece_cores[b - 1]
    piece_cores[at + 1] = piece_cores[at] - left
    piece_cores[at] = left


class Splitting(NamedTuple):
    """How parts are cut.

    stop : cores of a part that is not cut any more; capacity : of a core; effort : of each cut
    """

    stop: int
    capacity: int
    effort: BisectionEffort
    seed: int


def split_block(
    graph: Csr, how: Splitting, piece: NDArray[np.int32], piece_cores: NDArray[np.int64]
) -> int:
    """Cut a block until no piece has too many cores; returns the number of pieces.

    It is not one kernel: `bisect_graph` would be compiled once more within it, and that takes long.

    piece : ndarray[int32], shape (n,), gets the piece of every vertex; neighbouring numbers are
    pieces of the same piece. piece_cores : holds the cores of the block, and gets those of each
    piece, shape (cores,) or longer.
    """
    n = graph.sizes.size
    state = np.array([(how.seed * 0x9E3779B97F4A7C15 | 1) % 2**64], np.uint64)
    piece.fill(0)
    count = 1
    local = np.empty(n, np.int32)
    members = np.empty(n, np.int64)
    side = np.empty(n, np.uint8)
    at = 0
    while at < count:
        cores = int(piece_cores[at])
        if cores <= how.stop:
            at += 1
            continue
        inner = _extract(graph, piece, at, local, members)
        m = inner.sizes.size
        left = (cores + 1) // 2
        target, most0, most1 = split_limits(int(inner.sizes.sum()), cores, left, how.capacity)
        if m > 1:
            bisect_graph(inner, target, most0, most1, how.effort, state, side)
        else:
            side[:m] = 0
        _divide(n, m, members, side, at, count, left, piece, piece_cores)
        count += 1
    return count


class Gathered(NamedTuple):
    """Rows within their parts, one behind the other, in as few bytes as they need.

    near, far : places in the part, ndarray[uint16] and ndarray[int32]; one of the two is empty
    light, heavy : weights, ndarray[uint8] and ndarray[int32]; one of the two is empty
    """

    near: NDArray[np.uint16]
    far: NDArray[np.int32]
    light: NDArray[np.uint8]
    heavy: NDArray[np.int32]

    @classmethod
    def empty(cls, entries: int, near: bool, light: bool) -> Gathered:
        """Room for so many entries."""
        return cls(
            np.empty(entries if near else 0, np.uint16),
            np.empty(0 if near else entries, np.int32),
            np.empty(entries if light else 0, np.uint8),
            np.empty(0 if light else entries, np.int32),
        )


@njit(cache=True, nogil=True)
def _take(members, offset, used, rows, sizes):
    """The graph inside a block, from the gathered rows of its vertices."""
    near, far, light, heavy = rows
    indptr = np.empty(members.size + 1, np.int64)
    indptr[0] = 0
    for i in range(members.size):
        indptr[i + 1] = indptr[i] + used[members[i]]
    own_ids = np.empty(indptr[-1], np.int32)
    own_weights = np.empty(indptr[-1], np.int32)
    for i in range(members.size):
        first = offset[members[i]]
        low, count = indptr[i], indptr[i + 1] - indptr[i]
        if near.size > 0:
            for e in range(count):
                own_ids[low + e] = near[first + e]
        else:
            for e in range(count):
                own_ids[low + e] = far[first + e]
        if light.size > 0:
            for e in range(count):
                own_weights[low + e] = light[first + e]
        else:
            for e in range(count):
                own_weights[low + e] = heavy[first + e]
    bias = np.zeros(members.size, np.int64)
    return Csr(indptr, own_ids, own_weights, sizes[members], bias)


def _batches(at_part: NDArray[np.int64], entries: int) -> list[tuple[int, int]]:
    """Ranges of parts that together have at most so many entries, or are one part."""
    found = []
    low, parts = 0, at_part.size - 1
    while low < parts:
        fits = int(np.searchsorted(at_part, at_part[low] + entries, side="right")) - 1
        found.append((low, max(low + 1, fits)))
        low = found[-1][1]
    return found


class Inner(NamedTuple):
    """Rows of a chunk within their parts: lengths, places in the part, and weights."""

    used: NDArray[np.int32]
    ids: NDArray[Any]
    weights: NDArray[Any]


def gather(shard: Shard, chunk: Chunk, low: int, high: int, near: bool, light: bool) -> Inner:
    """Rows of a chunk within parts low .. high-1.

    near, light : places take two bytes, weights take one, see `Gathered`; else both take four
    """
    part, _, _, (rank,) = shard.state
    used = np.empty(chunk.vertices, np.int32)
    ids, weights = np.empty((2, entries_of(chunk)), np.int32)
    count = _gather(chunk, part, low, high, rank, used, ids, weights)
    return Inner(
        used,
        ids[:count].astype(np.uint16 if near else np.int32),
        weights[:count].astype(np.uint8 if light else np.int32),
    )


def split_parts(
    rows: Rows,
    part: NDArray[np.int32],
    cores: NDArray[np.int64],
    how: Splitting,
    memory: int,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Cut all parts until none has too many cores.

    part : ndarray[int32], shape (vertices,); cores : ndarray[int64], shape (parts,), cores that
    each part will be spread over in the end
    memory : bytes for gathered rows; a part that needs more is gathered alone

    Returns the new part of every vertex and the cores of the new parts.
    """
    n, parts = rows.vertices, cores.size
    members, start, rank = by_label(part, parts)
    # Entries of all earlier parts, those to other parts among them.
    at_part = np.append(0, np.cumsum(sums_by_label(part, rows.degrees(), parts)))

    offset, used = np.zeros(n, np.int64), np.zeros(n, np.int32)
    piece = np.zeros(n, np.int32)
    piece_start = np.zeros(parts + 1, np.int64)
    np.cumsum(cores, out=piece_start[1:])
    piece_cores = np.zeros(int(piece_start[-1]), np.int64)
    pieces = np.ones(parts, np.int64)
    near = bool(np.diff(start).max() <= NEAR)
    light = rows.heaviest < LIGHT
    batches = _batches(at_part, memory // ((2 if near else 4) + (1 if light else 4)))
    # More than there will be: pages that are never touched cost nothing.
    longest = max((int(at_part[high] - at_part[low]) for low, high in batches), default=0)
    gathered = Gathered.empty(longest, near, light)
    ids, weights = (
        gathered.near if near else gathered.far,
        gathered.light if light else gathered.heavy,
    )

    fleet = fleet_of(rows, team)
    fleet.begin(State(part, constants=(rank,)))

    def split(blocks: NDArray[np.int64]) -> None:
        for b in blocks.tolist():
            if cores[b] <= how.stop:
                piece_cores[piece_start[b]] = cores[b]
                continue
            mine = members[start[b] : start[b + 1]]
            own_piece = np.empty(mine.size, np.int32)
            own_cores = piece_cores[piece_start[b] : piece_start[b + 1]]
            own_cores[0] = cores[b]
            block = _take(mine, offset, used, gathered, rows.sizes)
            own = how._replace(seed=how.seed + b)
            pieces[b] = split_block(block, own, own_piece, own_cores)
            piece[mine] = own_piece

    for low, high in batches:
        at = first = 0
        for found in fleet.each(
            gather, range(rows.chunks), low, high, near, light, advance=advance
        ):
            end, last = at + found.ids.size, first + found.used.size
            ids[at:end], weights[at:end] = found.ids, found.weights
            used[first:last] = found.used
            np.cumsum(found.used[:-1], out=offset[first + 1 : last])
            offset[first] = 0
            offset[first:last] += at
            at, first = end, last
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
    piece += base.astype(np.int32)[part]
    return piece, new_cores
