"""Rows of connections, in memory or streamed: partitioning, then moves and exchanges.

If memory suffices for levels and one capacity represents all limits, the coarsest level is
partitioned and placed, and the rest is refinement of hops while uncoarsening.
"""

from __future__ import annotations

import numpy as np

from chipsim.chip.model import Chip
from mapper.graph.csr import Subgraph
from mapper.graph.groups import group_traffic
from mapper.graph.rows import Rows, weight_shift
from mapper.graph.sparsification import thin
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hop_refinement.multilevel import Levels
from mapper.hop_refinement.refine import Mapped
from mapper.hop_refinement.repair_limits import refine_and_repair
from mapper.hypergraph.expected_reach import NetSample
from mapper.hypergraph.steps import (
    read_net_sample,
    refine_parts,
    refine_places,
    refine_streamed_nets,
)
from mapper.limits.combined import CombinedCapacity, Resized
from mapper.methods.cut import Parts, parts_of_levels, read_rows, refine_cut, refine_within
from mapper.methods.nets import costs_of, refine_by_nets, refine_by_time_streamed
from mapper.methods.steps import MappingRun, Method
from mapper.monitoring.callbacks import OnMapping, ignore
from mapper.partitioning.streamed import Task, balanced, partition_streamed
from mapper.planning.plan import REFINED_BY
from mapper.resume.checkpoint import Checkpoint
from mapper.scoring.stage_costs import StageCosts
from storage.arrays import Int32, Int64, Mask


class Streamed(Method):
    """The method of all presets except `classic`, unless nets are held in memory."""

    def __init__(self, run: MappingRun) -> None:
        self._run = run
        meta = run.network.meta
        shift = weight_shift(meta.total_weight, meta.synapses)
        with run.monitor.stage("read"):
            seen = thin(run.graph, run.settings.degree, shift, run.team)
            rows = read_rows(seen, shift, run.context, run.scratch, run.workers)
        self._combined = run.combined
        self._sample: NetSample | None = None  # nets used to refine parts
        self._take(rows.with_sizes(run.combined.sizes))
        faithful = shift == 0 and seen is run.graph
        nets = costs_of(run.settings.objective)
        self.costs = StageCosts(
            run.monitor, run.team, self.rows, faithful=faithful, nets=nets,
            detoured=run.chip.detoured,
        )  # fmt: skip

    def _take(self, rows: Rows) -> None:
        """Set the rows, without coarsening levels."""
        self.rows, self._levels = rows, Levels([rows], [])

    @property
    def _by_nets(self) -> bool:
        """Return whether nets refine parts: not with axon limits or constraints."""
        run = self._run
        return (
            run.settings.objective == "multicast"
            and not run.plan.levels
            and run.single_capacity
            and run.constraints is None
        )

    def partition(self) -> tuple[Int32, Subgraph]:
        run = self._run
        if run.plan.levels and run.single_capacity:
            found = parts_of_levels(self._task(run.combined), run.context, self.costs.on_partition)
            self._levels, part, parts = found.levels, found.part, found.count
        else:
            part, parts, self._combined = run.partition_within_limits(self._attempt)
        if run.settings.objective == "cut" and run.single_capacity:
            found = Parts(self._levels, part, parts)
            part, parts = refine_cut(self._task(run.combined), found, run.context)
            self.costs.on_partition(part)
            self._levels = Levels([self.rows], [])
        if run.plan.net_share and run.single_capacity and run.constraints is None:
            with run.monitor.stage("net refinement"):
                self._sample = read_net_sample(run.network, run.combined.sizes, run.context)
                return refine_parts(self._sample, part, parts, run.combined.capacity, run.context)
        if self._by_nets:
            return refine_streamed_nets(
                run.network, self.rows, part, parts, run.combined.capacity, run.scratch.path,
                run.context,
            )  # fmt: skip
        with run.monitor.stage("groups"):
            rows = self._levels.coarsest
            run.monitor.expect(rows.entries)
            return part, group_traffic(
                rows, part, parts, run.plan.summed, run.scratch.path, run.team, run.monitor.advance
            )

    def placed(self, part: Int32, groups: Subgraph, x: Int32, y: Int32) -> None:
        self.costs.on_placement(part, x, y, self._levels.coarsest)

    def refine(self, core: Int32) -> Int32:
        run = self._run
        if self._sample is not None and run.settings.objective == "multicast":
            with run.monitor.stage(REFINED_BY["multicast"]):
                capacities = np.where(run.usable(core), run.combined.capacity, 0).astype(np.int64)
                return refine_places(self._sample, core, _places(run.chip), capacities, run.context)
        if run.settings.objective == "cut" or self._by_nets:
            return core
        core = self._refined_by_hops(core)
        if run.plan.nets_after and run.settings.objective == "time" and not run.constraints:
            return refine_by_time_streamed(run, core)
        if run.plan.nets_after and run.settings.objective != "time":
            return refine_by_nets(run, None, core, self._combined)
        if run.settings.objective == "core":
            run.monitor.note(
                "hop refinement uses one packet per synapse: the network has more synapses than a "
                "quarter of hop_budget, or its nets exceed --memory or net_time"
            )
        if run.settings.objective == "time":
            run.monitor.note(
                "neurons are spread over the cores, hop refinement uses one packet per synapse: "
                "neurons are kept together, or a few targets of each exceed --memory or net_time"
            )
        return core

    def _refined_by_hops(self, core: Int32) -> Int32:
        run = self._run
        with run.monitor.stage("hop refinement"):
            if run.single_capacity:
                mesh = run.mesh(core, run.combined)

                def on_better(core: Int32) -> None:
                    run.keep(lambda _: self._balanced(core))

                return self._refined(core, mesh, run.usable(core), on_better)
            return refine_and_repair(
                run.job, self._combined, self.rows, core, run.constraints, run.context
            )

    def unrefined(self, core: Int32) -> Int32:
        for cluster in reversed(self._levels.clusters):
            core = core[cluster]
        return self._balanced(core) if self._run.single_capacity else core

    def _balanced(self, core: Int32) -> Int32:
        run = self._run
        return balanced(self._task(run.combined), core, run.usable(core), run.team.threads)

    def _task(self, combined: CombinedCapacity) -> Task:
        run = self._run
        sized = Resized(run.graph, combined.sizes)
        return Task(
            sized, self.rows, combined.capacity, run.cores, not run.job.axon_limited, run.parts
        )

    def _attempt(self, combined: CombinedCapacity, steps: Checkpoint) -> tuple[Int32, int]:
        run = self._run
        self._take(self.rows.with_sizes(combined.sizes))
        task = self._task(combined)
        return partition_streamed(task, run.context._replace(steps=steps))

    def _refined(
        self, core: Int32, mesh: CoreMesh, usable: Mask, on_better: OnMapping = ignore
    ) -> Int32:
        """Return the core of every item, within the capacity.

        usable : mask of the cores of the mesh
        on_better : see `refine_mapping`
        """
        run = self._run
        mapped = Mapped(self._levels, core, mesh, run.plan.levels)
        return refine_within(self._task(run.combined), mapped, usable, run.context, on_better)


def _places(chip: Chip) -> Int64:
    """Return the position index of every core: cores at distance 0 share one."""
    row, column = np.divmod(np.arange(chip.cores), chip.width)
    x, y = chip.axes.x.astype(np.int64), chip.axes.y.astype(np.int64)
    return y[row] * (int(x.max()) + 1) + x[column]
