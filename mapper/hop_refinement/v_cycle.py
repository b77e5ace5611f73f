"""V-cycles: coarsen a mapping without mixing cores, and refine it while uncoarsening.

Connected vertices on the same core move together on coarse levels, which refinement of single
vertices cannot do (Walshaw, Annals of Operations Research 131, 2004, calls it iterated multilevel
refinement; KaHIP and Mt-KaHyPar call it V-cycles).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.csr import Chunk
from mapper.graph.rows import HeldRows, Rows
from mapper.graph.sampled_contraction import contract_sampled, sampling_threshold
from mapper.hop_refinement.mesh import CoreMesh, hop_cost
from mapper.hop_refinement.multilevel import Levels, RefinementEffort, uncoarsen
from mapper.limits.domains import Domains
from mapper.partitioning.label_propagation import cluster_vertices
from storage.arrays import Int32

SHRINK = 4.0  # maximum size of a cluster, in mean vertices
CLUSTER_ROUNDS = 3
COARSEST = 6  # vertices per core at which coarsening ends
WORTHWHILE = 0.7  # maximum share of the connections that a level keeps
ENTRY_BYTES = 8


@njit(cache=True, nogil=True)
def _within(chunk, core, out_indptr, out_ids, out_weights):
    """Copy the rows of a chunk without connections to other cores; return the entries left."""
    first, indptr, ids, weights = chunk
    at = 0
    out_indptr[0] = 0
    for i in range(indptr.size - 1):
        own = core[first + i]
        for e in range(indptr[i], indptr[i + 1]):
            if core[np.uint32(ids[e])] == own:
                out_ids[at] = ids[e]
                out_weights[at] = weights[e]
                at += 1
        out_indptr[i + 1] = at
    return at


class InnerRows(Rows):
    """Rows without connections to other cores, filtered when read."""

    def __init__(self, rows: Rows, core: Int32) -> None:
        """core : of every vertex."""
        self._rows, self._core = rows, core
        self._sizes, self.block_size = rows.sizes, rows.block_size
        self.entries = rows.entries  # upper bound
        self.at_hand = rows.at_hand

    def read(self, index: int) -> Chunk:
        chunk = self._rows.read(index)
        indptr = np.empty_like(chunk.indptr)
        ids, weights = np.empty((2, int(chunk.indptr[-1] - chunk.indptr[0])), np.int32)
        used = _within(chunk, self._core, indptr, ids, weights)
        return Chunk(chunk.first, indptr, ids[:used], weights[:used])


def _coarsen(
    rows: Rows, core: Int32, memory: int, seed: int, team: ThreadTeam, domains: Domains | None
) -> tuple[HeldRows, Int32]:
    """Cluster vertices of the same core; return (graph of the clusters, cluster of each vertex).

    core : of every vertex, or labels that clusters do not mix
    domains : of the vertices; fixed vertices stay single
    """
    limit = max(1, int(SHRINK * rows.sizes.sum() / rows.vertices))
    cluster, count = cluster_vertices(InnerRows(rows, core), limit, CLUSTER_ROUNDS, seed, team)
    # Vertices without neighbours on their core may be in clusters across cores: split these.
    key = core.astype(np.int64) * count + cluster
    if domains is not None:
        fixed = domains.fixed
        key[fixed] = key.max() + 1 + np.flatnonzero(fixed)
    cluster = np.unique(key, return_inverse=True)[1].astype(np.int32)
    wanted = memory // ENTRY_BYTES
    threshold = 1 if rows.entries <= wanted else sampling_threshold(rows, wanted, team)
    return contract_sampled(rows, cluster, int(cluster.max()) + 1, threshold, seed, team), cluster


def _overlay(first: Int32, second: Int32) -> Int32:
    """Return labels that are equal where both labels are."""
    keys = first.astype(np.int64) * (int(second.max(initial=0)) + 1) + second
    return np.unique(keys, return_inverse=True)[1].astype(np.int32)


def _above(label: Int32, cluster: Int32, clusters: int) -> Int32:
    """Return the label of each cluster; vertices of a cluster have equal labels."""
    found = np.empty(clusters, np.int32)
    found[cluster] = label
    return found


def refine_by_v_cycle(
    rows: Rows,
    core: Int32,
    mesh: CoreMesh,
    effort: RefinementEffort,
    seed: int,
    team: ThreadTeam,
    domains: Domains | None = None,
    apart: Int32 | None = None,
) -> Int32:
    """Run one V-cycle; return the new core of every vertex.

    domains : of the vertices; fixed vertices have size 0
    apart : ndarray[int32], shape (vertices,), labels, e.g. the cores of another mapping: vertices
        with different labels do not move together
    """
    levels = Levels([rows], [], domains)
    used = np.count_nonzero(mesh.capacities)
    group = core if apart is None else _overlay(core, apart)
    while levels.coarsest.vertices > COARSEST * used:
        finer, depth = levels.coarsest, len(levels.graphs)
        still = levels.domains_at(depth - 1)
        labels = group
        if still is not None and still.table.shape[0] > 1:  # fixed vertices stay single anyway
            labels = still.separated(group)
        coarse, cluster = _coarsen(finer, labels, effort.coarse, seed + depth, team, still)
        if coarse.vertices > 0.9 * finer.vertices or coarse.entries > WORTHWHILE * finer.entries:
            break
        core, group = (_above(one, cluster, coarse.vertices) for one in (core, group))
        levels.graphs.append(coarse)
        levels.clusters.append(cluster)
    return uncoarsen(levels, core, mesh, effort, seed, team)


def refine_by_chains(
    rows: Rows,
    core: Int32,
    mesh: CoreMesh,
    effort: RefinementEffort,
    seed: int,
    team: ThreadTeam,
    domains: Domains | None = None,
) -> Int32:
    """Run parallel V-cycles and return the best mapping; it is never worse than before."""

    def run(chain: int) -> Int32:
        with ThreadTeam(1, team.stop) as alone:
            return refine_by_v_cycle(
                rows, core, mesh, effort, seed + 10_000 * chain, alone, domains
            )

    if effort.chains > 1 and rows.executor is None:
        found = team.map(run, range(effort.chains))
    elif effort.chains > 1:  # workers hold one state at a time
        found = [run(chain) for chain in range(effort.chains)]
    else:
        found = [refine_by_v_cycle(rows, core, mesh, effort, seed, team, domains)]
    return min([core, *found], key=lambda one: hop_cost(rows, one, mesh, team))
