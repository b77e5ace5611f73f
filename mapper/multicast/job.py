"""Steps 2 to 5 with the objective multicast, for networks whose nets fit the memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mapper.checkpoint import Arrays, Steps
from mapper.mapping.pairs import Mesh
from mapper.monitor import Monitor
from mapper.multicast.bisection import Effort
from mapper.multicast.hypergraph import Hypergraph, connectivity
from mapper.multicast.partition import PartitionEffort, partition_hypergraph
from mapper.multicast.refine import TreeEffort, refine_by_trees
from mapper.multicast.refinement import Search
from mapper.partition.balance import balance, within_limits
from mapper.settings import Settings
from mapper.team import Team
from storage.graph import Graph


def partition_nets(
    nets: Hypergraph,
    graph: Graph,
    wanted: int,
    cores: int,
    capacity: int,
    settings: Settings,
    memory: int,
    steps: Steps,
    monitor: Monitor,
    team: Team,
) -> tuple[NDArray[np.int32], int]:
    """Parts within the capacity, of little connectivity; returns (part, count).

    wanted : parts to make; cores : that the chip has; memory : bytes of the table of gains
    Raises `DoesNotFitError` if no way was found to get all parts within the capacity.
    """
    monitor.level(nets.vertices, nets.pins.size)
    repeats = max(1, settings.bisection_repeats // 2)
    effort = PartitionEffort(
        Effort(settings.bisection_repeats, 3, 100, repeats),
        Search(settings.refinement_passes, 25, 150, memory=memory),
        settings.cycles,
        settings.recuts,
    )

    def work() -> Arrays:
        part = partition_hypergraph(nets, wanted, capacity, effort, settings.seed_of(2), team)
        load = np.bincount(part, weights=nets.sizes, minlength=cores).astype(np.int64)
        if load.max() > capacity:
            balance(graph, nets.sizes, part, load, capacity, settings.threads)
            part, _ = within_limits(
                graph, nets.sizes, part, load, capacity, cores, settings.threads
            )
        return {"part": np.unique(part, return_inverse=True)[1].astype(np.int32)}

    with monitor.stage("partition"):
        part = steps.once("nets", work)["part"]
        parts = int(part.max()) + 1
        monitor.note(f"{parts:,} parts, connectivity {connectivity(nets, part, parts):,}")
    return part, parts


def refine_mapping(
    nets: Hypergraph,
    core: NDArray[np.int32],
    mesh: Mesh,
    settings: Settings,
    steps: Steps,
    monitor: Monitor,
) -> NDArray[np.int32]:
    """The core of every vertex, with fewer tree hops; no core holds more than it may."""
    for index in range(settings.tree_cycles):

        def work(core: NDArray[np.int32] = core, index: int = index) -> Arrays:
            effort = TreeEffort(settings.tree_proposals)
            found, before, after = refine_by_trees(
                nets, core, mesh, effort, settings.seed_of(20 + index)
            )
            monitor.note(f"cycle {index + 1}: tree hops {before:,} to {after:,}")
            return {"core": found}

        core = steps.once(f"trees {index}", work)["core"]
    return core
