"""Bring a mapping within the least sizes or unlike capacities of its cores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError
from mapper.graph.by_label import sums_by_label
from mapper.graph.rows import Rows
from mapper.hop_refinement.fill_cores import CoreBounds, fill_cores
from mapper.hop_refinement.mesh import CoreMesh
from mapper.limits.axons import LimitJob
from mapper.limits.combined import CombinedCapacity
from mapper.limits.combined_constraints import Constraints
from mapper.limits.fill_bounds import neurons_of
from mapper.limits.kinds import Kinds
from mapper.limits.least_fill import load_within, repair_least
from mapper.limits.use import NO_LIMIT, excess
from mapper.limits.used_cores import cores_in_use
from storage.arrays import Int32, Int64, Mask


class FillWork(NamedTuple):
    """Resources of a step.

    memory : bytes for rows, and for repairs
    """

    memory: int
    seed: int
    team: ThreadTeam


def keep_least(
    job: LimitJob, rows: Rows, place: Int32, constraints: Constraints | None, work: FillWork
) -> Int32:
    """Return the core of every item, with at least the least size of neurons on cores in use.

    rows : of the items
    place : ndarray[int32], shape (items,), core of every item, within all limits and constraints

    Raises `DoesNotFitError` if no such mapping was found.
    """
    bounds = job.bounds
    assert bounds is not None, "the run has least sizes"
    sizes, chip = job.demands()[0], job.chip
    given = constraints or Constraints.none(place.size)
    pinned = given.pinned
    most = np.where(chip.usable, neurons_of(chip), 0)
    kinds = given.kinds or Kinds.single(place.size, chip.usable)
    used = cores_in_use(bounds, place, sizes, kinds, pinned, most, chip.width)
    domains = given.domains(place, chip.cores)
    fixed = sums_by_label(place, np.where(pinned, sizes, 0), chip.cores)
    found = place
    same = np.array_equal(bounds.aim, bounds.least)
    for least in (bounds.least,) if same else (bounds.aim, bounds.least):
        within = CoreBounds(
            np.where(used, np.maximum(least - fixed, 0), 0),
            np.where(used, np.maximum(most - fixed, 0), 0),
        )
        movable = rows.with_sizes(np.where(pinned, 0, sizes))
        mesh = CoreMesh.of(chip, within.most)
        found = fill_cores(movable, found, mesh, within, work.memory, work.seed, work.team, domains)
        if _kept(job, found, bounds.least, used, work.team):
            return found
    found = found.copy()
    if repair_least(job, found, constraints, used, work.memory, work.seed, work.team):
        return found
    held = sums_by_label(found, sizes, chip.cores)
    lack = bounds.lack(held, used)
    worst = int(lack.argmax())
    if not lack[worst]:
        raise DoesNotFitError(
            f"no mapping met all limits of chip {chip.name} with the least fill of cores (not "
            "proven impossible); give a lower --min-fill or larger cores"
        )
    raise DoesNotFitError(
        f"no mapping keeps the least fill of cores (not proven impossible): "
        f"{np.count_nonzero(lack):,} of {np.count_nonzero(used):,} cores remain below it, core "
        f"{worst} by {lack[worst]:,} of {bounds.least[worst]:,} neurons; give a lower --min-fill"
    )


def spread_over_cores(
    job: LimitJob, combined: CombinedCapacity, rows: Rows, place: Int32, most: int, work: FillWork
) -> Int32:
    """Return the core of every item, with no unlike core above its capacity, if that was found.

    Cores pass items to their neighbours, so that items that were close stay so.

    rows : of the items
    place : ndarray[int32], shape (items,), core of every item; may exceed the capacities
    most : number of cores to use, at most; 0 for all
    """
    capacities = job.capacities(combined)
    if most:
        used = np.bincount(place, minlength=capacities.size) > 0
        capacities = np.where(used, capacities, 0)
    if capacities.sum() < combined.sizes.sum():
        return place
    within = CoreBounds(np.zeros_like(capacities), capacities)
    mesh = CoreMesh.of(job.chip, capacities)
    sized = rows.with_sizes(combined.sizes)
    return fill_cores(sized, place, mesh, within, work.memory, work.seed, work.team)


def _kept(job: LimitJob, place: Int32, least: Int64, used: Mask, team: ThreadTeam) -> bool:
    """Return whether all cores are within their limits and least sizes."""
    load = load_within(job, least, used)
    held = sums_by_label(place, job.demands()[0], used.size)
    if (held[~used] > 0).any() or (held < np.where(used, least, 0)).any():
        return False
    if (held > neurons_of(job.chip)).any():
        return False
    if (load.limits[1:5] == NO_LIMIT).all():
        return True
    use = load.count(place[job.items.item], used.size, team)
    return not excess(use.table, load.limits).any()
