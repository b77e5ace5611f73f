"""Refinement after placement: neurons move and swap between cores, to save packet hops.

V-cycles, as in `mapper.hop_refinement.v_cycle`: identical vertices, and vertices that share many
nets, move together first, then singly. Every level is annealed from a low temperature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mapper.concurrency.stop_flag import StopFlag
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hypergraph.coarsening import coarsen, join_twins
from mapper.hypergraph.hypergraph import Hypergraph
from mapper.hypergraph.trees import TreePrices, anneal_trees, new_trees, total_hops
from mapper.limits.domains import Domains
from storage.arrays import Int32

SHRINKS = 0.9  # coarsening ends if a level keeps more than this share of the vertices
HEAVIEST = 4.0  # maximum size of a cluster, in mean vertices of the finer level
COARSEST = 6  # vertices per core at which coarsening ends


@dataclass(frozen=True, slots=True)
class TreeEffort:
    """Length and temperatures of annealing.

    proposals : proposals per vertex of a level
    least, most : limits of the proposals on a level; `most` in visited slots, approximately
    start, end : first and last temperature, in hops of the mean spike
    steps : number of temperatures
    per_core_penalty : hops that count for each core that a neuron reaches, so that saved hops do
        not cost additional cores (each needs a router passage and a lookup per spike)
    branches : packets branch on their way (trees); otherwise each core gets its own packet
    """

    proposals: float
    least: int = 200_000
    most: int = 30_000_000
    start: float = 1.0
    end: float = 0.05
    steps: int = 20
    per_core_penalty: int = 4
    branches: bool = True

    def share(self, share: float) -> TreeEffort:
        """Return the effort with a share of the work."""
        return replace(
            self, proposals=share * self.proposals, least=int(share * self.least),
            most=int(share * self.most),
        )  # fmt: skip


def packet_effort(proposals: float) -> TreeEffort:
    """Return the effort for packets to cores.

    Only hops count, and a move is priced in one step per net, so that more proposals take no
    longer."""
    return TreeEffort(4 * proposals, most=100_000_000, per_core_penalty=0, branches=False)


def refine_by_trees(
    graph: Hypergraph,
    core: Int32,
    mesh: CoreMesh,
    effort: TreeEffort,
    seed: int,
    stop: StopFlag | None = None,
    domains: Domains | None = None,
) -> tuple[Int32, int, int]:
    """Run one V-cycle; return the core of every vertex, and hops before and after.

    core : ndarray[int32], shape (vertices,), core id. Hops never increase.
    stop : checked between slices of work
    domains : of the vertices
    """
    before = total_hops(graph, core, mesh, effort.branches)
    rng = np.random.default_rng([seed, graph.vertices])
    levels, cores, kinds = [graph], [core], [domains]
    clusters: list[Int32] = []
    used = int(np.count_nonzero(mesh.capacities))
    while levels[-1].vertices > COARSEST * used:
        fine, on, own = levels[-1], cores[-1], kinds[-1]
        group = on if own is None else own.separated(on)
        limit = max(1, int(HEAVIEST * fine.sizes.sum() / fine.vertices))
        found = join_twins(fine, group, 4 * limit, rng, True) if not clusters else None
        coarse, cluster = found or coarsen(fine, group, limit, COARSEST * used, rng, True)
        if coarse.vertices > SHRINKS * fine.vertices:
            break
        above = np.empty(coarse.vertices, np.int32)
        above[cluster] = on
        levels.append(coarse)
        clusters.append(cluster)
        cores.append(above)
        kinds.append(None if own is None else own.of_clusters(cluster, coarse.vertices))
    temperatures = np.geomspace(effort.start, effort.end, effort.steps)
    prices = TreePrices(effort.per_core_penalty, effort.branches)
    on = cores[-1]
    while True:
        some, own = levels.pop(), kinds.pop()
        if stop is not None:
            stop.begin(f"annealing of {some.vertices:,} vertices")
        spike = float(some.weights.sum()) / max(1, some.vertices)
        each = _proposals(some, on, mesh, effort) // effort.steps
        on = anneal_trees(
            some, on, mesh, prices, spike * temperatures, each, seed + len(levels), stop, own
        )
        if not levels:
            break
        on = on[clusters.pop()]
    after = total_hops(graph, on, mesh, effort.branches)
    return (on, before, after) if after < before else (core, before, before)


def _proposals(graph: Hypergraph, core: Int32, mesh: CoreMesh, effort: TreeEffort) -> int:
    """Return the proposals on a level, limited by visited slots: all nets of a vertex, twice."""
    trees, _ = new_trees(graph, core.copy(), mesh)
    reached = np.repeat(trees.used.astype(np.int64), np.diff(graph.start)).sum()
    work = 2 * max(1.0, float(reached) / graph.vertices)
    return int(min(max(effort.proposals * graph.vertices, effort.least), effort.most / work))
