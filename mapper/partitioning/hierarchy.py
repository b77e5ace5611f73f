"""Steps 2 and 4: traversal of the levels, down by coarsening and up by refinement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mapper.graph.contraction import contract
from mapper.monitoring.monitor import Monitor
from mapper.partitioning.block_refinement import cut_weight, refine
from mapper.partitioning.heavy_edge_matching import match
from mapper.partitioning.rebalance import balance, enforce_and_renumber
from mapper.settings import Settings
from storage.graph import Graph
from storage.scratch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class HierarchyLevel:
    """A graph of the hierarchy, and the scratch name of the coarser ids of its vertices."""

    graph: Graph
    coarser: str | None


def coarsen(
    graph: Graph,
    capacity: int,
    settings: Settings,
    rng: np.random.Generator,
    scratch: Scratch,
    monitor: Monitor,
) -> list[HierarchyLevel]:
    """Return the levels from the finest (the graph itself) to the coarsest, kept in scratch."""
    levels: list[HierarchyLevel] = []
    monitor.level(graph.vertices, graph.connections // 2)
    while True:
        coarse, count = match(
            graph,
            graph.vertex_sizes(),
            capacity // settings.size_divisor,
            settings.matching_repeats,
            rng,
            settings.threads,
        )
        if count > (1 - settings.stop_shrink) * graph.vertices:
            levels.append(HierarchyLevel(graph, None))
            return levels
        name = f"level/{len(levels) + 1:03d}"
        scratch.put_array(f"{name}/coarse", coarse)
        levels.append(HierarchyLevel(graph, f"{name}/coarse"))
        graph = contract(
            graph, coarse, count, scratch, name, settings.memory_bytes // 4, settings.threads
        )
        monitor.level(graph.vertices, graph.connections // 2)


def uncoarsen(
    levels: list[HierarchyLevel],
    part: NDArray[np.int32],
    count: int,
    capacity: int,
    cores: int,
    settings: Settings,
    rng: np.random.Generator,
    scratch: Scratch,
    monitor: Monitor,
) -> tuple[NDArray[np.int32], int]:
    """Project the parts of the coarsest level to the finest, refining them on each level.

    part : ndarray[int32], shape (vertices of the coarsest level,), numbered 0 .. count-1

    Returns the parts of the finest level, within the capacity and renumbered without gaps, and
    their number. Raises `DoesNotFitError` if the vertices cannot be packed.
    """
    for depth in range(len(levels) - 1, -1, -1):
        level = levels[depth]
        if level.coarser is not None:
            part = part[scratch.get_array(level.coarser)]
        sizes = level.graph.vertex_sizes()
        block_weights = np.zeros(count, np.int64)
        np.add.at(block_weights, part, sizes)
        for _ in range(settings.refinement_passes):
            moves, _ = refine(
                level.graph, sizes, part, block_weights, capacity, rng, settings.threads
            )
            if not moves:
                break
        balance(level.graph, sizes, part, block_weights, capacity, settings.threads)
        if depth == 0:
            part, count = enforce_and_renumber(
                level.graph, sizes, part, block_weights, capacity, cores, settings.threads
            )
        cut = cut_weight(level.graph, part, settings.threads)
        monitor.levels[depth]["cut_weight"] = cut
        monitor.note(f"level {depth}: cut {cut:,} of {level.graph.vertices:,} vertices")
    return part, count
