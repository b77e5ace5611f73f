"""Coarsening: clusters by size-constrained label propagation, with two-hop matching.

Meyerhenke, Sanders and Schulz (SEA 2014): every vertex joins the cluster that it is connected to
most, as long as that cluster stays below a limit. Akhremtsev, Sanders and Schulz (arXiv 1404.4887)
run it from disk with O(vertices) memory, as here. All threads process the chunks of a step against
the same frozen clusters; then the proposals are applied. The result depends on the steps, not on
the threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam
from mapper.executors.shard import Shard, State, by_label
from mapper.graph.affinity import sum_by_part
from mapper.graph.by_label import numbered
from mapper.graph.csr import Chunk
from mapper.graph.rows import Rows, executor_of
from mapper.monitoring.callbacks import Advance, ignore
from mapper.partitioning.pass_steps import steps_of
from mapper.partitioning.proposals import Labels, join_in_order, join_together, label_ranges
from mapper.random_numbers import mixed
from storage.arrays import Int32

ROUND_CHUNKS = 16  # chunks per step of rows in memory; so threads rarely wait


@njit(cache=True, nogil=True)
def _propose(chunk, sizes, labels, limit, seed, affinity, connected, target):
    """Find the cluster with slack that each vertex of a chunk is connected to most.

    affinity : scratch per cluster, zero on entry and exit; connected : scratch
    target : chosen cluster per vertex of the chunk, its own if none is better; labels.favourite :
        the best cluster ignoring the limit, -1 without neighbours in other clusters
    """
    first, indptr, ids, weights = chunk
    cluster, cluster_sizes, favourite = labels.cluster, labels.size, labels.favourite
    for i in range(indptr.size - 1):
        row = ids[indptr[i] : indptr[i + 1]]
        row_weights = weights[indptr[i] : indptr[i + 1]]
        count = sum_by_part(row, row_weights, cluster, affinity, connected)
        v = first + i
        own = np.uint32(cluster[v])
        best, best_affinity = own, np.int64(affinity[own])
        liked, liked_pull = np.int32(-1), np.int64(0)
        affinity[own] = 0
        for t in range(count):
            c = np.uint32(connected[t])
            p = np.int64(affinity[c])
            affinity[c] = 0
            if p > liked_pull:
                liked = np.int32(c)
                liked_pull = p
            if p < best_affinity or p == 0 or cluster_sizes[c] + sizes[v] > limit:
                continue
            if p > best_affinity or (best != own and mixed(v, c, seed) > mixed(v, best, seed)):
                best = c
                best_affinity = p
        target[i] = best
        favourite[i] = liked


@njit(cache=True, nogil=True)
def _match_two_hop(sizes, labels, limit, favourites, waiting):
    """Join single vertices with the same favourite cluster (or none) in pairs or groups.

    Vertices of a favourite are matched in ascending order. Different favourites are independent, so
    ranges of favourites may be matched concurrently, if no vertex has size 0.

    favourites : range of favourites to match; the last one, `vertices`, stands for none
    waiting : scratch, shape (vertices + 1,), filled with -1; last place for vertices without a
        favourite
    """
    cluster, cluster_sizes, favourite = labels.cluster, labels.size, labels.favourite
    none = waiting.size - 1
    low, high = favourites
    for v in range(sizes.size):
        at = favourite[v] if favourite[v] >= 0 else none
        if at < low or at >= high:
            continue
        own = cluster[v]
        if cluster_sizes[own] != sizes[v]:
            continue
        other = waiting[at]
        if other >= 0 and other != own and cluster_sizes[other] + sizes[v] <= limit:
            cluster_sizes[other] += sizes[v]
            cluster_sizes[own] -= sizes[v]
            cluster[v] = other
            if at != none:  # pairs suffice; larger groups would hide structure
                waiting[at] = -1
        else:
            waiting[at] = own


def cluster_vertices(
    rows: Rows,
    limit: int,
    rounds: int,
    seed: int,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> tuple[Int32, int]:
    """Return clusters of size at most `limit` (single vertices may be larger).

    advance : called with the number of entries that a step has visited

    Returns (cluster, count): cluster of every vertex, shape (vertices,), 0 .. count-1.
    """
    labels = start_clusters(rows)
    for index in range(rounds):
        propagate(rows, labels, limit, seed, index, team, advance)
    return number_clusters(rows, labels, limit, team)


def start_clusters(rows: Rows) -> Labels:
    """Return labels in which every vertex is a separate cluster."""
    n = rows.vertices
    return Labels(np.arange(n, dtype=np.int32), rows.sizes.copy(), np.full(n, -1, np.int32))


class Proposals(NamedTuple):
    """Proposals of the vertices of a chunk, and their favourites; see `_propose`.

    vertices, targets : vertices that propose to move, ascending, and their target clusters
    first, favourite : the first vertex, and the favourites of all vertices
    """

    vertices: Int32
    targets: Int32
    first: int
    favourite: Int32


def proposal(shard: Shard, chunk: Chunk, limit: int, salt: int) -> Proposals:
    """Return the proposals of the vertices of a chunk."""
    cluster, held, sizes, _ = shard.state
    target, favourite = np.empty((2, chunk.vertices), np.int32)
    labels = Labels(cluster, held, favourite)
    with shard.borrow(by_label, held.size, np.int32) as (affinity, connected):
        _propose(chunk, sizes, labels, limit, salt, affinity, connected, target)
    proposing = np.flatnonzero(target != cluster[chunk.first : chunk.first + chunk.vertices])
    vertices = (proposing + chunk.first).astype(np.int32)
    return Proposals(vertices, target[proposing], chunk.first, favourite)


def propagate(
    rows: Rows,
    labels: Labels,
    limit: int,
    seed: int,
    index: int,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> int:
    """Run one round of label propagation over all vertices; return the number of moves.

    Proposals of a step are settled in order if the rows are in memory, else together
    (`mapper.partitioning.proposals`).
    """
    n = rows.vertices
    rng = np.random.default_rng([seed, index])
    salt = int(rng.integers(2**62))
    stamps = np.full(n if rows.at_hand else 0, -1, np.int32)
    joined = np.zeros(0 if rows.at_hand else n, np.bool_)
    executor = executor_of(rows, team)
    executor.begin(State(labels.cluster, labels.size, rows.sizes))
    moves = 0
    for stamp, some in enumerate(steps_of(rows, seed, index, rng, ROUND_CHUNKS)):
        found = list(executor.each(proposal, some, limit, salt, advance=advance))
        for one in found:
            labels.favourite[one.first : one.first + one.favourite.size] = one.favourite
        vertices = np.concatenate([one.vertices for one in found])
        targets = np.concatenate([one.targets for one in found])
        if rows.at_hand:
            moves += join_in_order(vertices, targets, rows.sizes, labels, limit, stamps, stamp)
        else:
            moves += join_together(vertices, targets, rows.sizes, labels, limit, salt, joined, team)
        executor.settled(vertices)
    return moves


def number_clusters(rows: Rows, labels: Labels, limit: int, team: ThreadTeam) -> tuple[Int32, int]:
    """Match vertices that are still single, then number the clusters."""
    sizes = rows.sizes
    waiting = np.full(rows.vertices + 1, -1, np.int32)
    # A cluster with vertices of size 0 is not recognised as single by its size.
    threads = team.threads if sizes.min(initial=1) > 0 else 1
    team.map(
        lambda some: _match_two_hop(sizes, labels, limit, some, waiting),
        label_ranges(waiting.size, sizes.size, threads),
    )
    return numbered(labels.cluster, rows.vertices)
