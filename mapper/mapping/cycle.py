"""V-cycles: a mapping is coarsened without mixing cores, and refined on the way back.

Vertices that belong together and sit on one core move together on the coarse levels, which a
refinement by single vertices cannot do (Walshaw, Annals of Operations Research 131, 2004, calls it
iterated multilevel refinement; KaHIP and Mt-KaHyPar have it as V-cycles).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.mapping.annealing import Cooling, anneal_mapping
from mapper.mapping.batches import batches
from mapper.mapping.pairs import DIAGONAL, NEAR, Mesh, exchange_round
from mapper.partition.clustering import cluster_vertices
from mapper.partition.rows import HeldRows
from mapper.partition.sampled_contraction import contract_sampled
from mapper.team import Team

SHRINK = 4.0  # a cluster is at most this times the mean vertex
CLUSTER_ROUNDS = 3
COARSEST = 6  # vertices of a core below which there is nothing left to move
WORTHWHILE = 0.7  # a level keeps at most this share of the connections
EXCHANGES = 4  # rounds on a level at most
SETTLED = 1000  # rounds end when less than one in so many hops is saved


@njit(cache=True, nogil=True)
def _within(indptr, ids, weights, core, out_indptr, out_ids, out_weights):
    """The rows without what leads to other cores; returns the entries left."""
    at = 0
    out_indptr[0] = 0
    for v in range(indptr.size - 1):
        for e in range(indptr[v], indptr[v + 1]):
            if core[ids[e]] == core[v]:
                out_ids[at] = ids[e]
                out_weights[at] = weights[e]
                at += 1
        out_indptr[v + 1] = at
    return at


def _coarsen(
    rows: HeldRows,
    core: NDArray[np.int32],
    seed: int,
    team: Team,
    fixed: NDArray[np.bool_] | None,
) -> tuple[HeldRows, NDArray[np.int32]]:
    """Clusters of vertices of one core, and the graph between them; (graph, cluster).

    fixed : vertices that stay alone
    """
    indptr = np.empty_like(rows.indptr)
    ids, weights = np.empty_like(rows.ids), np.empty_like(rows.weights)
    used = _within(rows.indptr, rows.ids, rows.weights, core, indptr, ids, weights)
    inner = HeldRows(indptr, ids[:used], weights[:used], rows.sizes)
    limit = max(1, int(SHRINK * rows.sizes.sum() / rows.vertices))
    cluster, count = cluster_vertices(inner, limit, CLUSTER_ROUNDS, seed, team)
    # vertices without neighbours on their core may have been put together over cores
    key = core.astype(np.int64) * count + cluster
    if fixed is not None:
        key[fixed] = key.max() + 1 + np.flatnonzero(fixed)
    cluster = np.unique(key, return_inverse=True)[1].astype(np.int32)
    return contract_sampled(rows, cluster, int(cluster.max()) + 1, 1, seed, team), cluster


def exchange(
    rows: HeldRows,
    core: NDArray[np.int32],
    mesh: Mesh,
    rounds: int,
    seed: int,
    team: Team,
    fixed: NDArray[np.bool_] | None = None,
) -> int:
    """Exchanges between cores until they hardly pay; `core` changes in place, hops are returned."""
    saved = first = 0
    for index in range(rounds):
        rng = np.random.default_rng([seed, index])
        for batch in batches(rows, core, mesh, 0, False, team, lambda done: None):
            near = (*NEAR, *DIAGONAL)
            _, won = exchange_round(batch, mesh, core, rows.sizes, near, 2, rng, team, fixed)
        saved += won
        first = first or won
        if won * 20 <= first:
            break
    return saved


def refine_by_cycle(
    rows: HeldRows,
    core: NDArray[np.int32],
    mesh: Mesh,
    seed: int,
    team: Team,
    cooling: Cooling | None = None,
    fixed: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """One V-cycle; returns the new core of every vertex.

    cooling : of annealing on every level, before the exchanges
    fixed : ndarray[bool], shape (vertices,), those that stay where they are, of size 0
    """
    levels, cores, still = [rows], [core.copy()], [fixed]
    clusters: list[NDArray[np.int32]] = []
    used = np.count_nonzero(mesh.room)
    while levels[-1].vertices > COARSEST * used:
        coarse, cluster = _coarsen(levels[-1], cores[-1], seed + len(levels), team, still[-1])
        if coarse.vertices > 0.9 * cluster.size or coarse.entries > WORTHWHILE * levels[-1].entries:
            break
        above = np.empty(coarse.vertices, np.int32)
        above[cluster] = cores[-1]
        levels.append(coarse)
        clusters.append(cluster)
        cores.append(above)
        still.append(None)
        if fixed is not None:
            stays = np.zeros(coarse.vertices, np.bool_)
            stays[cluster[still[-2]]] = True
            still[-1] = stays
    while True:
        if cooling:
            level = seed + len(levels)
            cores[-1] = anneal_mapping(levels[-1], cores[-1], mesh, cooling, level, still[-1])
        exchange(levels[-1], cores[-1], mesh, EXCHANGES, seed + 100 * len(levels), team, still[-1])
        if not clusters:
            return cores[-1]
        levels.pop()
        still.pop()
        found = cores.pop()
        cores[-1] = found[clusters.pop()]


@njit(cache=True, nogil=True)
def _hops(indptr, ids, weights, core, column, row):
    """Hops of all connections, each counted at both of its ends."""
    total = np.int64(0)
    for v in range(indptr.size - 1):
        x, y = column[core[v]], row[core[v]]
        for e in range(indptr[v], indptr[v + 1]):
            c = core[ids[e]]
            total += np.int64(weights[e]) * (abs(column[c] - x) + abs(row[c] - y))
    return total


def refine_by_chains(
    rows: HeldRows,
    core: NDArray[np.int32],
    mesh: Mesh,
    seed: int,
    team: Team,
    cooling: Cooling,
    chains: int,
    fixed: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """The best of several V-cycles with annealing, side by side; never worse than before."""

    def run(chain: int) -> tuple[int, NDArray[np.int32]]:
        with Team(1) as alone:
            found = refine_by_cycle(rows, core, mesh, seed + 10_000 * chain, alone, cooling, fixed)
        return price(found), found

    def price(core: NDArray[np.int32]) -> int:
        return int(_hops(rows.indptr, rows.ids, rows.weights, core, mesh.column, mesh.row))

    return min([(price(core), core), *team.map(run, range(chains))], key=lambda one: one[0])[1]
