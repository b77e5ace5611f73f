"""Steps 2 to 4 with the cut as the objective: a partition, without positions of its parts.

A network of which memory holds all coarsening levels is partitioned on these; any other in blocks,
see `mapper.partitioning.streamed`. Refinement of the cut exchanges vertices between connected
parts. `mapper run` places these parts; `mapper partition` returns them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mapper.executors.worker_interface import Workers
from mapper.graph.by_label import numbered
from mapper.graph.network_rows import WorkedRows
from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hop_refinement.multilevel import Levels, coarsen, first_parts
from mapper.hop_refinement.refine import Mapped, level_effort, refine_mapping
from mapper.monitoring.callbacks import OnMapping, ignore
from mapper.monitoring.context import Context
from mapper.partitioning.streamed import Task, balanced, open_rows
from mapper.resume.checkpoint import Arrays
from storage.arrays import Int32, Mask
from storage.graph import Graph
from storage.scratch.scratch import Scratch

OnParts = Callable[[Int32, Rows], None]
"""Called with a partition and the rows of its vertices."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A partition of the coarsest level.

    levels : the network and its coarsening levels; only the network without levels
    part : ndarray[int32], shape (vertices of the coarsest level,); count : number of parts
    """

    levels: Levels
    part: Int32
    count: int


def read_rows(
    graph: Graph,
    shift: int,
    context: Context,
    scratch: Scratch,
    workers: Workers | None = None,
) -> Rows:
    """Return the rows of a graph, held by workers if there are any."""
    monitor = context.monitor
    if workers is not None:
        monitor.expect(graph.connections)
        monitor.note(f"{graph.connections:,} connections to scan")
        return WorkedRows(graph, shift, workers, scratch, monitor)
    return open_rows(graph, shift, context.plan.held, scratch, monitor, context.team)


def parts_of_levels(task: Task, context: Context, on_parts: OnParts = ignore) -> Parts:
    """Run steps 2 and 3 on levels in memory; parts may exceed the capacity."""
    settings, plan, steps, monitor, team = context
    with monitor.stage("coarsen"):
        levels = coarsen(task.rows, task.wanted, task.capacity, settings.seed_of(2), team)
        for graph in levels.graphs:
            monitor.level(graph.vertices, graph.entries // 2)
    with monitor.stage("initial partition"):

        def first() -> Arrays:
            effort = level_effort(settings, plan, task.rows.entries, settings.proposals)
            part = first_parts(
                levels.coarsest, task.wanted, task.capacity, settings.starts, effort,
                settings.seed_of(3), team,
            )  # fmt: skip
            return {"part": part}

        part, count = numbered(steps.run_once("first parts", first)["part"], task.cores)
        on_parts(part, levels.coarsest)
        return Parts(levels, part, count)


def refine_within(
    task: Task,
    mapped: Mapped,
    usable: Mask,
    context: Context,
    on_better: OnMapping = ignore,
) -> Int32:
    """Refine a mapping; return the core of every vertex of the network, within the capacity.

    usable : mask of the cores of the mesh
    on_better : see `refine_mapping`
    """
    core = refine_mapping(mapped, context, on_better)
    return balanced(task, core, usable, context.team.threads)


def refine_cut(task: Task, parts: Parts, context: Context) -> tuple[Int32, int]:
    """Reduce the cut; return the part of every vertex of the network, and the number of parts."""
    with context.monitor.stage("cut refinement"):
        mesh = CoreMesh.flat(np.full(parts.count, task.capacity, np.int64))
        mapped = Mapped(parts.levels, parts.part, mesh, context.plan.levels)
        usable = np.ones(task.cores, np.bool_)
        return numbered(refine_within(task, mapped, usable, context), task.cores)
