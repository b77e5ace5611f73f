"""The plan of a run: partitioning strategy, contents of memory, and bytes per stage."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from mapper.errors import DoesNotFitError
from mapper.planning.sampling import Sample

DISK_MARGIN = 1.1  # free disk space must exceed the plan by this factor

REFINED_BY = {
    "multicast": "tree refinement", "core": "packet refinement", "time": "time refinement",
}  # fmt: skip
"""Stage in which neurons move by nets, by objective."""

STAGES = (
    "check", "read", "coarsen", "initial partition", "refine blocks", "split blocks", "partition",
    "uncoarsen and refine", "net refinement", "limits", "groups", "placement", "hop refinement",
    *REFINED_BY.values(), "score", "populations", "baselines",
)  # fmt: skip
"""Stages in the order of a run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes that each stage needs, and the division of the memory.

    budget : value of `--memory`; stages : peak bytes per stage, by name
    scratch, sorting : bytes on disk, the latter only during an external sort; see also
        `mapper.graph.disk`, which estimates the former from a sample of blocks
    rows : part of `scratch` for the rows of the network
    scattered : whether neighbours are anywhere in the order of ids
    nets_held : for hops of packets to cores or of trees: all nets are held in memory instead of the
        rows
    brief : the partition by nets has few starts and a single V-cycle
    nets_after : all nets are loaded after the rows for tree or packet refinement, or some targets
        of each for time refinement
    net_work : share of the usual effort of tree, packet or time refinement
    net_share : share of the nets used to refine streamed parts, 0 for none
    held : the whole network is held in memory instead of streamed from scratch
    sampled : number of kept connections between clusters; gathered : bytes for rows of blocks
    sampled_above : same for further levels of clusters, `mapper.partitioning.levels`
    contracted : bytes for sorting connections between clusters then
    contractions : upper bound of kept connections per level in scratch
    grouped : bytes for sums of the traffic between groups, and for limits
    summed : bytes for the former in the stage "groups"
    threads : requested threads, or fewer if the memory is too small
    levels : the whole mapping is computed on coarsening levels in memory
    cycles : number of V-cycles; chains : number of concurrent V-cycles
    sample : approximate sample of the initial partition; None if there is no such partition
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
        """Largest peak of all stages, in bytes."""
        return max(self.stages.values())

    @property
    def strategy(self) -> str:
        """Description of the partitioning strategy and of the storage of the network."""
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
            found += f"; net refinement with {self.net_work:.0%} of its usual work"
        return found

    def without_nets(self) -> Plan:
        """Return the plan without nets loaded after the rows."""
        stages = {
            name: need for name, need in self.stages.items() if name not in REFINED_BY.values()
        }
        return replace(self, nets_after=False, stages=stages)

    def beside(self, held: int) -> Plan:
        """Return the plan with further bytes of memory, held in every stage."""
        stages = {name: need + held for name, need in self.stages.items()}
        return replace(self, budget=self.budget + held, stages=stages)

    def on_workers(self) -> Plan:
        """Return the plan of a run whose workers build levels of clusters: no external sort."""
        return replace(self, sorting=0)

    @property
    def shortage(self) -> str:
        """Message about the stage that exceeds the memory; empty if all stages fit."""
        stage = max(self.stages, key=lambda name: self.stages[name])
        need = self.stages[stage]
        if need <= self.budget:
            return ""
        return (
            f"the stage {stage!r} needs {megabytes(need)}, --memory is {megabytes(self.budget)} "
            f"({megabytes(need - self.budget)} short); give more memory"
        )

    def require(self, folder: Path | None = None) -> None:
        """Raise `DoesNotFitError` if the memory or the disk of `folder` is too small."""
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
