"""The steps of a run by nets, with what is kept of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mapper.graph.csr import Subgraph
from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import Mesh
from mapper.hypergraph.bisection import Effort
from mapper.hypergraph.fm import Search
from mapper.hypergraph.hypergraph import Hypergraph, connectivity
from mapper.hypergraph.net_rows import NetReader
from mapper.hypergraph.partition import PartitionEffort, partition_hypergraph
from mapper.hypergraph.streamed import refine_streamed, streamed_traffic
from mapper.hypergraph.tree_refinement import TreeEffort, packet_effort, refine_by_trees
from mapper.partitioning.rebalance import balance, enforce_capacity
from mapper.partitioning.streamed import SETTLED, numbered, parts_wanted
from mapper.runtime.callbacks import OnMapping
from mapper.runtime.checkpoint import Arrays
from mapper.runtime.context import Context
from storage.graph import Graph
from storage.store.network import NetworkFile

LARGE = 200_000  # pins beyond which partitions update late, see `new_queue`, and bisect less often
WORTH_ANOTHER = 0.003  # share of the tree hops that two V-cycles save, if another is to follow


@dataclass(frozen=True, slots=True)
class NetTask:
    """Nets and what their vertices are to be cut into.

    graph : the same network; capacity : of a core; cores : that the chip has
    strict : parts above the capacity are an error; else they are repaired elsewhere
    """

    nets: Hypergraph
    graph: Graph
    capacity: int
    cores: int
    strict: bool = True


def partition_nets(task: NetTask, context: Context) -> tuple[NDArray[np.int32], int]:
    """Parts within the capacity, of little connectivity; returns (part, count).

    Raises `DoesNotFitError` if no way was found to get all parts within the capacity.
    """
    settings, plan, steps, monitor, team = context
    nets, capacity, cores = task.nets, task.capacity, task.cores
    wanted = parts_wanted(int(nets.sizes.sum()), capacity, cores)
    monitor.level(nets.vertices, nets.pins.size)
    late, tries = nets.pins.size > LARGE, settings.bisection_repeats
    half = max(1, tries // 2)
    bisection = Effort(half, 3, 100, 1, True) if late else Effort(tries, 3, 100, half)
    effort = PartitionEffort(
        bisection,
        Search(settings.refinement_passes, 25, 150, settings.net_budget, plan.gathered, late),
        settings.cycles,
        settings.recuts,
    )

    def work() -> Arrays:
        part = partition_hypergraph(nets, wanted, capacity, effort, settings.seed_of(2), team)
        block_weights = np.bincount(part, weights=nets.sizes, minlength=cores).astype(np.int64)
        if block_weights.max() > capacity:
            rebalance = enforce_capacity if task.strict else balance
            rebalance(task.graph, nets.sizes, part, block_weights, capacity, settings.threads)
        return {"part": numbered(part, cores)[0]}

    with monitor.stage("partition"):
        part = steps.run_once("nets", work)["part"]
        parts = int(part.max()) + 1
        cost = connectivity(nets, part, parts)
        monitor.note(f"{parts:,} parts, connectivity {cost:,}")
        monitor.observer.on_partition(part)
        monitor.observer.on_nets(connectivity=cost)
    return part, parts


def refine_streamed_nets(
    network: NetworkFile,
    rows: Rows,
    part: NDArray[np.int32],
    parts: int,
    capacity: int,
    scratch: Path,
    context: Context,
) -> tuple[NDArray[np.int32], Subgraph]:
    """Where the nets do not fit the memory: parts refined by connectivity, and their traffic."""
    settings, plan, steps, monitor, team = context
    nets = NetReader(network)
    capacities = np.full(parts, capacity, np.int64)
    with monitor.stage("refine by nets"):
        monitor.expect(settings.block_passes * rows.entries)
        for index in range(settings.block_passes):

            def once(part: NDArray[np.int32] = part, index: int = index) -> Arrays:
                found = part.copy()
                moves, cost = refine_streamed(
                    rows, nets, found, capacities, settings.seed_of(7), index, team, monitor.advance
                )
                monitor.note(f"pass {index + 1}: {moves:,} moves, connectivity was {cost:,}")
                return {"part": found, "moves": np.array([moves], np.int64)}

            arrays = steps.run_once(f"nets {index}", once)
            part = arrays["part"]
            if arrays["moves"][0] * SETTLED < rows.vertices:
                break
        monitor.observer.on_partition(part)
    with monitor.stage("groups"):
        groups = streamed_traffic(rows, nets, part, parts, plan.grouped, scratch, team)
    return part, groups


def refine_trees(
    nets: Hypergraph,
    core: NDArray[np.int32],
    mesh: Mesh,
    context: Context,
    on_better: OnMapping,
) -> NDArray[np.int32]:
    """The core of every vertex, with fewer hops of packets; no core holds more than it may.

    on_better : gets it after each V-cycle

    It ends early when two V-cycles in a row save less than `WORTH_ANOTHER` together.
    """
    settings, _, steps, monitor, _ = context
    effort = TreeEffort(settings.tree_proposals)
    name = "tree hops"
    if settings.objective == "core":
        effort, name = packet_effort(settings.tree_proposals), "hops"
    earlier = 0  # hops before the cycle before
    for index in range(settings.net_cycles):

        def work(core: NDArray[np.int32] = core, index: int = index) -> Arrays:
            found, before, after = refine_by_trees(
                nets, core, mesh, effort, settings.seed_of(20 + index), monitor.stop
            )
            monitor.note(f"cycle {index + 1}: {name} {before:,} to {after:,}")
            return {"core": found, "hops": np.array([before, after], np.int64)}

        arrays = steps.run_once(f"trees {index}", work)
        core = arrays["core"]
        on_better(core)
        before, after = arrays["hops"].tolist()
        if index == 0:
            monitor.observer.on_nets(hops_total=before)
        if index > 0 and 1 - after / max(1, earlier) < WORTH_ANOTHER:
            break  # one alone may save little, and the next much
        earlier = before
    return core
