"""Deep multilevel partitioning in memory.

Gottesbueren, Heuer, Sanders, Schlag and Seemaier (ESA 2021): coarsen to a small graph, bisect it,
and while uncoarsening bisect the parts again as soon as they have enough vertices, with k-way
refinement on every level. The many parts of a large chip are thus never cut from a graph that is
too coarse for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import HeldRows
from mapper.graph.sampled_contraction import contract_sampled, sampling_threshold, thin_in_place
from mapper.partitioning.kway_refinement import refine_round
from mapper.partitioning.label_propagation import cluster_vertices
from mapper.partitioning.multilevel_bisection import BisectionEffort
from mapper.partitioning.recursive_splitting import Splitting, split_parts
from mapper.planning.sampling import LEVEL_DEGREE
from storage.arrays import Int32, Int64

LAST_CUT_SLACK = 1.01  # ratio to its share that a part may hold before its last cut


@dataclass(frozen=True, slots=True)
class DeepEffort:
    """Settings of the deep multilevel method.

    shrink : limit of cluster size over mean vertex size; a level shrinks by less
    cluster_rounds : rounds of label propagation per level
    degree : mean connections per vertex in a sampled coarse level
    coarsest : number of vertices at which coarsening ends
    part_vertices : least vertices per part before it is cut
    refine_rounds : rounds of k-way refinement per level
    """

    shrink: float = 4.0
    cluster_rounds: int = 3
    degree: int = LEVEL_DEGREE
    coarsest: int = 1000
    part_vertices: int = 48
    refine_rounds: int = 3
    bisection: BisectionEffort = field(default_factory=BisectionEffort)


def coarsen_in_memory(
    rows: HeldRows, effort: DeepEffort, seed: int, team: ThreadTeam
) -> tuple[list[HeldRows], list[Int32]]:
    """Return levels from fine to coarse, and the clusters of all but the last."""
    levels, clusters = [rows], []
    while rows.vertices > effort.coarsest:
        depth = len(levels)
        limit = max(1, int(effort.shrink * rows.sizes.sum() / rows.vertices))
        cluster, count = cluster_vertices(rows, limit, effort.cluster_rounds, seed + depth, team)
        if count > 0.95 * rows.vertices:
            break
        coarse = contract_sampled(rows, cluster, count, 1, seed + depth, team)
        if coarse.entries > effort.degree * count:
            threshold = sampling_threshold(coarse, effort.degree * count, team)
            coarse = thin_in_place(coarse, threshold, seed + depth, team)
        levels.append(coarse)
        clusters.append(cluster)
        rows = coarse
    return levels, clusters


def block_bounds(cores: Int64, size: int, capacity: int, largest: int) -> tuple[Int64, Int64]:
    """Return upper and lower size limits of parts that will be cut further.

    Only a part of a single core may use all the slack. Parts that will be cut stay near their
    share: a full part has no slack left inside, where it is worth more than at its border.
    """
    share = size * cores / cores.sum()
    capacities = np.floor(np.minimum(share * LAST_CUT_SLACK + largest, cores * capacity)).astype(
        np.int64
    )
    floor = np.ceil(share / LAST_CUT_SLACK**2 - largest).astype(np.int64)
    single = cores == 1
    return np.where(single, capacity, capacities), np.where(single, 0, np.maximum(floor, 0))


def partition_in_memory(
    rows: HeldRows,
    cores: int,
    stop: int,
    capacity: int,
    effort: DeepEffort,
    seed: int,
    memory: int,
    team: ThreadTeam,
) -> tuple[Int32, Int64]:
    """Return parts of at most `stop` cores each; together they use `cores` cores of `capacity`.

    Returns (part, cores of each part): shapes (vertices,) and (parts,).
    """
    levels, clusters = coarsen_in_memory(rows, effort, seed, team)
    part = np.zeros(levels[-1].vertices, np.int32)
    part_cores = np.array([cores], np.int64)
    for depth in range(len(levels) - 1, -1, -1):
        level = levels.pop()
        parts = max(1, level.vertices // effort.part_vertices)
        wanted = stop if depth == 0 else max(stop, -(-cores // parts))
        if part_cores.max() > wanted:
            how = Splitting(wanted, capacity, effort.bisection, seed + depth)
            part, part_cores = split_parts(level, part, part_cores, how, memory, team)
        capacities, floor = block_bounds(
            part_cores, int(level.sizes.sum()), capacity, int(level.sizes.max())
        )
        for index in range(effort.refine_rounds):
            if not refine_round(level, part, capacities, floor, seed + depth, index, team).moves:
                break
        if depth:
            part = part[clusters[depth - 1]]
    return part, part_cores
