"""Put pinned items on their cores after placement: first move whole parts, then single items."""

from __future__ import annotations

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError
from mapper.limits.axons import LimitJob, lacking
from mapper.limits.constraints import Constraints
from mapper.limits.enforce import Items, repair
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
    memory: int,
    seed: int,
    team: ThreadTeam,
) -> Int32:
    """Return the core of every item, with pinned items on their cores.

    cell : ndarray[int32], shape (parts,), core of every part
    part : ndarray[int32], shape (items,)
    memory : bytes for the moves that free capacity for pinned items
    """
    if constraints is None or not (constraints.core >= 0).any():
        return cell[part]
    place = pinned_cells(cell, part, constraints.core)[part]
    return keep_pins(job, place, constraints.core, memory, seed, team)


def keep_pins(
    job: LimitJob, place: Int32, pinned: Int32, memory: int, seed: int, team: ThreadTeam
) -> Int32:
    """Return the core of every item, with pinned items on their cores and all limits met.

    place, pinned : ndarray[int32], shape (items,), core of every item; required core or -1

    Raises `DoesNotFitError` if other items cannot be moved off the cores of pinned ones.
    """
    place = np.where(pinned >= 0, pinned, place).astype(np.int32)
    items = Items(job.items.item, pinned >= 0)
    usable = job.chip.usable
    use = repair(job.load, items, place, job.chip.cores, usable, memory, seed, team)
    over = excess(use.table, job.load.limits)
    if over.any():
        raise DoesNotFitError(
            f"{lacking(job.chip, use, over)}; pin fewer neurons or use larger cores"
        )
    return place
