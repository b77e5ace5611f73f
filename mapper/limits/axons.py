"""Partitioning within all core limits; the number of synapses per core is found by iteration.

The first partition considers the additive limits. If it leaves cores above a limit on axons, their
axons and synapses show how much vertices share sources, and the next partition has smaller parts.
The growth of axons with the vertices of a part follows a model: m vertices that each draw f sources
from the same n have n (1 - (1 - f/n)^m) distinct sources; n is fitted to the present part. Once
little excess is left, exchanges of vertices repair it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from chipsim.chip.model import Chip
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError
from mapper.graph.by_label import numbered, sums_by_label
from mapper.limits.combined import ENOUGH, CombinedCapacity, combine_capacity
from mapper.limits.combined_constraints import Constraints
from mapper.limits.enforce import Items, Load, RepairBudget, repair
from mapper.limits.fill_bounds import FillBounds
from mapper.limits.use import (
    AXONS_IN,
    AXONS_OUT,
    BITS,
    LIMIT_NAMES,
    NEURONS,
    NO_LIMIT,
    ONE_CORE,
    SYNAPSES,
    BitCosts,
    Fans,
    Use,
    count_fans,
    excess,
    limits_of,
    reserved_on,
)
from mapper.monitoring.monitor import Monitor
from storage.arrays import Float64, Int32, Int64
from storage.graph import Graph

ATTEMPTS = 7
WORTH = 0.08  # mean excess per part, as a share of a core, below which a repair starts
LEAST_STEP = 1.06  # factor between consecutive values of sharing, at least
HOPE = 0.96  # share of the sharing of the model that is applied: exchanges do the rest
EXACT = 1 << 32  # products with limits below it are exact
TYPICAL = 0.7  # quantile of the sharing over the parts above a limit

Attempt = Callable[[CombinedCapacity, int], tuple[Int32, int]]


@dataclass(frozen=True, slots=True)
class LimitJob:
    """A network, its items, and the chip whose limits apply.

    load, fans : of the single neurons; the load has the limits of the largest core
    items : groups of neurons that move as one
    bounds : least number of neurons of cores; None for none
    """

    chip: Chip
    load: Load
    fans: Fans
    items: Items
    bounds: FillBounds | None = None

    @property
    def cores(self) -> int:
        return self.chip.usable_count

    @property
    def placed(self) -> Load:
        """Return the load whose parts are the cores of the mesh, each with separate limits."""
        return replace(self.load, reserved=reserved_on(self.chip))

    def capacities(self, combined: CombinedCapacity) -> Int64:
        """Return the combined capacity of every core, shape (cores,); 0 for unusable ones."""
        found = np.where(self.chip.usable, combined.capacity, 0).astype(np.int64)
        reserved = self.placed.reserved
        if reserved is None:
            return found
        for limit, lack in zip(self.load.limits, reserved, strict=True):
            if limit < EXACT:
                np.minimum(found, combined.whole * (limit - lack) // limit, out=found)
            elif lack.any():
                share = (limit - lack) / limit * (1 - 1e-12)
                np.minimum(found, (combined.whole * share).astype(np.int64), out=found)
        return found

    def least(self, combined: CombinedCapacity) -> Int64 | None:
        """Return the combined size that each core should keep, shape (cores,); None for none.

        Exact if only neurons are limited; otherwise in proportion.
        """
        if self.bounds is None:
            return None
        limit = int(self.load.limits[NEURONS])
        found = -(-self.bounds.aim.astype(np.float64) * combined.whole // limit)
        return np.minimum(found.astype(np.int64), self.capacities(combined))

    def demands(self) -> tuple[Int64, ...]:
        """Return the demand of each item for each limit."""
        into = self.items.total(self.fans.into)
        sizes, out = self.items.total(self.load.sizes), self.items.total(self.fans.out)
        return sizes, into, into, out, self.load.bits.of(sizes, into)

    @property
    def axon_limited(self) -> bool:
        """Return whether a core could exceed a limit on axons at all."""
        if (self.load.limits[[AXONS_IN, AXONS_OUT]] == NO_LIMIT).all():
            return False
        limits = self.load.limits
        reserved = self.placed.reserved
        if reserved is not None:
            limits = limits - reserved.max(axis=1)
        most_in = np.count_nonzero(self.fans.out)
        if self.load.copies:
            most_out = int(np.clip(self.fans.out, 1, self.cores).sum())
        else:
            most_out = int(np.minimum(self.fans.out, self.cores - 1).sum())
        return bool(most_in > limits[AXONS_IN] or most_out > limits[AXONS_OUT])


def make_job(
    graph: Graph, chip: Chip, threads: int, constraints: Constraints | None = None
) -> LimitJob:
    """Return the job of a network; scans its connections only if limits or repairs need them."""
    limits = limits_of(chip)
    repaired = constraints is not None and constraints.restricts_cores
    repaired |= bool(chip.core_limits)
    if repaired or (limits[SYNAPSES:] < NO_LIMIT).any():
        fans = count_fans(graph, threads)
    else:
        fans = Fans(*np.zeros((2, graph.vertices), np.int64))
    load = Load(
        graph, graph.vertex_sizes(), fans.into, limits, chip.single_target, BitCosts.on(chip)
    )
    items = Items.single(graph.vertices) if constraints is None else constraints.items()
    return LimitJob(chip, load, fans, items)


def partition_within_limits(
    job: LimitJob,
    attempt: Attempt,
    attempts: int,
    memory: int,
    seed: int,
    team: ThreadTeam,
    monitor: Monitor,
) -> tuple[Int32, int, CombinedCapacity]:
    """Partition within all limits.

    attempt : function that partitions, given sizes and capacity, and the number of the attempt
    attempts : maximum number of partitions
    memory : bytes for repairs

    Returns (part, count, combined): part : ndarray[int32], shape (items,); the number of parts; and
    the sizes that the partition used.
    Raises `DoesNotFitError` with the exceeded limits if no partition was found.
    """
    limits = job.load.limits
    demands = job.demands()
    most = _most_sharing(demands, limits, job.cores)
    sharing = np.zeros(2)
    allowed = np.ones(job.cores, np.bool_)
    effort = RepairBudget.of(job.load)
    for number in range(attempts):
        combined = combine_capacity(demands, limits, sharing, job.cores)
        part, parts = attempt(combined, number)
        if combined.exact and not job.axon_limited:
            return part, parts, combined
        with monitor.stage("limits"):
            use = job.load.count(part[job.items.item], job.cores, team)
            over = excess(use.table, limits)
            following = np.minimum(_next_sharing(job, part, use, sharing), most)
            last = number == attempts - 1 or bool((following <= sharing).all())
            _note(monitor, use, over)
            if over.any() and (last or over.sum() <= WORTH * ONE_CORE * parts):
                use = repair(
                    job.load, job.items, part, job.cores, allowed, memory, seed, team, effort
                )
                over = excess(use.table, limits)
                _note(monitor, use, over)
                monitor.observer.on_partition(part)
            if not over.any():
                return *numbered(part, job.cores), combined
            if last or effort.left <= 0:
                break
        sharing = following
    ended = "; the search reached its work limit" if effort.stopped else ""
    raise DoesNotFitError(
        f"{lacking(job.chip, use, over)}{ended}; use a larger chip or larger cores"
    )


def lacking(chip: Chip, use: Use, over: Int64, reserved: Int64 | None = None) -> str:
    """Return a message with the core that exceeds its limits most after the search.

    reserved : see `Load`
    """
    worst = int(over.argmax())
    own = np.zeros(BITS + 1, np.int64) if reserved is None else reserved[:, worst]
    limits = limits_of(chip) - own
    used = use.table[:, worst] - own
    above = used - limits
    by_limit = [
        f"{used[r]} {LIMIT_NAMES[r]}, {above[r]} above the limit of {limits[r]}"
        for r in np.flatnonzero(above > 0)
    ]
    return (
        f"no mapping met all limits of chip {chip.name} (not proven impossible): "
        f"{np.count_nonzero(over)} of {chip.usable_count} cores remain above a limit, the worst "
        f"needs {' and '.join(by_limit)}"
    )


def _most_sharing(demands: tuple[Int64, ...], limits: Int64, cores: int) -> Float64:
    """Return the sharing that would fill the chip; 1 means that no sources are shared."""
    sums = np.array([demands[r].sum() for r in (AXONS_IN, AXONS_OUT)], np.float64)
    return np.minimum(1.0, ENOUGH * cores * limits[[AXONS_IN, AXONS_OUT]] / np.maximum(sums, 1))


def _next_sharing(job: LimitJob, part: Int32, use: Use, sharing: Float64) -> Float64:
    """Return the sharing that the parts above a limit need; unchanged where no part is above."""
    following = sharing.copy()
    neurons = np.bincount(part[job.items.item], minlength=job.cores)
    outgoing = sums_by_label(part[job.items.item], job.fans.out, job.cores)
    for r, ends in ((AXONS_IN, use.table[SYNAPSES]), (AXONS_OUT, outgoing)):
        limit = int(job.load.limits[r])
        above = np.flatnonzero(use.table[r] > limit)
        if not above.size:
            continue
        fan = np.minimum(ends[above] / neurons[above], 0.99 * limit)
        fitting = _fitting(fan, ends[above] / fan, use.table[r, above], limit) * fan
        asked = HOPE * float(np.quantile(np.minimum(limit / fitting, 1.0), TYPICAL))
        following[r - AXONS_IN] = max(asked, LEAST_STEP * sharing[r - AXONS_IN])
    return following


def _fitting(fan: Float64, vertices: Float64, axons: Int64, limit: int) -> Float64:
    """Return the number of vertices with which each part would just meet an exceeded limit.

    fan : mean synapses per vertex of each part, below the limit
    vertices, axons : present numbers of each part
    """
    low, high = fan * 1.0, fan * np.maximum(vertices, 1.0) * 1e3
    for _ in range(80):  # axons of the model increase with the number of sources
        middle = (low + high) / 2
        few = middle * -np.expm1(vertices * np.log1p(-fan / middle * (1 - 1e-12))) < axons
        low, high = np.where(few, middle, low), np.where(few, high, middle)
    sources = np.maximum(high, limit * (1 + 1e-9))
    return np.asarray(np.log1p(-limit / sources) / np.log1p(-fan / sources), np.float64)


def _note(monitor: Monitor, use: Use, over: Int64) -> None:
    most = zip(use.table[:BITS].max(axis=1, initial=0), LIMIT_NAMES, strict=False)
    largest = ", ".join(f"{count:,} {name}" for count, name in most)
    monitor.note(f"{np.count_nonzero(over):,} cores above a limit; largest: {largest}")
