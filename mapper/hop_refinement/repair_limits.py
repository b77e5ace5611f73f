"""Refinement of hops within all limits of a core, with items on cores that constraints allow.

Moves respect the combined capacity, which is exact for additive limits. Axons are counted
afterwards: exchanges repair cores above a limit. If they cannot, or if the repair costs more hops
than refinement saved, the mapping stays as placed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.by_label import sums_by_label
from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import CoreMesh, hop_cost
from mapper.hop_refinement.multilevel import Levels
from mapper.hop_refinement.refine import Mapped, refine_mapping
from mapper.limits.axons import LimitJob
from mapper.limits.combined import CombinedCapacity
from mapper.limits.combined_constraints import Constraints
from mapper.limits.enforce import Items, repair
from mapper.limits.use import excess
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from storage.arrays import Int32, Int64, Mask

EXCHANGES = 4  # at least, instead of levels in memory, which these mappings cannot use


def refine_and_repair(
    job: LimitJob,
    combined: CombinedCapacity,
    rows: Rows,
    place: Int32,
    constraints: Constraints | None,
    context: Context,
) -> Int32:
    """Return the core of every item, with fewer hops if that is possible within the limits.

    place : ndarray[int32], shape (items,), core of every item, within all limits and constraints
    combined : sizes and capacity used for partitioning
    rows : of the items
    """
    settings, plan, _, monitor, team = context
    restricted = constraints is not None and constraints.kinds is not None
    if (restricted or job.chip.core_limits) and rows.entries // 2 <= settings.level_budget:
        exchanges = max(settings.exchanges, EXCHANGES)
        context = context._replace(settings=replace(settings, exchanges=exchanges))
    pinned = np.zeros(place.size, np.bool_) if constraints is None else constraints.pinned
    domains = None if constraints is None else constraints.domains(place, job.chip.cores)
    # Pinned items count neither as size nor as capacity.
    rows = rows.with_sizes(np.where(pinned, 0, combined.sizes))
    whole = job.capacities(combined)
    capacities = capacities_beside_pins(whole, place, combined.sizes, pinned)
    mesh = CoreMesh.of(job.chip, capacities, _least_beside_pins(job, combined, place, pinned))
    levels = Levels([rows], [], domains)
    filled = sums_by_label(place, combined.sizes, job.chip.cores)
    exact = combined.exact and not job.axon_limited and bool((filled <= whole).all())
    load = job.placed
    limits = load.limits

    def on_better(found: Int32) -> None:
        def kept(team: ThreadTeam) -> Int32:
            item = job.items.item
            if job.bounds is not None and lack_on(job, found).any():
                return place[item]
            if exact:
                return found[item]
            use = load.count(found[item], job.chip.cores, team)
            # a repair may take too long after Ctrl-C
            return place[item] if excess(use.table, limits).any() else found[item]

        monitor.stop.keep(kept)

    found = refine_mapping(Mapped(levels, place, mesh), context, on_better)
    if exact:
        return found
    use = load.count(found[job.items.item], job.chip.cores, team)
    over = excess(use.table, limits)
    if not over.any():
        return found
    found = found.copy()  # the mapping kept for Ctrl-C must not change
    monitor.note(f"{np.count_nonzero(over):,} cores above a limit after hop refinement")
    memory = plan.grouped or settings.memory_bytes // 4
    use = repair(
        load, Items(job.items.item, pinned, domains), found, job.chip.cores, job.chip.usable,
        memory, settings.seed_of(9), team,
    )  # fmt: skip
    if excess(use.table, limits).any():
        monitor.note("the excess cannot be repaired: hop refinement is discarded")
        return place
    before, after = (hop_cost(rows, core, mesh, team) for core in (place, found))
    monitor.note(f"{before:,} hops before refinement, {after:,} after repair")
    return found if after < before else place


def unless_over_limits(
    job: LimitJob, found: Int32, place: Int32, monitor: Monitor, team: ThreadTeam
) -> Int32:
    """Return the refined core of every item, or the placed one if a core is above a limit."""
    load = job.placed
    use = load.count(found[job.items.item], job.chip.cores, team)
    over = np.count_nonzero(excess(use.table, load.limits))
    if over:
        monitor.note(f"{over:,} cores above a limit after refinement: refinement is discarded")
    return place if over else found


def lack_on(job: LimitJob, place: Int32) -> Int64:
    """Return by how much each core in use is below its least size of neurons, shape (cores,)."""
    assert job.bounds is not None, "the run has least sizes"
    held = sums_by_label(place, job.demands()[0], job.chip.cores)
    return job.bounds.lack(held, np.bincount(place, minlength=held.size) > 0)


def _least_beside_pins(
    job: LimitJob, combined: CombinedCapacity, place: Int32, pinned: Mask
) -> Int64 | None:
    """Return the least size of the items of each core in use that are not pinned; None for none."""
    least = job.least(combined)
    if least is None:
        return None
    cores = job.chip.cores
    held = sums_by_label(place, np.where(pinned, combined.sizes, 0), cores)
    return np.where(np.bincount(place, minlength=cores) > 0, np.maximum(least - held, 0), 0)


def capacities_beside_pins(whole: Int64, place: Int32, sizes: Int64, pinned: Mask) -> Int64:
    """Return the capacity of each core without its pinned items, 0 for unused cores.

    A core that exchanges brought within its limits may hold more than the combined capacity.

    whole : ndarray[int64], shape (cores,), combined capacity of each core
    sizes : of the items
    """
    block_weights = np.zeros((2, whole.size), np.int64)
    np.add.at(block_weights, (pinned.astype(np.int64), place), sizes)
    free = np.maximum(whole - block_weights[1], block_weights[0])
    return np.where(np.bincount(place, minlength=whole.size) > 0, free, 0)
