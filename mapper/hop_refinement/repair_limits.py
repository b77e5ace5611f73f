"""Refinement by hops between all limits of a core, with pinned items where they belong.

The moves keep to the one capacity that stands for all limits, which is exact for limits that
add up. Axons are counted after them: exchanges repair what came above a limit, and if they
cannot, or cost what was gained, the mapping stays as it was placed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mapper.graph.rows import Rows
from mapper.hop_refinement.hop_cost import hop_cost
from mapper.hop_refinement.mesh import Mesh
from mapper.hop_refinement.multilevel import Levels
from mapper.hop_refinement.refine import Mapped, refine_mapping
from mapper.limits.axons import Job
from mapper.limits.combined import CombinedCapacity
from mapper.limits.constraints import Constraints
from mapper.limits.enforce import Items, repair
from mapper.limits.use import excess, weight_of_excess
from mapper.runtime.context import Context
from mapper.runtime.monitor import Monitor
from mapper.runtime.threads import ThreadTeam


def refine_and_repair(
    job: Job,
    combined: CombinedCapacity,
    rows: Rows,
    place: NDArray[np.int32],
    constraints: Constraints | None,
    context: Context,
) -> NDArray[np.int32]:
    """Core of every item, with fewer hops if that is possible within the limits.

    place : ndarray[int32], shape (items,), core of every item, within all limits, those that are
        pinned where they belong
    combined : what parts were made with; rows : of the items
    """
    settings, plan, _, monitor, team = context
    pinned = np.zeros(place.size, np.bool_) if constraints is None else constraints.core >= 0
    # What never moves is not counted: neither its size, nor the capacity that it takes.
    rows = rows.with_sizes(np.where(pinned, 0, combined.sizes))
    capacities = capacities_beside_pins(job.chip.cores, place, combined, pinned)
    mesh = Mesh.of(job.chip, capacities)
    levels = Levels([rows], [], pinned if pinned.any() else None)
    exact = combined.exact and not job.axon_limited
    limits, weight = job.load.limits, weight_of_excess(job.load.limits)

    def on_better(found: NDArray[np.int32]) -> None:
        def kept(team: ThreadTeam) -> NDArray[np.int32]:
            item = job.items.item
            if exact:
                return found[item]
            use = job.load.count(found[item], job.chip.cores, team)
            # to put cores right may take longer than one who pressed Ctrl-C waits
            return place[item] if excess(use.table, limits, weight).any() else found[item]

        monitor.stop.keep(kept)

    found = refine_mapping(Mapped(levels, place, mesh), context, on_better)
    if exact:
        return found
    use = job.load.count(found[job.items.item], job.chip.cores, team)
    over = excess(use.table, limits, weight)
    if not over.any():
        return found
    found = found.copy()  # what was kept for an interrupt stays as it is
    monitor.note(f"{np.count_nonzero(over):,} cores above a limit after refinement by hops")
    memory = plan.grouped or settings.memory_bytes // 4
    use = repair(
        job.load, Items(job.items.item, pinned), found, job.chip.cores, job.chip.usable, memory,
        settings.seed_of(9), team,
    )  # fmt: skip
    if excess(use.table, limits, weight).any():
        monitor.note("they cannot be put right: no refinement by hops")
        return place
    before, after = (hop_cost(rows, core, mesh, team) for core in (place, found))
    monitor.note(f"{before:,} hops before, {after:,} within the limits")
    return found if after < before else place


def unless_over_limits(
    job: Job, found: NDArray[np.int32], place: NDArray[np.int32], monitor: Monitor, team: ThreadTeam
) -> NDArray[np.int32]:
    """The core of every item that was found, or as it was placed if a core is above a limit now."""
    limits = job.load.limits
    use = job.load.count(found[job.items.item], job.chip.cores, team)
    over = np.count_nonzero(excess(use.table, limits, weight_of_excess(limits)))
    if over:
        monitor.note(f"{over:,} cores above a limit after refinement: left as placed")
    return place if over else found


def capacities_beside_pins(
    cores: int, place: NDArray[np.int32], combined: CombinedCapacity, pinned: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """What each core may hold beside its pinned items, 0 for those that are not in use.

    A core that was brought within its limits by exchanges may hold more than the combined capacity.
    """
    block_weights = np.zeros((2, cores), np.int64)
    np.add.at(block_weights, (pinned.astype(np.int64), place), combined.sizes)
    free = np.maximum(combined.capacity - block_weights[1], block_weights[0])
    return np.where(np.bincount(place, minlength=cores) > 0, free, 0)
