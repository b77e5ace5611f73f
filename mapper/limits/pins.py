"""Put items on cores that constraints allow, after placement: first whole parts, then items."""

from __future__ import annotations

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError
from mapper.limits.axons import LimitJob, lacking
from mapper.limits.combined import combine_capacity
from mapper.limits.combined_constraints import Constraints
from mapper.limits.enforce import Items, repair
from mapper.limits.kinds import Kinds
from mapper.limits.legalise import Cores, legal_places
from mapper.limits.use import excess
from storage.arrays import Int32


def pinned_cells(cell: Int32, part: Int32, pinned: Int32) -> Int32:
    """Move parts so that pinned items are on their cores, as far as one part per core allows.

    cell : ndarray[int32], shape (parts,), core of every part
    part, pinned : ndarray[int32], shape (items,), part and required core (-1: any) of every item

    The part that occupied the core moves to the cell that becomes free.
    """
    cell = cell.copy()
    on = {int(core): k for k, core in enumerate(cell)}
    settled: set[int] = set()
    for item in np.flatnonzero(pinned >= 0):
        k, wanted = int(part[item]), int(pinned[item])
        other = on.get(wanted)
        if k in settled or other in settled:
            continue  # a part has two pins: the second item moves alone
        settled.add(k)
        if other == k:
            continue
        left = int(cell[k])
        cell[k], on[wanted] = wanted, k
        del on[left]
        if other is not None:
            cell[other], on[left] = left, other
    return cell


def core_of_items(
    cell: Int32,
    part: Int32,
    constraints: Constraints | None,
    job: LimitJob,
    most: int,
    memory: int,
    seed: int,
    team: ThreadTeam,
) -> Int32:
    """Return the core of every item, as the constraints require.

    cell : ndarray[int32], shape (parts,), core of every part
    part : ndarray[int32], shape (items,)
    most : number of cores to use, at most; 0 for all
    memory : bytes for the moves that free capacity

    Raises `DoesNotFitError` if no such mapping within all limits was found.
    """
    unlike = bool(job.chip.core_limits)
    if constraints is None or not constraints.restricts_cores:
        if not unlike:
            return cell[part]
        constraints = constraints or Constraints.none(job.items.count)
    place = pinned_cells(cell, part, constraints.core)[part]
    if constraints.kinds is not None or unlike:
        combined = combine_capacity(job.demands(), job.load.limits, np.zeros(2), job.cores)
        kinds = constraints.kinds or Kinds.single(job.items.count, job.chip.usable)
        cores = Cores(job.chip.width, job.capacities(combined), most)
        place = legal_places(place, kinds, constraints.core, combined.sizes, cores)
    return keep_constraints(job, place, constraints, memory, seed, team)


def keep_constraints(
    job: LimitJob, place: Int32, constraints: Constraints, memory: int, seed: int, team: ThreadTeam
) -> Int32:
    """Return the core of every item, with pinned items on their cores and all limits met.

    place : ndarray[int32], shape (items,), core of every item, on allowed cores

    Raises `DoesNotFitError` if items cannot be moved to other allowed cores.
    """
    pinned, kinds = constraints.pinned, constraints.kinds
    place = np.where(pinned, constraints.core, place).astype(np.int32)
    if kinds is not None and not kinds.kept(place):
        raise DoesNotFitError(
            f"{kinds.shown()}: no mapping was found that keeps all constraints (not proven "
            "impossible); give more cores"
        )
    domains = None if kinds is None else kinds.domains(place, pinned)
    items = Items(job.items.item, pinned, domains)
    usable = job.chip.usable
    load = job.placed
    use = repair(load, items, place, job.chip.cores, usable, memory, seed, team)
    over = excess(use.table, load.limits)
    if over.any():
        remedy = "pin fewer neurons" if kinds is None else "relax the constraints"
        if not constraints.restricts_cores:
            remedy = "use a larger chip"
        missing = lacking(job.chip, use, over, load.reserved)
        raise DoesNotFitError(f"{missing}; {remedy} or use larger cores")
    return place
