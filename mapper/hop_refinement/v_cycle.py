"""V-cycles: a mapping is coarsened without mixing cores, and refined on the way back.

Vertices that belong together and sit on one core move together on the coarse levels, which a
refinement by single vertices cannot do (Walshaw, Annals of Operations Research 131, 2004, calls it
iterated multilevel refinement; KaHIP and Mt-KaHyPar have it as V-cycles).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.graph.csr import Chunk
from mapper.graph.rows import HeldRows, Rows
from mapper.graph.sampled_contraction import contract_sampled, sampling_threshold
from mapper.hop_refinement.hop_cost import hop_cost
from mapper.hop_refinement.mesh import Mesh
from mapper.hop_refinement.multilevel import Effort, Levels, uncoarsen
from mapper.partitioning.label_propagation import cluster_vertices
from mapper.runtime.threads import ThreadTeam

SHRINK = 4.0  # a cluster is at most this times the mean vertex
CLUSTER_ROUNDS = 3
COARSEST = 6  # vertices of a core below which there is nothing left to move
WORTHWHILE = 0.7  # a level keeps at most this share of the connections
ENTRY_BYTES = 8


@njit(cache=True, nogil=True)
def _within(chunk, core, out_indptr, out_ids, out_weights):
    """The rows of a chunk without what leads to other cores; returns the entries left."""
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
    """Rows without what leads to other cores, made as they are read."""

    def __init__(self, rows: Rows, core: NDArray[np.int32]) -> None:
        """core : of every vertex."""
        self._rows, self._core = rows, core
        self._sizes = rows.sizes
        self.entries = rows.entries  # at most
        self.at_hand = rows.at_hand

    @property
    def block_size(self) -> int:
        return self._rows.block_size

    @property
    def chunks(self) -> int:
        return self._rows.chunks

    def degrees(self) -> NDArray[np.int32]:
        return np.concatenate(
            [np.diff(self.read(index).indptr).astype(np.int32) for index in range(self.chunks)]
        )

    def read(self, index: int) -> Chunk:
        chunk = self._rows.read(index)
        indptr = np.empty_like(chunk.indptr)
        ids, weights = np.empty((2, int(chunk.indptr[-1] - chunk.indptr[0])), np.int32)
        used = _within(chunk, self._core, indptr, ids, weights)
        return Chunk(chunk.first, indptr, ids[:used], weights[:used])


def _coarsen(
    rows: Rows,
    core: NDArray[np.int32],
    memory: int,
    seed: int,
    team: ThreadTeam,
    fixed: NDArray[np.bool_] | None,
) -> tuple[HeldRows, NDArray[np.int32]]:
    """Clusters of vertices of one core, and the graph between them; (graph, cluster).

    fixed : vertices that stay alone
    """
    limit = max(1, int(SHRINK * rows.sizes.sum() / rows.vertices))
    cluster, count = cluster_vertices(InnerRows(rows, core), limit, CLUSTER_ROUNDS, seed, team)
    # vertices without neighbours on their core may have been put together over cores
    key = core.astype(np.int64) * count + cluster
    if fixed is not None:
        key[fixed] = key.max() + 1 + np.flatnonzero(fixed)
    cluster = np.unique(key, return_inverse=True)[1].astype(np.int32)
    wanted = memory // ENTRY_BYTES
    threshold = 1 if rows.entries <= wanted else sampling_threshold(rows, wanted, team)
    return contract_sampled(rows, cluster, int(cluster.max()) + 1, threshold, seed, team), cluster


def refine_by_v_cycle(
    rows: Rows,
    core: NDArray[np.int32],
    mesh: Mesh,
    effort: Effort,
    seed: int,
    team: ThreadTeam,
    fixed: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """One V-cycle; returns the new core of every vertex.

    fixed : ndarray[bool], shape (vertices,), those that stay where they are, of size 0
    """
    levels = Levels([rows], [], fixed)
    used = np.count_nonzero(mesh.capacities)
    while levels.coarsest.vertices > COARSEST * used:
        finer, depth = levels.coarsest, len(levels.graphs)
        still = levels.fixed_at(depth - 1)
        coarse, cluster = _coarsen(finer, core, effort.coarse, seed + depth, team, still)
        if coarse.vertices > 0.9 * finer.vertices or coarse.entries > WORTHWHILE * finer.entries:
            break
        above = np.empty(coarse.vertices, np.int32)
        above[cluster] = core
        core = above
        levels.graphs.append(coarse)
        levels.clusters.append(cluster)
    return uncoarsen(levels, core, mesh, effort, seed, team)


def refine_by_chains(
    rows: Rows,
    core: NDArray[np.int32],
    mesh: Mesh,
    effort: Effort,
    seed: int,
    team: ThreadTeam,
    fixed: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """The best of several V-cycles side by side; never worse than before."""

    def run(chain: int) -> NDArray[np.int32]:
        with ThreadTeam(1, team.stop) as alone:
            return refine_by_v_cycle(rows, core, mesh, effort, seed + 10_000 * chain, alone, fixed)

    if effort.chains > 1 and rows.executor is None:
        found = team.map(run, range(effort.chains))
    elif effort.chains > 1:  # workers look at one state at a time
        found = [run(chain) for chain in range(effort.chains)]
    else:
        found = [refine_by_v_cycle(rows, core, mesh, effort, seed, team, fixed)]
    return min([core, *found], key=lambda one: hop_cost(rows, one, mesh, team))
