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
from numpy.typing import NDArray

from mapper.graph.rows import Rows
from mapper.hop_refinement.annealing import Cooling
from mapper.hop_refinement.gains import SeekHops
from mapper.hop_refinement.hop_cost import hop_cost
from mapper.hop_refinement.mesh import CUT, CoreMesh
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
from mapper.resume.checkpoint import Arrays
from mapper.scoring.stage_costs import estimate
from mapper.settings import Settings

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
    core: NDArray[np.int32]
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


def refine_mapping(
    mapped: Mapped, context: Context, on_better: OnMapping = ignore
) -> NDArray[np.int32]:
    """Return the core of every vertex, with fewer hops; no core exceeds its capacity.

    on_better : called with the core of every vertex after each step and on each level; on coarse
        levels cores may exceed their final capacity
    """
    settings, plan, steps, monitor, team = context
    rows, mesh = mapped.levels.finest, mapped.mesh
    fixed = mapped.levels.fixed
    core = mapped.core.copy()

    def step(name: str, work: Callable[[NDArray[np.int32]], tuple[NDArray[np.int32], int]]) -> int:
        """Run a step that changes `core` and returns it with a number, once."""
        nonlocal core

        def once() -> Arrays:
            found, number = work(core.copy())
            return {"core": found, "number": np.array([number], np.int64)}

        arrays = steps.run_once(name, once)
        core = arrays["core"]
        on_better(core)
        return int(arrays["number"][0])

    effort = level_effort(settings, plan, rows.entries, settings.proposals)
    v_cycle_effort = level_effort(settings, plan, rows.entries, settings.cycle_proposals)
    most = settings.hop_budget // max(1, rows.entries)
    passes, rounds = min(settings.hop_passes, most), min(settings.exchanges, most)
    if mesh.most == CUT:
        passes = 0  # partitioning included them
    v_cycles = plan.cycles
    if mapped.on_levels:
        passes = rounds = 0
        # without annealing, V-cycles would repeat the same work
        v_cycles = plan.cycles if settings.cycle_proposals else 0

        def uncoarsen(core: NDArray[np.int32] = core) -> Arrays:
            seen: list[tuple[int, int]] = []  # coarsest level first

            def on_level(graph: Rows, core: NDArray[np.int32]) -> None:
                found = estimate(graph, core, team, (mesh.column, mesh.row))
                seen.append((int(found.cut), int(found.hops)))
                finer = len(mapped.levels.graphs) - len(seen)
                for cluster in reversed(mapped.levels.clusters[:finer]):
                    core = core[cluster]
                on_better(core)

            found = refine_levels(
                mapped.levels, core, mesh, effort, settings.seed_of(7), team, on_level
            )
            return {"core": found, "seen": np.array(seen, np.int64).ravel()}

        arrays = steps.run_once("uncoarsen", uncoarsen)
        core = arrays["core"]
        on_better(core)
        pairs = arrays["seen"].reshape(-1, 2).tolist()
        for level, (cut, hops) in zip(monitor.levels[::-1], pairs, strict=True):
            monitor.observer.on_level(level, cut, hops, placed=mesh.most != CUT)
    monitor.expect((passes + rounds) * rows.entries)
    for index in range(passes):

        def move(core: NDArray[np.int32], index: int = index) -> tuple[NDArray[np.int32], int]:
            seeker = SeekHops(mesh, fixed)
            found = refine_round(
                rows, core, mesh.capacities, np.zeros_like(mesh.capacities), settings.seed_of(8),
                index, team, monitor.advance, seeker,
            )  # fmt: skip
            mean = found.outside / max(1, found.everything)
            monitor.note(f"pass {index + 1}: {found.moves:,} moves, hops per spike were {mean:.3f}")
            return core, found.moves

        step(f"hops {index}", move)
    first = 0
    for index in range(rounds):

        def pairwise_fm(
            core: NDArray[np.int32], index: int = index
        ) -> tuple[NDArray[np.int32], int]:
            rng = np.random.default_rng([settings.seed_of(9), index])
            sets = pairs_of(rows, core, mesh, rounds >= WORTH_A_CORNER, team)
            some = tiles_of(rows, core, mesh, plan.gathered, index % 2 == 1, team, monitor.advance)
            moved, saved = exchange_in_tiles(
                some, mesh, core, rows.sizes, sets, 1, rng, team, fixed
            )
            monitor.note(f"exchange {index + 1}: {moved:,} moves")
            return core, saved

        saved = step(f"exchange {index}", pairwise_fm)
        first = first or saved
        if saved * SETTLED <= first:
            break
    before = hop_cost(rows, core, mesh, team) if v_cycles else 0
    for index in range(v_cycles):

        def v_cycle(core: NDArray[np.int32], index: int = index) -> tuple[NDArray[np.int32], int]:
            seed = settings.seed_of(10 + index)
            found = refine_by_chains(rows, core, mesh, v_cycle_effort, seed, team, fixed)
            return found, hop_cost(rows, found, mesh, team)

        after = step(f"cycle {index}", v_cycle)
        gain = 1 - after / max(1, before)
        monitor.note(f"cycle {index + 1}: {gain:.2%} of the hops saved")
        if gain < WORTH_ANOTHER:
            break
        before = after
    return core
