"""The multilevel method as published: partition, then place; vertices do not move afterwards."""

from __future__ import annotations

from mapper.graph.contraction import contract
from mapper.graph.csr import Subgraph
from mapper.graph.rows import StreamedRows, weight_shift
from mapper.limits.combined import CombinedCapacity, Resized
from mapper.methods.steps import MappingRun, Method
from mapper.partitioning.bisection import whole
from mapper.partitioning.classic import partition_classic
from mapper.resume.checkpoint import Checkpoint
from mapper.scoring.stage_costs import StageCosts
from storage.arrays import Int32


class Classic(Method):
    """Pairwise coarsening, bisection and refinement; every level is on disk."""

    def __init__(self, run: MappingRun) -> None:
        self._run = run
        meta = run.network.meta
        shift = weight_shift(meta.total_weight, meta.synapses)
        self.rows = rows = StreamedRows(run.graph, run.combined.sizes, shift)
        self.costs = StageCosts(
            run.monitor, run.team, rows, faithful=shift == 0, axes=run.chip.hop_axes,
            detoured=run.chip.detoured,
        )  # fmt: skip

    def partition(self) -> tuple[Int32, Subgraph]:
        run = self._run

        def attempt(combined: CombinedCapacity, steps: Checkpoint) -> tuple[Int32, int]:
            sized = Resized(run.graph, combined.sizes)
            return partition_classic(
                sized, combined.capacity, run.cores, run.settings, steps, run.scratch, run.monitor
            )

        part, parts, _ = run.partition_within_limits(attempt)
        with run.monitor.stage("groups"):
            threads = run.team.threads
            contracted = contract(
                run.graph, part, parts, run.scratch, "groups", run.sorting, threads
            )
            return part, whole(contracted, threads)

    def placed(self, part: Int32, groups: Subgraph, x: Int32, y: Int32) -> None:
        self.costs.on_placed_groups(groups, x, y)

    def refine(self, core: Int32) -> Int32:
        return core
