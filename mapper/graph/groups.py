"""Step 5: traffic between neuron groups, in one pass over the network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numba import njit

from chipsim.traffic.pairs import PairSums
from mapper.concurrency.threads import ThreadTeam
from mapper.executors.shard import Shard, State, by_label, entries_of
from mapper.graph.by_label import sums_by_label
from mapper.graph.csr import Chunk, Subgraph
from mapper.graph.rows import Rows, executor_of
from mapper.graph.sampled_contraction import _kept, sampling_threshold
from mapper.monitoring.callbacks import Advance, ignore
from mapper.planning.memory import GROUP_BYTES, LEAST_MATRICES, MATRIX_BYTES
from storage.arrays import Int32, Int64


@njit(cache=True, nogil=True)
def _sum_by_group(chunk, order, part, threshold, affinity, connected, keys, sums):
    """Sum the traffic from the groups of a chunk's vertices to other groups, by (group, group).

    order : vertices of the chunk sorted by group; threshold : of the sample, 1 for all
    affinity : scratch per group, zero on entry and exit
    Returns the number of sums; keys = group * groups + group, increasing.
    """
    first, indptr, ids, weights = chunk
    groups = affinity.size
    found = 0
    at = 0
    while at < order.size:
        own = np.int64(part[first + order[at]])
        count = 0
        while at < order.size and part[first + order[at]] == own:
            v = order[at]
            for e in range(indptr[v], indptr[v + 1]):
                k = np.uint32(part[np.uint32(ids[e])])
                w = np.int64(weights[e])
                if k == np.uint32(own) or not _kept(first + v, ids[e], w, threshold, 0):
                    continue
                if affinity[k] == 0 and w > 0:
                    connected[count] = k
                    count += 1
                affinity[k] += max(w, threshold) if w > 0 else 0
            at += 1
        connected[:count].sort()
        for t in range(count):
            k = np.uint32(connected[t])
            keys[found] = own * groups + k
            sums[found] = affinity[k]
            affinity[k] = 0
            found += 1
    return found


@njit(cache=True, nogil=True)
def _add_rows(chunk, part, groups, upper):
    """Add a chunk's connections to higher groups to the upper half of a matrix.

    upper : row by row from the diagonal on, see `upper_row`. The diagonal is meaningless:
        connections to lower groups are added there, which is faster than a branch.
    """
    first, indptr, ids, weights = chunk
    for i in range(indptr.size - 1):
        row = ids[indptr[i] : indptr[i + 1]]
        row_weights = weights[indptr[i] : indptr[i + 1]]
        own = np.int64(part[first + i])
        start = own * (2 * groups - own + 1) // 2
        # a vertex stays in one row, which fits in the cache
        sums = upper[start : start + groups - own]
        for e in range(row.size):
            to = max(own, np.int64(part[np.uint32(row[e])]))
            sums[np.uint32(to - own)] += row_weights[e]


def upper_row(upper: Int64, groups: int, own: int) -> Int64:
    """Return the sums of a row to the right of the diagonal."""
    start = own * (2 * groups - own + 1) // 2
    return upper[start + 1 : start + groups - own]


def add_traffic(shard: Shard, chunk: Chunk, upper: Int64, groups: int) -> None:
    """Add the traffic of a chunk to the upper half of a matrix."""
    _add_rows(chunk, shard.state.part, groups, upper)


def sum_traffic(shard: Shard, chunk: Chunk, parts: int, threshold: int) -> tuple[Int64, Int64]:
    """Return the traffic of a chunk as keys and sums, see `_sum_by_group`."""
    part, entries = shard.state.part, entries_of(chunk)
    order = np.argsort(part[chunk.first : chunk.first + chunk.vertices], kind="stable")
    keys, sums = np.empty(entries, np.int64), np.empty(entries, np.int64)
    with shard.borrow(by_label, parts, np.int64) as (affinity, connected):
        found = _sum_by_group(chunk, order, part, threshold, affinity, connected, keys, sums)
    return keys[:found], sums[:found]


def group_traffic(
    rows: Rows,
    part: Int32,
    parts: int,
    memory: int,
    scratch: Path,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> Subgraph:
    """Return the graph of groups in memory, without traffic within groups.

    part : ndarray[int32], shape (vertices,), group of every vertex, 0 .. parts-1
    memory : bytes for sums. If a few matrices fit, the traffic is exact. Otherwise it is estimated
        from a sample as large as memory allows (`mapper.graph.sampled_contraction`): a placement
        only needs to know which groups communicate, for which hundreds of connections suffice
    scratch : folder for sums that exceed the memory
    """
    matrices = memory // (MATRIX_BYTES * parts * parts)
    if matrices >= LEAST_MATRICES:
        source, target, weight = _by_matrix(rows, part, parts, matrices - 1, team, advance)
        threshold = 1
    else:
        threshold = sampling_threshold(rows, memory // GROUP_BYTES, team)
        source, target, weight = _by_pairs(rows, part, parts, threshold, scratch, team, advance)
    indptr = np.append(0, np.cumsum(np.bincount(source, minlength=parts)))
    sizes = sums_by_label(part, rows.sizes, parts)
    return Subgraph(indptr, target, weight, sizes, np.arange(parts, dtype=np.int64), threshold)


Pairs = tuple[Int32, Int32, Int64]


def _by_matrix(
    rows: Rows, part: Int32, parts: int, most: int, team: ThreadTeam, advance: Advance
) -> Pairs:
    """Sum traffic in at most `most` matrices, each used by one thread at a time."""
    executor = executor_of(rows, team)
    executor.begin(State(part))
    shape = (parts * (parts + 1) // 2,)
    every = range(rows.chunks)
    upper = executor.sum(add_traffic, every, shape, parts, most=most, advance=advance)
    return _mirrored(upper, parts)


def _mirrored(upper: Int64, groups: int) -> Pairs:
    """Return all pairs with traffic, by source and target, from the pairs above the diagonal."""
    count = np.zeros(groups, np.int64)
    for own in range(groups):
        higher = np.flatnonzero(upper_row(upper, groups, own)) + (own + 1)
        count[own] += higher.size
        count[higher] += 1
    at = np.cumsum(count) - count
    target, weight = np.empty(int(count.sum()), np.int32), np.empty(int(count.sum()), np.int64)
    # the lower neighbours of this group have been added already, in order
    for own in range(groups):
        row = upper_row(upper, groups, own)
        found = np.flatnonzero(row)
        higher = found + (own + 1)
        mine = slice(at[own], at[own] + found.size)
        target[mine], weight[mine] = higher, row[found]
        target[at[higher]], weight[at[higher]] = own, row[found]
        at[higher] += 1
    return np.repeat(np.arange(groups, dtype=np.int32), count), target, weight


def _by_pairs(
    rows: Rows,
    part: Int32,
    parts: int,
    threshold: int,
    scratch: Path,
    team: ThreadTeam,
    advance: Advance,
) -> Pairs:
    """Sum the traffic of a sample of the connections, see `mapper.graph.sampled_contraction`."""
    pairs = PairSums(parts, scratch)
    executor = executor_of(rows, team)
    executor.begin(State(part))

    def take(found: tuple[Int64, Int64]) -> None:
        pairs.add(*found)

    executor.store(sum_traffic, take, range(rows.chunks), parts, threshold, advance=advance)
    return pairs.table().arrays()
