"""Contraction into memory, of all connections or of a sample that keeps the heavy ones.

The rows of a cluster's members are stored contiguously, at places computed beforehand, so that any
number of threads may write them in any order; then each row is added up by cluster. Nothing is
sorted.

Networks with long-range connections hardly lose any during coarsening: at a quarter of the vertices
84 % are left. A coarse level only has to show the structure, so it is built from a threshold
sample: connections of weight w >= t are kept; lighter ones are kept with probability w/t and then
count as t. The expected weight of every cut is unchanged, and the total work over all levels is
linear (Gottesbueren, Maas, Rosch, Sanders and Seemaier, arXiv 2504.17615). The choice depends on a
hash of the two ids, so both rows of a pair agree.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam, WorkspacePool
from mapper.executors.shard import Shard, State, by_label, entries_of
from mapper.graph.by_label import sums_by_label
from mapper.graph.csr import Chunk
from mapper.graph.rows import HeldRows, Rows, executor_of
from mapper.monitoring.callbacks import Advance, ignore
from mapper.random_numbers import mixed
from storage.arrays import Int32, Int64

FINE = 1 << 11  # smaller weights have one bin each; above, each octave has half as many bins
BINS = FINE + 20 * FINE // 2
LOOKED_AT = 64  # number of chunks from which the distribution of weights is estimated
MAX_ROW = 2**30  # upper bound of row sums on a coarse level; see `row_shift`


@njit(cache=True, nogil=True)
def _kept(u, v, weight, threshold, seed):
    """Return whether the sample keeps a connection: with probability weight/threshold."""
    if weight >= threshold:
        return True
    low, high = np.uint64(min(u, v)), np.uint64(max(u, v))
    x = mixed(low, high + np.uint64(seed), 0)
    return np.int64(x >> np.uint64(32)) * threshold < np.int64(weight) << 32


@njit(cache=True, nogil=True)
def _histogram(indptr, weights, counts):
    for e in range(indptr[0], indptr[-1]):
        w = np.int64(weights[e])
        octave = 0
        while w >= FINE:
            w >>= 1
            octave += 1
        counts[w + octave * (FINE // 2)] += 1


@njit(cache=True, nogil=True)
def _count(chunk, cluster, threshold, seed, degree):
    """Count the sampled connections of each vertex of a chunk to other clusters."""
    first, indptr, ids, weights = chunk
    for i in range(indptr.size - 1):
        v = first + i
        own = cluster[v]
        kept = 0
        for e in range(indptr[i], indptr[i + 1]):
            if cluster[np.uint32(ids[e])] != own and _kept(v, ids[e], weights[e], threshold, seed):
                kept += 1
        degree[i] = kept


@njit(cache=True, nogil=True)
def _write(chunk, cluster, threshold, seed, lengths, out_ids, out_weights):
    """Write the connections counted by `_count`, row by row (cluster, weight); return the total.

    lengths : of the rows, filled
    """
    first, indptr, ids, weights = chunk
    at = 0
    for i in range(indptr.size - 1):
        v = first + i
        own = cluster[v]
        before = at
        for e in range(indptr[i], indptr[i + 1]):
            other = cluster[np.uint32(ids[e])]
            if other != own and _kept(v, ids[e], weights[e], threshold, seed):
                out_ids[at] = other
                out_weights[at] = max(weights[e], threshold)
                at += 1
        lengths[i] = at - before
    return at


@njit(cache=True, nogil=True)
def scatter_rows(lengths, offset, ids, weights, out_ids, out_weights):
    """Copy contiguous rows to their target places."""
    low = 0
    for i in range(lengths.size):
        at = offset[i]
        for e in range(low, low + lengths[i]):
            out_ids[at] = ids[e]
            out_weights[at] = weights[e]
            at += 1
        low += lengths[i]


@njit(cache=True, nogil=True)
def _add_up(low, high, start, ids, weights, affinity, connected, used):
    """Add up parallel connections in the rows low .. high-1, in place; fills `used` (lengths).

    affinity : scratch per cluster, zero on entry and exit. Returns the largest sum of a row.
    """
    largest = np.int64(0)
    for c in range(low, high):
        count = 0
        total = np.int64(0)
        for e in range(start[c], start[c + 1]):
            d = np.uint32(ids[e])
            if affinity[d] == 0:
                connected[count] = d
                count += 1
            affinity[d] += weights[e]
            total += weights[e]
        for t in range(count):
            d = np.uint32(connected[t])
            ids[start[c] + t] = d
            weights[start[c] + t] = min(affinity[d], 2**31 - 1)
            affinity[d] = 0
        used[c] = count
        largest = max(largest, total)
    return largest


@njit(cache=True, nogil=True)
def _close_up(start, used, ids, weights, shift, indptr):
    """Compact all rows in place, and shift weights right."""
    at = 0
    for c in range(used.size):
        indptr[c] = at
        for e in range(start[c], start[c] + used[c]):
            ids[at] = ids[e]
            weights[at] = max(weights[e] >> shift, 1)
            at += 1
    indptr[used.size] = at


def count_weights(_: Shard, chunk: Chunk, counts: Int64) -> None:
    """Add the weights of a chunk to a histogram."""
    _histogram(chunk.indptr, chunk.weights, counts)


def sampling_threshold(
    rows: Rows, entries: int, team: ThreadTeam, advance: Advance = ignore
) -> int:
    """Return the threshold t for which about `entries` entries are kept; 1 keeps all.

    Estimated from evenly spaced chunks.
    """
    if rows.entries <= entries:
        return 1
    executor = executor_of(rows, team)
    chosen = range(0, rows.chunks, max(1, rows.chunks // LOOKED_AT))
    for some in (chosen, range(rows.chunks)):
        counts = executor.sum(count_weights, some, (BINS,), advance=advance)
        if 2 * int(counts.sum()) * rows.chunks >= rows.entries * len(some):
            break  # else the chosen chunks were nearly empty and not representative
    return threshold_of(counts, max(1, entries * int(counts.sum()) // rows.entries))


def bin_weights(bins: int) -> Int64:
    """Return the least weight in each of the first bins of the histogram."""
    octave = np.maximum(np.arange(bins) - FINE // 2, 0) // (FINE // 2)
    weight: Int64 = (np.arange(bins) - octave * (FINE // 2)) << octave
    return weight


def threshold_of(counts: Int64, entries: int) -> int:
    """Return the least t whose expected sample, sum of min(1, w/t), is at most `entries`."""
    weight = bin_weights(counts.size)
    low, high = 1, 1 << 30
    while low < high:
        middle = (low + high) // 2
        if float(np.dot(np.minimum(1.0, weight / middle), counts)) <= entries:
            high = middle
        else:
            low = middle + 1
    return low


class Sampled(NamedTuple):
    """Rows of the vertices of a chunk in contiguous arrays, with clusters as ids.

    lengths : of the rows, shape (vertices,)
    """

    first: int
    lengths: Int32
    ids: Int32
    weights: Int32


def count_sample(shard: Shard, chunk: Chunk, threshold: int, seed: int) -> tuple[int, Int64]:
    """Return the first vertex of a chunk, and the number of sampled connections of each."""
    degree = np.empty(chunk.vertices, np.int64)
    _count(chunk, shard.state.part, threshold, seed, degree)
    return chunk.first, degree


def sample_rows(shard: Shard, chunk: Chunk, threshold: int, seed: int) -> Sampled:
    """Return the sampled connections of a chunk."""
    lengths = np.empty(chunk.vertices, np.int32)
    ids, weights = np.empty((2, entries_of(chunk)), np.int32)
    kept = _write(chunk, shard.state.part, threshold, seed, lengths, ids, weights)
    return Sampled(chunk.first, lengths, ids[:kept].copy(), weights[:kept].copy())


def contract_sampled(
    rows: Rows,
    cluster: Int32,
    count: int,
    threshold: int,
    seed: int,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> HeldRows:
    """Build the graph of clusters in memory, from a sample with the given threshold.

    Rows in memory are read twice. Other rows, which are slower to read, are read once; the sample
    is then in memory twice while it is sorted into place.

    cluster : ndarray[int32], shape (vertices,), 0 .. count-1
    """
    executor = executor_of(rows, team)
    executor.begin(State(cluster))
    degree = np.empty(rows.vertices, np.int64)
    every = range(rows.chunks)
    taken: list[Sampled] = []
    if rows.at_hand:
        for first, some in executor.each(count_sample, every, threshold, seed, advance=advance):
            degree[first : first + some.size] = some
    else:
        taken += executor.each(sample_rows, every, threshold, seed, advance=advance)
        for one in taken:
            degree[one.first : one.first + one.lengths.size] = one.lengths
    order = np.argsort(cluster, kind="stable")
    before = np.zeros(rows.vertices + 1, np.int64)
    np.cumsum(degree[order], out=before[1:])
    offset = np.empty(rows.vertices, np.int64)
    offset[order] = before[:-1]
    members = np.append(0, np.cumsum(np.bincount(cluster, minlength=count)))
    start = before[members]
    del order, before, members
    ids, weights = np.empty(start[-1], np.int32), np.empty(start[-1], np.int32)

    def take(found: Sampled) -> None:
        mine = slice(found.first, found.first + found.lengths.size)
        scatter_rows(found.lengths, offset[mine], found.ids, found.weights, ids, weights)

    if rows.at_hand:
        executor.store(sample_rows, take, every, threshold, seed, advance=advance)
    else:
        taken.reverse()
        team.map(lambda _: take(taken.pop()), range(len(taken)))
    return _finish(rows, cluster, count, start, ids, weights, team)


def thin_in_place(rows: HeldRows, threshold: int, seed: int, team: ThreadTeam) -> HeldRows:
    """Replace the rows by a sample of their connections, of which none are parallel.

    Overwrites the arrays of `rows`, which must not be used afterwards: chunks that are still to be
    read are stored after the part already written.
    """
    executor = executor_of(rows, team)
    executor.begin(State(np.arange(rows.vertices, dtype=np.int32)))
    ids, weights, sizes = rows.ids, rows.weights, rows.sizes
    indptr = np.zeros(rows.vertices + 1, np.int64)
    largest = at = 0
    for found in executor.each(sample_rows, range(rows.chunks), threshold, seed):
        ends = np.cumsum(found.lengths, dtype=np.int64)
        sums = np.append(0, np.cumsum(found.weights, dtype=np.int64))
        largest = max(largest, int((sums[ends] - sums[ends - found.lengths]).max(initial=0)))
        indptr[found.first + 1 : found.first + 1 + ends.size] = at + ends
        last = at + found.ids.size
        ids[at:last], weights[at:last] = found.ids, found.weights
        at = last
    ids.resize(at, refcheck=False)
    weights.resize(at, refcheck=False)
    if shift := row_shift(largest):
        weights >>= shift
        np.maximum(weights, 1, out=weights)
    return HeldRows(indptr, ids, weights, sizes)


def row_shift(largest: int) -> int:
    """Return the right shift for all weights; largest : largest sum of the weights of a row."""
    return max(0, (largest // MAX_ROW).bit_length())


def _finish(
    rows: Rows,
    cluster: Int32,
    count: int,
    start: Int64,
    ids: Int32,
    weights: Int32,
    team: ThreadTeam,
) -> HeldRows:
    used = np.empty(count, np.int64)
    workspaces = WorkspacePool(lambda: by_label(count, np.int64))

    def add_up(bounds: tuple[int, int]) -> int:
        with workspaces.borrow() as (affinity, connected):
            return int(_add_up(*bounds, start, ids, weights, affinity, connected, used))

    cuts = np.searchsorted(start, np.linspace(0, start[-1], 65)[1:-1])
    ends = np.unique(np.concatenate([[0], np.minimum(cuts, count), [count]])).tolist()
    largest = max(team.map(add_up, list(pairwise(ends))), default=0)
    shift = row_shift(largest)
    indptr = np.empty(count + 1, np.int64)
    _close_up(start, used, ids, weights, shift, indptr)
    sizes = sums_by_label(cluster, rows.sizes, count)
    kept = int(indptr[-1])
    ids.resize(kept, refcheck=False)  # frees the tail without a copy
    weights.resize(kept, refcheck=False)
    return HeldRows(indptr, ids, weights, sizes)
