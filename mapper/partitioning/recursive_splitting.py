"""Splitting of the parts of a partition into parts of fewer cores.

The inner connections of as many parts as fit in memory are gathered at their homes in one pass over
the rows. There each part is bisected repeatedly until each piece has the requested number of cores.
Parts are split in parallel, one thread per part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam
from mapper.executors.exchange import Exchange, Lists, Sorted
from mapper.executors.shard import Shard, State, entries_of
from mapper.graph.by_label import by_label, sums_by_label
from mapper.graph.csr import Chunk, Csr
from mapper.graph.rows import Rows, executor_of
from mapper.monitoring.callbacks import Advance, ignore
from mapper.partitioning.multilevel_bisection import BisectionEffort, bisect_graph
from mapper.random_numbers import GOLDEN
from storage.arrays import Int32, Int64

NARROW_VERTICES = 1 << 16  # vertices of a part up to which places take two bytes
LIGHT = 1 << 8  # smaller weights take one byte


@njit(cache=True, nogil=True)
def _gather(chunk, part, low, high, rank, used, out_ids, out_weights):
    """Gather the rows of vertices in parts low .. high-1, without connections that leave the part.

    used : remaining length of each row of the chunk, 0 for vertices of other parts

    The rows are contiguous; ids are ranks in the part. Returns the number of entries.
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
    """Return the graph inside a piece; fills `members` (its vertices) and `local` (places)."""
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
            sub_ids[at] = local[u]  # written unconditionally: the branch would be hard to predict
            sub_weights[at] = weights[e]
            at += piece[u] == wanted
        indptr_out[c + 1] = at
    return Csr(indptr_out, sub_ids[:at], sub_weights[:at], sizes_out, bias_out)


@njit(cache=True, nogil=True)
def split_limits(size, cores, left, capacity):
    """Return the target of side 0 and the limits of both: later bisections share the slack."""
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
    """Split piece `at` into pieces `at` and `at` + 1, of `count` pieces.

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
    """Parameters of splitting.

    stop : cores of a part that is not cut further; capacity : of a core; effort : of each cut
    """

    stop: int
    capacity: int
    effort: BisectionEffort
    seed: int


def split_block(graph: Csr, how: Splitting, piece: Int32, piece_cores: Int64) -> int:
    """Cut a block until no piece has too many cores; return the number of pieces.

    Not a single kernel: `bisect_graph` would be compiled again inside it, which takes long.

    piece : ndarray[int32], shape (n,), filled with the piece of every vertex; neighbouring numbers
        come from the same piece
    piece_cores : the cores of the block on entry, the cores of each piece on exit, shape (cores,)
        or longer
    """
    n = graph.sizes.size
    state = np.array([(how.seed * GOLDEN | 1) % 2**64], np.uint64)
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


def gather(shard: Shard, chunk: Chunk, low: int, high: int, near: bool, light: bool) -> Sorted:
    """Return the rows of a chunk within parts low .. high-1.

    near, light : places take two bytes, weights one byte, see `Exchange`; otherwise four bytes each
    """
    part, _, _, (rank,) = shard.state
    used = np.empty(chunk.vertices, np.int32)
    ids, weights = np.empty((2, entries_of(chunk)), np.int32)
    count = _gather(chunk, part, low, high, rank, used, ids, weights)
    return Sorted(
        used,
        ids[:count].astype(np.uint16 if near else np.int32),
        weights[:count].astype(np.uint8 if light else np.int32),
    )


def cut(
    how: Splitting, part: int, rows: Callable[[], Lists], sizes: Int64, cores: Int64
) -> tuple[NDArray[Any], Int64]:
    """Cut a part; return the piece of each of its vertices, and the cores of each piece.

    rows : returns the rows of its vertices, as gathered by `gather`
    sizes : of its vertices; cores : ndarray[int64], shape (1,), number of cores of the part
    """
    count = int(cores[0])
    narrow = np.min_scalar_type(count)
    if count <= how.stop:
        return np.zeros(sizes.size, narrow), cores
    piece, piece_cores = np.empty(sizes.size, np.int32), np.zeros(count, np.int64)
    piece_cores[0] = count
    # Copied: received arrays may be read-only, which is another type for kernels.
    block = Csr(*rows(), sizes.copy(), np.zeros(sizes.size, np.int64))
    own = how._replace(seed=how.seed + part)
    pieces = split_block(block, own, piece, piece_cores)
    return piece.astype(narrow), piece_cores[:pieces]


def split_parts(
    rows: Rows,
    part: Int32,
    cores: Int64,
    how: Splitting,
    memory: int,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> tuple[Int32, Int64]:
    """Cut all parts until none has too many cores.

    part : ndarray[int32], shape (vertices,); cores : ndarray[int64], shape (parts,), final number
        of cores of each part
    memory : bytes for gathered rows; a part that needs more is gathered alone

    Returns the new part of every vertex and the cores of the new parts.
    """
    parts = cores.size
    members, start, rank = by_label(part, parts)
    near = bool(np.diff(start).max() <= NARROW_VERTICES)
    light = rows.heaviest < LIGHT

    def given(one: int) -> tuple[Int64, Int64]:
        return rows.sizes[members[start[one] : start[one + 1]]], cores[one : one + 1]

    executor = executor_of(rows, team)
    executor.begin(State(part, constants=(rank,)))
    exchange = Exchange(
        sort=gather,
        arguments=(near, light),
        finish=partial(cut, how),
        given=given,
        # upper bound: includes connections to other parts
        most=sums_by_label(part, rows.degrees(), parts),
        members=members,
        start=start,
        near=near,
        light=light,
        memory=memory,
    )
    new = np.empty(rows.vertices, np.int32)
    new_cores: list[Int64] = []
    count = 0
    for one, (piece, piece_cores) in enumerate(executor.exchange(exchange, advance)):
        new[members[start[one] : start[one + 1]]] = piece.astype(np.int32) + np.int32(count)
        new_cores.append(piece_cores)
        count += piece_cores.size
    return new, np.concatenate(new_cores)
