"""The context of the steps of a run, and the interface of the methods that implement them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from chipsim.chip.model import Chip
from mapper.concurrency.interrupts import Keep
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError
from mapper.executors.worker_interface import Workers
from mapper.graph.csr import Subgraph
from mapper.graph.rows import Rows, StreamedRows, weight_shift
from mapper.hop_refinement.core_fill import FillWork, keep_least, spread_over_cores
from mapper.hop_refinement.mesh import CoreMesh
from mapper.limits.axons import ATTEMPTS, LimitJob, partition_within_limits
from mapper.limits.combined import CombinedCapacity
from mapper.limits.combined_constraints import Constraints
from mapper.limits.fill_bounds import most_used
from mapper.limits.pins import core_of_items
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from mapper.planning.memory import FILL
from mapper.planning.plan import Plan
from mapper.resume.checkpoint import Checkpoint
from mapper.scoring.measure import Measurements
from mapper.scoring.stage_costs import StageCosts
from mapper.settings import Settings
from storage.arrays import Int32, Mask
from storage.graph import Graph
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile

Attempt = Callable[[CombinedCapacity, Checkpoint], tuple[Int32, int]]


@dataclass(frozen=True, slots=True)
class MappingRun:
    """The state of a run.

    graph : the network with each item (neurons kept together) as one vertex
    combined : sizes of the items and capacity of a core, for the additive limits
    workers : scan the rows of the network if the plan streams them; None for the team
    first : core of every item, a mapping within all limits and constraints, if one is known
    wide : partition into more cores than can keep their least size, as with the preset classic:
        some become empty again
    """

    network: NetworkFile
    graph: Graph
    chip: Chip
    constraints: Constraints | None
    job: LimitJob
    combined: CombinedCapacity
    settings: Settings
    plan: Plan
    steps: Checkpoint
    scratch: Scratch
    monitor: Monitor
    team: ThreadTeam
    measurements: Measurements
    workers: Workers | None = None
    first: Int32 | None = None
    wide: bool = False

    @property
    def context(self) -> Context:
        """Return the context of a step."""
        return Context(self.settings, self.plan, self.steps, self.monitor, self.team)

    @property
    def cores(self) -> int:
        """Return the number of cores to use, at most."""
        most = self.settings.cores or self.chip.usable_count
        if self.job.bounds is None or self.wide:
            return most
        total = int(self.job.load.sizes.sum())
        return min(most, most_used(self.job.bounds, self.chip, total))

    @property
    def parts(self) -> int:
        """Return the number of parts if it is a goal; 0 for as few as leave some slack."""
        bounds = self.job.bounds
        return 0 if bounds is None else min(bounds.used, self.cores)

    @property
    def restricted(self) -> bool:
        """Return whether some neurons may not be on all cores, or not with all others."""
        found = self.constraints
        return bool(self.chip.core_limits) or (found is not None and found.restricts_cores)

    @property
    def searched(self) -> bool:
        """Return whether an exact search may find a mapping of a few items."""
        return self.restricted or self.job.bounds is not None

    @property
    def single_capacity(self) -> bool:
        """Return whether one capacity represents all limits, and neurons may be everywhere."""
        return self.combined.exact and not self.job.axon_limited and not self.restricted

    @property
    def sorting(self) -> int:
        """Return the bytes for sorts."""
        return self.settings.memory_bytes // 4

    @property
    def spare(self) -> int:
        """Return the bytes for repairs."""
        return self.plan.grouped or self.sorting

    def partition_within_limits(self, attempt: Attempt) -> tuple[Int32, int, CombinedCapacity]:
        """Partition within all limits, see `mapper.limits.axons`; attempts have separate steps."""

        def tried(combined: CombinedCapacity, number: int) -> tuple[Int32, int]:
            self.monitor.levels.clear()  # levels of the previous attempt
            combined = self.spread(combined)
            return attempt(
                combined, self.steps.nested(f"attempt {number}") if number else self.steps
            )

        return partition_within_limits(
            self.job, tried, ATTEMPTS, self.spare, self.settings.seed_of(9), self.team,
            self.monitor,
        )  # fmt: skip

    def spread(self, combined: CombinedCapacity) -> CombinedCapacity:
        """Reduce the capacity of parts: enough cores must have it, and each core gets a part.

        The latter if the number of cores is a goal.
        """
        if self.chip.core_limits:
            capacity = self._common_capacity(combined)
            combined = replace(combined, capacity=capacity)
        if not self.settings.cores and self.settings.objective != "time":
            return combined
        most = int(combined.sizes.max(initial=1))
        capacity = max(most, math.ceil(int(combined.sizes.sum()) / (self.cores * FILL)))
        return replace(combined, capacity=min(combined.capacity, capacity))

    def _common_capacity(self, combined: CombinedCapacity) -> int:
        """Return the largest capacity that enough cores have for all parts; else the mean."""
        own = np.sort(self.job.capacities(combined)[self.chip.usable])[::-1]
        size, largest = int(combined.sizes.sum()), int(combined.sizes.max(initial=1))
        for capacity in map(int, np.unique(own)[::-1]):
            count = min(self.cores, int(np.count_nonzero(own >= capacity)))
            if capacity >= largest and size <= count * max(1, int(capacity * FILL)):
                return capacity
        return max(largest, int(own[: self.cores].mean()))

    def places(self, parts: int) -> Chip:
        """Return the chip on which parts are placed: only its largest cores, if cores differ."""
        if not self.chip.core_limits:
            return self.chip
        own = self.job.capacities(self.combined)
        least = np.sort(own[self.chip.usable])[::-1][min(parts, self.chip.usable_count) - 1]
        unavailable = np.flatnonzero(~self.chip.usable | (own < least)).tolist()
        return replace(self.chip, unavailable=tuple(unavailable), host=None, core_limits=())

    def filled(
        self, core: Int32, rows: Rows | None = None, team: ThreadTeam | None = None
    ) -> Int32:
        """Return the core of every item, with the least size of neurons on cores in use.

        core : ndarray[int32], shape (items,), within all limits and constraints; cores of coarse
            vertices are not changed
        rows : of the items; None to read them
        team : replaces the team of the run
        Raises `DoesNotFitError` if no such mapping was found.
        """
        if self.job.bounds is None or core.size != self.graph.vertices:
            return core
        if rows is None:
            meta = self.network.meta
            shift = weight_shift(meta.total_weight, meta.synapses)
            rows = StreamedRows(self.graph, self.combined.sizes, shift)
        work = FillWork(self.spare, self.settings.seed_of(12), team or self.team)
        return keep_least(self.job, rows, core, self.constraints, work)

    def keep(self, make: Keep) -> None:
        """Keep a mapping for Ctrl-C; make : returns the core of every item, see `Stop.keep`.

        The first mapping replaces one that cannot be kept within the limits.
        """
        item, first = self.job.items.item, self.first

        def made(team: ThreadTeam) -> Int32:
            try:
                return self.filled(make(team), None, team)[item]
            except DoesNotFitError:
                if first is None:
                    raise
                return first[item]

        self.monitor.stop.keep(made)

    def place_items(
        self, cell: Int32, part: Int32, team: ThreadTeam | None = None, rows: Rows | None = None
    ) -> Int32:
        """Return the core of every item; `cell` is the core of every part.

        team : replaces the team of the run
        rows : of the items, so that unlike cores pass items to their neighbours
        """
        if self.single_capacity:
            return cell[part]
        restricts = self.constraints is not None and self.constraints.restricts_cores
        if self.chip.core_limits and rows is not None and not restricts:
            work = FillWork(self.spare, self.settings.seed_of(12), team or self.team)
            part = spread_over_cores(
                self.job, self.combined, rows, cell[part], self.settings.cores, work
            )
            cell = np.arange(self.chip.cores, dtype=np.int32)
        most = self.settings.cores if self.job.bounds is None else self.cores
        return core_of_items(
            cell, part, self.constraints, self.job, most, self.spare,
            self.settings.seed_of(9), team or self.team,
        )  # fmt: skip

    def usable(self, core: Int32) -> Mask:
        """Return the usable cores after placement: with a number of cores given, the used ones."""
        if not self.settings.cores:
            return self.chip.usable.ravel()
        return np.bincount(core, minlength=self.chip.cores) > 0

    def mesh(self, core: Int32, combined: CombinedCapacity) -> CoreMesh:
        """Return the mesh of the chip, with capacity on the cores in use only."""
        used = np.bincount(core, minlength=self.chip.cores) > 0
        capacities = np.where(used, self.job.capacities(combined), 0)
        least = self.job.least(combined)
        return CoreMesh.of(self.chip, capacities, None if least is None else used * least)


class Method(ABC):
    """Steps 2 to 5, and refinement after placement.

    costs : the observer of the monitor, which records the cost after each stage
    rows : of the items
    """

    costs: StageCosts
    rows: Rows

    @abstractmethod
    def partition(self) -> tuple[Int32, Subgraph]:
        """Return the part of every vertex, and the traffic between the parts (the groups).

        Vertices are the items of the run, or clusters of them that `refine` splits.
        Raises `DoesNotFitError` if a limit of the chip cannot be met.
        """

    def placed(self, part: Int32, groups: Subgraph, x: Int32, y: Int32) -> None:
        """Record the cost of the placed parts; `x` and `y` are their columns and rows."""
        self.costs.on_placement(part, x, y)

    @abstractmethod
    def refine(self, core: Int32) -> Int32:
        """Return the core of every item, given the core of every vertex.

        Keeps the best mapping so far for Ctrl-C: `MappingRun.keep`.
        """

    def unrefined(self, core: Int32) -> Int32:
        """Return the core of every item, given the core of every vertex, without refinement.

        Raises `DoesNotFitError` if a limit of the chip cannot be met.
        """
        return core
