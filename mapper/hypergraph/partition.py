"""Partitioning of a hypergraph in memory by connectivity: multilevel, V-cycles, rebisection.

Coarsening to some vertices per part, recursive bisection of the coarsest level, and k-way FM on
every level while uncoarsening (Karypis and Kumar, "Multilevel k-way hypergraph partitioning", VLSI
Design 11, 2000). A V-cycle coarsens again, within parts only, and refines while uncoarsening. At
the end, pairs of parts are bisected again, which finds gains that moves of single vertices do not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mapper.concurrency.stop_flag import StopFlag
from mapper.concurrency.threads import ThreadTeam
from mapper.hypergraph.bisection import SHRINKS, BisectionEffort, partition_by_bisection
from mapper.hypergraph.coarsening import coarsen, join_twins
from mapper.hypergraph.fm import FmSearch, refine
from mapper.hypergraph.hypergraph import Hypergraph, objective
from mapper.hypergraph.rebisection import PairEffort, rebisect_pairs
from storage.arrays import Int32, Int64

COARSEST = 100  # vertices per part on the coarsest level
HEAVIEST = 1.5  # maximum size of a cluster, in mean vertices of the coarsest level
TURN = 10  # rounds of rebisection between two refinements
LAST_PASS = 4  # budget of the last pass, in visits per pin, after a level of identical vertices
REBISECTION = 10  # visits per pin in a round of rebisection, approximately


@dataclass(frozen=True, slots=True)
class PartitionEffort:
    """Parameters of a partition.

    bisection : of the coarsest level
    search : k-way FM on every level
    v_cycles : V-cycles after the first uncoarsening
    rebisections : rounds in which pairs of parts are bisected again, at most; limited by the budget
        of the search
    """

    bisection: BisectionEffort
    search: FmSearch
    v_cycles: int
    rebisections: int


def partition_hypergraph(
    graph: Hypergraph,
    parts: int,
    capacity: int,
    effort: PartitionEffort,
    seed: int,
    team: ThreadTeam,
) -> Int32:
    """Return the part of every vertex, 0 .. parts-1, within the capacity if single moves allow."""
    rng = np.random.default_rng(seed)
    capacities = np.full(parts, capacity, np.int64)
    twins = join_twins(graph, np.zeros(graph.vertices, np.int32), _limit(graph, parts), rng)
    if twins is None:
        return _partition(graph, capacities, effort, seed, rng, team)
    above, cluster = twins
    part = _partition(above, capacities, effort, seed, rng, team)[cluster]
    last = replace(effort.search, budget=LAST_PASS * graph.pins.size, passes=1)
    refine(graph, part, capacities, last, rng)
    return part


def _limit(graph: Hypergraph, parts: int) -> int:
    """Return the maximum size of a cluster for this number of parts."""
    return max(1, int(HEAVIEST * graph.sizes.sum() / (COARSEST * parts)))


def _partition(
    graph: Hypergraph,
    capacities: Int64,
    effort: PartitionEffort,
    seed: int,
    rng: np.random.Generator,
    team: ThreadTeam,
) -> Int32:
    best = np.zeros(graph.vertices, np.int32)
    best_cost = (1 << 62, 0)
    for index in range(effort.v_cycles + 1):
        levels = _levels(graph, best, capacities.size, rng)
        if index == 0:
            coarsest, capacity = levels[-1][0], int(capacities[0])
            part = partition_by_bisection(
                coarsest, capacities.size, capacity, effort.bisection, rng, team.stop
            )
        else:
            part = best
            for _, cluster in levels[1:]:
                part = _carried(part, cluster)
        part = _refined_upwards(levels, part, capacities, effort.search, rng, team.stop)
        cost = objective(graph, part, capacities)
        if cost >= best_cost:
            break
        best, best_cost = part, cost
    rebisections = min(
        effort.rebisections, effort.search.budget // (REBISECTION * max(1, graph.pins.size))
    )
    for turn in range(0, rebisections, TURN):
        team.stop.begin(f"bisections of pairs of parts, round {turn + 1} of {rebisections}")
        pairs = PairEffort(min(TURN, rebisections - turn), effort.bisection)
        part = best.copy()
        rebisect_pairs(graph, part, capacities, pairs, seed + turn, team)
        refine(graph, part, capacities, effort.search, rng)
        cost = objective(graph, part, capacities)
        if cost >= best_cost:
            break
        best, best_cost = part, cost
    return best


def _carried(part: Int32, cluster: Int32) -> Int32:
    """Return the parts of clusters that lie within parts."""
    above = np.empty(int(cluster.max()) + 1, np.int32)
    above[cluster] = part
    return above


def _levels(
    graph: Hypergraph, part: Int32, parts: int, rng: np.random.Generator
) -> list[tuple[Hypergraph, Int32]]:
    """Coarsen; return the hypergraph of each level, and the clusters of the previous level.

    part : ndarray[int32], shape (vertices,); clusters stay within parts
    """
    least, limit = COARSEST * parts, _limit(graph, parts)
    levels = [(graph, np.arange(graph.vertices, dtype=np.int32))]
    while levels[-1][0].vertices > least:
        fine = levels[-1][0]
        coarse, cluster = coarsen(fine, part, limit, least, rng)
        if coarse.vertices > SHRINKS * fine.vertices:
            break
        levels.append((coarse, cluster))
        part = _carried(part, cluster)
    return levels


def _refined_upwards(
    levels: list[tuple[Hypergraph, Int32]],
    part: Int32,
    capacities: Int64,
    search: FmSearch,
    rng: np.random.Generator,
    stop: StopFlag,
) -> Int32:
    """Refine while uncoarsening; on coarse levels, parts may exceed the capacity by one vertex.

    Otherwise no moves exist where the slack is smaller than a vertex.
    """
    while True:
        some, cluster = levels.pop()
        stop.begin(f"refinement of {some.vertices:,} vertices")
        slack = int(some.sizes.max()) if levels else 0
        refine(some, part, capacities + slack, search, rng)
        if not levels:
            return part
        part = part[cluster]
