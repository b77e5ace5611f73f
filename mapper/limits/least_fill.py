"""Repair of cores below their least number of neurons, within all limits.

A sixth row in the table of use holds the deficit of each core (the least size of its neurons, less
their size), plus an offset. Its limit is the offset, so that a core below its least size is above
this limit, and exchanges (`mapper.limits.enforce`) repair it as they repair any other excess. Cores
that are not in use hold no neurons.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.limits.axons import LimitJob
from mapper.limits.combined_constraints import Constraints
from mapper.limits.enforce import Items, Load, repair
from mapper.limits.use import NEURONS, count_fans, excess
from storage.arrays import Int32, Int64, Mask


def load_within(job: LimitJob, least: Int64, used: Mask) -> Load:
    """Return the load of the cores of the mesh with least sizes.

    least : ndarray[int64], shape (cores,), least size of the neurons of each core in use
    used : ndarray[bool], shape (cores,), cores that may hold neurons
    """
    load = job.placed
    offset = int(load.limits[NEURONS])
    reserved = load.reserved
    if reserved is None:
        reserved = np.zeros((load.limits.size, used.size), np.int64)
    reserved = np.vstack([reserved, np.where(used, least, 0) + offset])
    reserved[NEURONS, ~used] = offset
    return replace(load, limits=np.append(load.limits, offset), reserved=reserved)


def repair_least(
    job: LimitJob,
    place: Int32,
    constraints: Constraints | None,
    used: Mask,
    memory: int,
    seed: int,
    team: ThreadTeam,
) -> bool:
    """Move items until all cores are within their limits and least sizes; return whether they are.

    place : ndarray[int32], shape (items,), core of every item; changed in place
    used : ndarray[bool], shape (cores,), cores to use
    memory : bytes for the moves
    """
    bounds = job.bounds
    assert bounds is not None, "the run has least sizes"
    if not job.fans.into.any():  # not counted for runs without repairs
        fans = count_fans(job.load.graph, team.threads)
        job = replace(job, fans=fans, load=replace(job.load, fan_in=fans.into))
    load = load_within(job, bounds.least, used)
    pinned = np.zeros(place.size, np.bool_) if constraints is None else constraints.pinned
    domains = None if constraints is None else constraints.domains(place, used.size)
    items = Items(job.items.item, pinned, domains)
    use = repair(load, items, place, used.size, used, memory, seed, team)
    return not excess(use.table, load.limits).any()
