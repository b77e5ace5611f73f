"""The plan of a run: way of partition, contents of memory, and bytes of each stage."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from mapper.errors import DoesNotFitError
from mapper.runtime.sample import Sample

DISK_MARGIN = 1.1  # times the planned disk space must be free

REFINED_BY = {
    "multicast": "refine by trees", "core": "refine by packets", "time": "refine by time",
}  # fmt: skip
"""The stage in which neurons move by nets, by objective."""

STAGES = (
    "check", "read", "coarsen", "initial partition", "refine blocks", "split blocks", "partition",
    "uncoarsen and refine", "refine by nets", "limits", "groups", "placement", "refine by hops",
    *REFINED_BY.values(), "score",
)  # fmt: skip
"""In the order of a run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes that each stage needs, and how the memory is shared out.

    budget : what `--memory` allows; stages : peak of each, by name
    scratch, sorting : bytes on disk, the latter only while something is sorted; see also
        `mapper.graph.disk`, which estimates the former from a few blocks of the network
    rows : of scratch, the rows of the network
    scattered : neighbours in the network are anywhere in the order of ids
    nets_held : with hops of packets to cores or of trees, all nets are held in memory instead of
        the rows
    brief : the partition by nets has few starts and one way down and up
    nets_after : all nets are held in memory after the rows, to refine by trees or by packets to
        cores, or some targets of each, to refine by time
    net_work : share of the usual work that refinement by trees, packets or time takes
    net_share : share of the nets that streamed parts are refined by, 0 for none
    held : the whole network is held in memory instead of streamed from scratch
    sampled : connections between clusters that are kept; gathered : bytes for rows of blocks
    sampled_above : the same where clusters are clustered again, `mapper.partitioning.levels`
    contracted : bytes for the sort of connections between clusters then
    contractions : connections that are kept for each level in scratch, at most
    grouped : bytes for sums of the traffic between groups, and for limits
    summed : bytes for the former in the stage "groups"
    threads : those asked for, or as many as the memory has room for
    levels : the whole mapping is made on levels in memory
    cycles : V-cycles; chains : of them side by side
    sample : what the cut into blocks sees, about; None if there is no such cut
    """

    budget: int
    stages: dict[str, int]
    scratch: int
    sorting: int
    held: bool
    sampled: int
    gathered: int
    grouped: int
    threads: int
    levels: bool = False
    cycles: int = 0
    chains: int = 1
    nets_held: bool = False
    brief: bool = False
    nets_after: bool = False
    net_work: float = 1.0
    net_share: float = 0.0
    sample: Sample | None = None
    sampled_above: int = 0
    contracted: int = 0
    contractions: tuple[int, ...] = ()
    summed: int = 0
    rows: int = 0
    scattered: bool = False

    @property
    def memory(self) -> int:
        """The largest of all stages."""
        return max(self.stages.values())

    @property
    def strategy(self) -> str:
        """How the network is partitioned, and where it is kept meanwhile."""
        where = "connections in memory" if self.held else "connections streamed from disk"
        if self.nets_held:
            found = f"{'brief ' if self.brief else ''}partition by nets in memory"
        elif self.levels:
            found = "partition of coarsening levels in memory"
        else:
            found = f"partition by {where}"
        if self.net_share:
            found += f", refined by {self.net_share:.0%} of the nets"
        if self.net_work < 1 and (self.nets_held or self.nets_after):
            found += f"; refinement by nets with {self.net_work:.0%} of its usual work"
        return found

    def without_nets(self) -> Plan:
        """The plan without the nets that would be held after the rows."""
        stages = {
            name: need for name, need in self.stages.items() if name not in REFINED_BY.values()
        }
        return replace(self, nets_after=False, stages=stages)

    def on_workers(self) -> Plan:
        """The plan of a run whose workers make levels of clusters: nothing is sorted on disk."""
        return replace(self, sorting=0)

    @property
    def shortage(self) -> str:
        """A sentence about the stage that needs more memory than there is; empty if all fit."""
        stage = max(self.stages, key=lambda name: self.stages[name])
        need = self.stages[stage]
        if need <= self.budget:
            return ""
        return (
            f"the stage {stage!r} needs {megabytes(need)}, --memory is {megabytes(self.budget)} "
            f"({megabytes(need - self.budget)} short); give more memory"
        )

    def require(self, folder: Path | None = None) -> None:
        """Raise `DoesNotFitError` if the memory or the disk of `folder` has not enough room."""
        if self.shortage:
            raise DoesNotFitError(self.shortage)
        if folder is None:
            return
        need = int(DISK_MARGIN * self.scratch) + self.sorting
        free = shutil.disk_usage(folder).free
        if need > free:
            raise DoesNotFitError(
                f"{folder}: the run needs {megabytes(need)} of disk for scratch, "
                f"{megabytes(free)} are free; choose another place with -o"
            )


def megabytes(size: int) -> str:
    return f"{-(-size // (1 << 20)):,} MiB"
