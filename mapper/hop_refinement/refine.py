"""Refinement of a mapping: single vertices move and swap between cores, to save hops.

First, in a few streamed passes, every vertex may move to its best core; then pairs of cores
exchange vertices, tile by tile; then V-cycles. With coarsening levels, refinement on the levels
replaces the passes and exchanges. The same steps refine a partition whose parts have no positions
yet: there hops are the cut weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mapper.graph.rows import Rows
from mapper.hop_refinement.annealing import Cooling
from mapper.hop_refinement.gains import SeekHops
from mapper.hop_refinement.mesh import CUT, CoreMesh, hop_cost
from mapper.hop_refinement.multilevel import (
    BISECTION,
    SETTLED,
    Levels,
    RefinementEffort,
    refine_levels,
)
from mapper.hop_refinement.partners import pairs_of
from mapper.hop_refinement.tiles import exchange_in_tiles, tiles_of
from mapper.hop_refinement.v_cycle import refine_by_chains
from mapper.monitoring.callbacks import OnMapping, ignore
from mapper.monitoring.context import Context
from mapper.partitioning.kway_refinement import refine_round
from mapper.planning.memory import HELD_BYTES
from mapper.planning.plan import Plan
from mapper.planning.rounds import hop_rounds
from mapper.resume.checkpoint import Arrays
from mapper.scoring.stage_costs import estimate
from mapper.settings import Settings
from storage.arrays import Int32

WORTH_ANOTHER = 0.003  # share of the hops that a V-cycle must save for another to follow
LEAST_PROPOSALS = 30  # annealing proposals per neuron, at least, if any
FOR_A_LEVEL = 2  # ratio of exchanges of a finished mapping to exchanges on each level
WORTH_A_CORNER = 3  # number of exchanges from which pairs across corners take part


@dataclass(frozen=True, slots=True)
class Mapped:
    """A network with a core for every vertex of its finest or of its coarsest level.

    core : ndarray[int32], shape (vertices of that level,), core id
    mesh : the cores and their capacities
    on_levels : `core` is of the coarsest level; map on these levels
    """

    levels: Levels
    core: Int32
    mesh: CoreMesh
    on_levels: bool = False


def level_effort(settings: Settings, plan: Plan, entries: int, proposals: int) -> RefinementEffort:
    """Return the work that multilevel refinement may do in a run.

    entries : of the finest level
    proposals : maximum annealing proposals per neuron
    """
    proposals = min(proposals, max(LEAST_PROPOSALS, settings.anneal_budget // max(1, entries)))
    cooling = Cooling(proposals) if proposals else None
    rounds = max(1, settings.exchanges // FOR_A_LEVEL)
    bisection = BISECTION._replace(tries=settings.level_tries, passes=settings.level_fm_passes)
    return RefinementEffort(
        plan.gathered, HELD_BYTES * plan.sampled, rounds, cooling, plan.chains, bisection,
        light=not settings.exchanges,
    )  # fmt: skip


class _Refinement:
    """The steps of the refinement of a mapping, each of them run once and resumable.

    core : ndarray[int32], shape (vertices,), the mapping after the steps so far
    """

    def __init__(self, mapped: Mapped, context: Context, on_better: OnMapping) -> None:
        self._levels, self._mesh, self._context = mapped.levels, mapped.mesh, context
        self._rows, self._on_better = mapped.levels.finest, on_better
        self.core = mapped.core.copy()

    def _step(self, name: str, work: Callable[[Int32], tuple[Int32, int]]) -> int:
        """Run a step that may change the mapping it receives and returns it with a number."""

        def once() -> Arrays:
            found, number = work(self.core.copy())
            return {"core": found, "number": np.array([number], np.int64)}

        arrays = self._context.steps.run_once(name, once)
        self.core = arrays["core"]
        self._on_better(self.core)
        return int(arrays["number"][0])

    def uncoarsen(self, effort: RefinementEffort) -> None:
        """Refine on all levels, from the coarsest one, whose mapping is given."""
        settings, _, steps, monitor, team = self._context
        levels, mesh = self._levels, self._mesh

        def once() -> Arrays:
            seen: list[tuple[int, int]] = []  # coarsest level first

            def on_level(graph: Rows, core: Int32) -> None:
                found = estimate(graph, core, team, (mesh.column, mesh.row))
                seen.append((int(found.cut), int(found.hops)))
                for cluster in reversed(levels.clusters[: len(levels.graphs) - len(seen)]):
                    core = core[cluster]
                self._on_better(core)

            seed = settings.seed_of(7)
            found = refine_levels(levels, self.core, mesh, effort, seed, team, on_level)
            return {"core": found, "seen": np.array(seen, np.int64).ravel()}

        arrays = steps.run_once("uncoarsen", once)
        self.core = arrays["core"]
        self._on_better(self.core)
        pairs = arrays["seen"].reshape(-1, 2).tolist()
        for level, (cut, hops) in zip(monitor.levels[::-1], pairs, strict=True):
            monitor.observer.on_level(level, cut, hops, placed=mesh.most != CUT)

    def move(self, index: int) -> None:
        """Run a pass in which every vertex may move to its best core."""
        settings, _, _, monitor, team = self._context
        mesh = self._mesh

        def work(core: Int32) -> tuple[Int32, int]:
            found = refine_round(
                self._rows, core, mesh.capacities, mesh.least, settings.seed_of(8), index, team,
                monitor.advance, SeekHops(mesh, self._levels.domains),
            )  # fmt: skip
            mean = found.outside / max(1, found.everything)
            monitor.note(f"pass {index + 1}: {found.moves:,} moves, hops per spike were {mean:.3f}")
            return core, found.moves

        self._step(f"hops {index}", work)

    def exchange(self, index: int, corners: bool) -> int:
        """Exchange vertices between pairs of cores; return the hops saved, approximately."""
        settings, plan, _, monitor, team = self._context
        rows, mesh = self._rows, self._mesh

        def work(core: Int32) -> tuple[Int32, int]:
            rng = np.random.default_rng([settings.seed_of(9), index])
            sets = pairs_of(rows, core, mesh, corners, team)
            some = tiles_of(rows, core, mesh, plan.gathered, index % 2 == 1, team, monitor.advance)
            moved, saved = exchange_in_tiles(
                some, mesh, core, rows.sizes, sets, 1, rng, team, self._levels.domains
            )
            monitor.note(f"exchange {index + 1}: {moved:,} moves")
            return core, saved

        return self._step(f"exchange {index}", work)

    def v_cycle(self, index: int, effort: RefinementEffort, before: int) -> int:
        """Run a V-cycle; return the hops after it. before : hops before it"""
        settings, _, _, monitor, team = self._context
        rows, mesh = self._rows, self._mesh

        def work(core: Int32) -> tuple[Int32, int]:
            seed = settings.seed_of(10 + index)
            found = refine_by_chains(rows, core, mesh, effort, seed, team, self._levels.domains)
            return found, hop_cost(rows, found, mesh, team)

        after = self._step(f"cycle {index}", work)
        monitor.note(f"cycle {index + 1}: {1 - after / max(1, before):.2%} of the hops saved")
        return after


def refine_mapping(mapped: Mapped, context: Context, on_better: OnMapping = ignore) -> Int32:
    """Return the core of every vertex, with fewer hops; no core exceeds its capacity.

    Moves take no core below its least size.

    on_better : called with the core of every vertex after each step and on each level; on coarse
        levels cores may exceed their final capacity
    """
    settings, plan, _, monitor, team = context
    rows, mesh = mapped.levels.finest, mapped.mesh
    steps = _Refinement(mapped, context, on_better)
    passes, rounds = hop_rounds(settings, rows.entries)
    if mesh.most == CUT:
        passes = 0  # partitioning included them
    v_cycles = plan.cycles
    if mapped.on_levels:
        passes = rounds = 0
        # without annealing, V-cycles would repeat the same work
        v_cycles = plan.cycles if settings.cycle_proposals else 0
        steps.uncoarsen(level_effort(settings, plan, rows.entries, settings.proposals))
    monitor.expect((passes + rounds) * rows.entries)
    for index in range(passes):
        steps.move(index)
    first = 0
    for index in range(rounds):
        saved = steps.exchange(index, rounds >= WORTH_A_CORNER)
        first = first or saved
        if saved * SETTLED <= first:
            break
    effort = level_effort(settings, plan, rows.entries, settings.cycle_proposals)
    before = hop_cost(rows, steps.core, mesh, team) if v_cycles else 0
    for index in range(v_cycles):
        after = steps.v_cycle(index, effort, before)
        if 1 - after / max(1, before) < WORTH_ANOTHER:
            break
        before = after
    return steps.core
