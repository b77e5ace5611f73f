"""Search for the partition with the smallest cut: several starts, combined, then V-cycles.

Each start has separate coarsening levels. Two partitions are combined by a V-cycle from the better
one that contracts no edge which either cuts (Sanders and Schulz, "Distributed evolutionary graph
partitioning", ALENEX 2012): refinement on its coarse levels exchanges whole regions on which the
two disagree. The cut never gets worse.

A graph of which memory holds no levels is partitioned once, in blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hop_refinement.multilevel import Levels, objective_key
from mapper.hop_refinement.refine import level_effort
from mapper.hop_refinement.tiles import ROW_BYTES
from mapper.hop_refinement.v_cycle import refine_by_v_cycle
from mapper.methods.cut import Parts, parts_of_levels, refine_cut
from mapper.monitoring.context import Context
from mapper.partitioning.streamed import Task, balanced, partition_streamed
from mapper.resume.checkpoint import Arrays
from storage.arrays import Int32

PROPOSALS = 30  # annealing moves per vertex and level of a V-cycle
WORTH_ANOTHER = 0.001  # share of the cut that a V-cycle must save for another to follow
START_WORK = 1 << 27  # vertices times parts of all starts, unless there is only one
FIRST_STEP = 1000  # of the seeds of starts, above all other steps


class CutEffort(NamedTuple):
    """Work of a preset.

    starts : number of partitions that are combined, at most
    cycles : V-cycles after them, at most
    entries : of all starts together, unless there is only one
    """

    starts: int
    cycles: int
    entries: int


EFFORTS = {
    "fast": CutEffort(1, 0, 0),
    "default": CutEffort(4, 3, 8_000_000),
    "strong": CutEffort(8, 10, 200_000_000),
}


def partition_graph(task: Task, context: Context) -> Int32:
    """Return the part of every vertex, all within the capacity.

    Raises `DoesNotFitError` if no partition within the capacity was found.
    """
    if not context.plan.levels:
        part, count = partition_streamed(task, context)
        parts = Parts(Levels([task.rows], []), part, count)
        return refine_cut(task, parts, _within_memory(task, context))[0]
    effort = EFFORTS[context.settings.preset]
    rows, work = task.rows, task.rows.vertices * task.cores
    starts = max(1, min(effort.starts, effort.entries // max(1, rows.entries), START_WORK // work))
    search = _CutSearch(task, context)
    found = [search.start(index) for index in range(starts)]
    return search.cycles(search.combined(found), effort.cycles)


def _within_memory(task: Task, context: Context) -> Context:
    """Return the context without exchanges between parts, if memory does not hold two parts."""
    plan = context.plan
    pair = 2 * ROW_BYTES * task.rows.entries // task.cores
    if task.rows.at_hand or pair <= plan.gathered:
        return context
    context.monitor.note("parts exchange no vertices: memory does not hold two of them")
    settings = replace(context.settings, exchanges=0)
    return context._replace(settings=settings, plan=replace(plan, cycles=0))


class _CutSearch:
    """The steps of a search on levels in memory, each of them run once and resumable."""

    def __init__(self, task: Task, context: Context) -> None:
        settings, plan, *_ = context
        self._task, self._context = task, context
        self._mesh = CoreMesh.flat(np.full(task.cores, task.capacity, np.int64))
        self._effort = level_effort(settings, plan, task.rows.entries, PROPOSALS)

    @property
    def _rows(self) -> Rows:
        return self._task.rows

    def _key(self, part: Int32) -> tuple[int, int]:
        return objective_key(self._rows, part, self._mesh, self._context.team)

    def start(self, index: int) -> Int32:
        """Return a partition from new coarsening levels."""
        settings, plan, steps, monitor, _ = self._context
        monitor.levels.clear()
        own = self._context._replace(plan=replace(plan, cycles=0))
        if index:
            seed = settings.seed_of(FIRST_STEP + index)
            own = own._replace(
                settings=replace(settings, seed=seed), steps=steps.nested(f"start {index}")
            )
        parts = parts_of_levels(self._task, own)
        return refine_cut(self._task, parts, own)[0]

    def combined(self, found: list[Int32]) -> Int32:
        """Return one partition, from pairs that are combined, and pairs of these."""
        with self._context.monitor.stage("combine"):
            depth = 0
            while len(found) > 1:
                pairs = zip(found[::2], found[1::2], strict=False)
                made = [
                    self._cycle(f"combine {depth}.{index}", *pair)
                    for index, pair in enumerate(pairs)
                ]
                found = made + found[2 * len(made) :]
                depth += 1
            return found[0]

    def cycles(self, part: Int32, most: int) -> Int32:
        """Return the partition after V-cycles, which end once they save little."""
        with self._context.monitor.stage("V-cycles"):
            before = self._key(part)[1]
            for index in range(most):
                part = self._cycle(f"cycle {index}", part)
                after = self._key(part)[1]
                if before - after <= WORTH_ANOTHER * before:
                    break
                before = after
            return part

    def _cycle(self, name: str, part: Int32, other: Int32 | None = None) -> Int32:
        """Run a V-cycle as a named step; return the best of its result and both partitions."""
        context, task = self._context, self._task
        seed = context.settings.seed_of(FIRST_STEP) + sum(name.encode()) % 1000
        given = sorted([part] if other is None else [part, other], key=self._key)

        def once() -> Arrays:
            found = refine_by_v_cycle(
                self._rows, given[0], self._mesh, self._effort, seed, context.team,
                apart=None if other is None else given[1],
            )  # fmt: skip
            usable = np.ones(task.cores, np.bool_)
            return {"part": balanced(task, found, usable, context.team.threads)}

        found = context.steps.run_once(name, once)["part"]
        best = min([given[0], found], key=self._key)
        context.monitor.note(f"{name}: cut {self._key(best)[1] // 2:,}")
        return best
