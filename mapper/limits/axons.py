"""Partitions within every limit of a core: how many synapses fit a core's axons, found by trial.

The first partition looks at the limits that add up. If it leaves cores above a limit on axons,
their axons and synapses tell how much vertices share sources, and the next partition has parts
so much smaller. How axons grow with the vertices of a part is read off a model: m vertices that
draw f sources each from the same n have n (1 - (1 - f/n)^m) of them; n is what explains the part as
it is. Once little is left to be repaired, exchanges of vertices do so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.limits import LIMITS
from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError
from mapper.limits.combined import ENOUGH, CombinedCapacity, combine_capacity
from mapper.limits.constraints import Constraints
from mapper.limits.enforce import Effort, Items, Load, most_used, repair
from mapper.limits.use import (
    AXONS_IN,
    AXONS_OUT,
    NO_LIMIT,
    ONE_CORE,
    SYNAPSES,
    Fans,
    Use,
    count_fans,
    excess,
    limits_of,
    weight_of_excess,
)
from mapper.runtime.monitor import Monitor
from mapper.runtime.threads import ThreadTeam
from storage.graph import Graph

ATTEMPTS = 7
WORTH = 0.08  # of a core that parts may be above their limits, on average, for a repair to begin
LEAST_STEP = 1.06  # from one sharing to the next
HOPE = 0.96  # of the sharing that the model asks for: exchanges do the rest
TYPICAL = 0.7  # quantile, over the parts above a limit, of the sharing that they ask for

Attempt = Callable[[CombinedCapacity, int], tuple[NDArray[np.int32], int]]


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be kept within the limits of which chip.

    load, fans : of the single neurons; items : what moves as one
    """

    chip: Chip
    load: Load
    fans: Fans
    items: Items

    @property
    def cores(self) -> int:
        return self.chip.usable_count

    def demands(self) -> tuple[NDArray[np.int64], ...]:
        """What each item needs of each limit."""
        into = self.items.total(self.fans.into)
        return self.items.total(self.load.sizes), into, into, self.items.total(self.fans.out)

    @property
    def axon_limited(self) -> bool:
        """Whether a core could be above a limit on axons, whatever it holds."""
        if (self.load.limits[[AXONS_IN, AXONS_OUT]] == NO_LIMIT).all():
            return False
        most_in = np.count_nonzero(self.fans.out)
        if self.load.copies:
            most_out = int(np.clip(self.fans.out, 1, self.cores).sum())
        else:
            most_out = int(np.minimum(self.fans.out, self.cores - 1).sum())
        return bool(most_in > self.load.limits[AXONS_IN] or most_out > self.load.limits[AXONS_OUT])


def make_job(graph: Graph, chip: Chip, threads: int, constraints: Constraints | None = None) -> Job:
    """The job for a network; looks at its connections only if the chip has limits on them."""
    limits = limits_of(chip)
    if (limits[SYNAPSES:] < NO_LIMIT).any():
        fans = count_fans(graph, threads)
    else:
        fans = Fans(*np.zeros((2, graph.vertices), np.int64))
    load = Load(graph, graph.vertex_sizes(), fans.into, limits, chip.single_target)
    items = Items.single(graph.vertices) if constraints is None else constraints.items()
    return Job(chip, load, fans, items)


def partition_within_limits(
    job: Job,
    attempt: Attempt,
    attempts: int,
    memory: int,
    seed: int,
    team: ThreadTeam,
    monitor: Monitor,
) -> tuple[NDArray[np.int32], int, CombinedCapacity]:
    """Parts within all limits.

    attempt : partitions for the sizes and the capacity that it is given, and a number
    attempts : most partitions to make; memory : bytes for repairs

    Returns (part, count, combined): part : ndarray[int32], shape (items,), the number of parts, and
    the sizes that they were made with.
    Raises `DoesNotFitError` if no way was found; it says which limit lacks how much.
    """
    limits, weight = job.load.limits, weight_of_excess(job.load.limits)
    demands = job.demands()
    most = _most_sharing(demands, limits, job.cores)
    sharing = np.zeros(2)
    allowed = np.ones(job.cores, np.bool_)
    effort = Effort.of(job.load)
    for number in range(attempts):
        combined = combine_capacity(demands, limits, sharing, job.cores)
        part, parts = attempt(combined, number)
        if combined.exact and not job.axon_limited:
            return part, parts, combined
        with monitor.stage("limits"):
            use = job.load.count(part[job.items.item], job.cores, team)
            over = excess(use.table, limits, weight)
            following = np.minimum(_next_sharing(job, part, use, sharing), most)
            last = number == attempts - 1 or bool((following <= sharing).all())
            _note(monitor, use, over)
            if over.any() and (last or over.sum() <= WORTH * ONE_CORE * parts):
                use = repair(
                    job.load, job.items, part, job.cores, allowed, memory, seed, team, effort
                )
                over = excess(use.table, limits, weight)
                _note(monitor, use, over)
                monitor.observer.on_partition(part)
            if not over.any():
                used = np.bincount(part, minlength=job.cores) > 0
                return (np.cumsum(used) - 1)[part].astype(np.int32), int(used.sum()), combined
            if last or effort.left <= 0:
                break
        sharing = following
    ended = "; the search ended at its bound of work" if effort.stopped else ""
    raise DoesNotFitError(
        f"{lacking(job.chip, use, over)}{ended}; take a larger chip or larger cores"
    )


def lacking(chip: Chip, use: Use, over: NDArray[np.int64]) -> str:
    """Which core is above which limit by how much after all that was tried."""
    limits = limits_of(chip)
    worst = int(over.argmax())
    above = use.table[:, worst] - limits
    by_limit = [
        f"{use.table[r, worst]} {LIMITS[r]}, {above[r]} above the limit of {limits[r]}"
        for r in np.flatnonzero(above > 0)
    ]
    return (
        f"no mapping met all limits of chip {chip.name} (not proven impossible): "
        f"{np.count_nonzero(over)} of {chip.usable_count} cores remain above a limit, the worst "
        f"needs {' and '.join(by_limit)}"
    )


def _most_sharing(
    demands: tuple[NDArray[np.int64], ...], limits: NDArray[np.int64], cores: int
) -> NDArray[np.float64]:
    """The sharing that would fill the chip; 1 needs no sharing of sources at all."""
    sums = np.array([demands[r].sum() for r in (AXONS_IN, AXONS_OUT)], np.float64)
    return np.minimum(1.0, ENOUGH * cores * limits[AXONS_IN:] / np.maximum(sums, 1))


def _next_sharing(
    job: Job, part: NDArray[np.int32], use: Use, sharing: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What the parts above a limit ask for; as before where no part is."""
    following = sharing.copy()
    neurons = np.bincount(part[job.items.item], minlength=job.cores)
    outgoing = np.zeros(job.cores, np.int64)
    np.add.at(outgoing, part[job.items.item], job.fans.out)
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


def _fitting(
    fan: NDArray[np.float64],
    vertices: NDArray[np.float64],
    axons: NDArray[np.int64],
    limit: int,
) -> NDArray[np.float64]:
    """Vertices with which parts would be just within a limit that they are above now.

    fan : synapses of a vertex of each part, below the limit; vertices, axons : of each part
    """
    low, high = fan * 1.0, fan * np.maximum(vertices, 1.0) * 1e3
    for _ in range(80):  # the axons of the model grow with the sources to draw from
        middle = (low + high) / 2
        few = middle * -np.expm1(vertices * np.log1p(-fan / middle * (1 - 1e-12))) < axons
        low, high = np.where(few, middle, low), np.where(few, high, middle)
    sources = np.maximum(high, limit * (1 + 1e-9))
    return np.asarray(np.log1p(-limit / sources) / np.log1p(-fan / sources), np.float64)


def _note(monitor: Monitor, use: Use, over: NDArray[np.int64]) -> None:
    largest = ", ".join(f"{count:,} {name}" for name, count in most_used(use).items())
    monitor.note(f"{np.count_nonzero(over):,} cores above a limit; largest: {largest}")
