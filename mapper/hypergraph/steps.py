"""Steps of a run that use nets, with their checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mapper.graph.by_label import numbered
from mapper.graph.csr import Subgraph
from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hypergraph.bisection import BisectionEffort
from mapper.hypergraph.expected_reach import NetSample, refine_by_reach
from mapper.hypergraph.fm import FmSearch
from mapper.hypergraph.hypergraph import Hypergraph, connectivity
from mapper.hypergraph.net_rows import NetReader, net_traffic, read_sample
from mapper.hypergraph.partition import PartitionEffort, partition_hypergraph
from mapper.hypergraph.streamed import refine_streamed, streamed_traffic
from mapper.hypergraph.tree_refinement import TreeEffort, packet_effort, refine_by_trees
from mapper.limits.domains import Domains
from mapper.monitoring.callbacks import OnMapping
from mapper.monitoring.context import Context
from mapper.partitioning.rebalance import balance, enforce_capacity
from mapper.partitioning.streamed import parts_wanted, run_passes
from mapper.resume.checkpoint import Arrays
from storage.arrays import Int32, Int64
from storage.graph import Graph
from storage.store.network import NetworkFile

LARGE = 200_000  # pins above which partitions update late, see `new_queue`, and bisect less often
BRIEF_TRIES = 2  # starts of each bisection of a brief partition
BRIEF_BUDGET = 10_000_000  # pins that refinement of a brief partition visits per level
WORTH_ANOTHER = 0.003  # share of the tree hops that two V-cycles must save for another to follow


@dataclass(frozen=True, slots=True)
class NetTask:
    """Nets, and the parts to divide their vertices into.

    graph : the same network as a graph
    capacity : capacity of a core
    cores : number of cores
    strict : parts above the capacity are an error; otherwise they are repaired later
    parts : number of parts; 0 for as few as leave some slack
    """

    nets: Hypergraph
    graph: Graph
    capacity: int
    cores: int
    strict: bool = True
    parts: int = 0


def partition_nets(task: NetTask, context: Context) -> tuple[Int32, int]:
    """Partition within the capacity, minimising connectivity; return (part, count).

    Raises `DoesNotFitError` if the parts cannot be brought within the capacity.
    """
    settings, _, steps, monitor, team = context
    nets, capacity, cores = task.nets, task.capacity, task.cores
    wanted = task.parts or parts_wanted(int(nets.sizes.sum()), capacity, cores)
    monitor.level(nets.vertices, nets.pins.size)
    effort = _partition_effort(nets.pins.size, context)

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


def _partition_effort(pins: int, context: Context) -> PartitionEffort:
    settings, plan = context.settings, context.plan
    late, tries, budget = pins > LARGE, settings.bisection_repeats, settings.net_budget
    if plan.brief:
        tries, budget = min(tries, BRIEF_TRIES), min(budget, BRIEF_BUDGET)
    half = max(1, tries // 2)
    bisection = (
        BisectionEffort(half, 3, 100, 1, True) if late else BisectionEffort(tries, 3, 100, half)
    )
    search = FmSearch(settings.refinement_passes, 25, 150, budget, plan.gathered, late)
    if plan.brief:
        return PartitionEffort(bisection, search, v_cycles=0, rebisections=0)
    return PartitionEffort(bisection, search, settings.cycles, settings.recuts)


def refine_streamed_nets(
    network: NetworkFile,
    rows: Rows,
    part: Int32,
    parts: int,
    capacity: int,
    scratch: Path,
    context: Context,
) -> tuple[Int32, Subgraph]:
    """Refine parts by connectivity with nets on disk; return parts and their traffic."""
    settings, plan, _, monitor, team = context
    nets = NetReader(network)
    capacities = np.full(parts, capacity, np.int64)
    with monitor.stage("net refinement"):
        monitor.expect(settings.block_passes * rows.entries)

        def work(part: Int32, index: int) -> int:
            moves, cost = refine_streamed(
                rows, nets, part, capacities, settings.seed_of(7), index, team, monitor.advance
            )
            monitor.note(f"pass {index + 1}: {moves:,} moves, connectivity was {cost:,}")
            return moves

        part = run_passes("nets ", part, settings.block_passes, work, context)
        monitor.observer.on_partition(part)
    with monitor.stage("groups"):
        groups = streamed_traffic(rows, nets, part, parts, plan.grouped, scratch, team)
    return part, groups


def read_net_sample(network: NetworkFile, sizes: Int64, context: Context) -> NetSample:
    """Read the sample of nets that the plan allows, within the current stage."""
    settings, plan, _, monitor, team = context
    monitor.expect(network.meta.synapses)
    return NetSample(
        *read_sample(network, sizes, plan.net_share, settings.seed_of(7), team, monitor.advance)
    )


def refine_parts(
    sample: NetSample, part: Int32, parts: int, capacity: int, context: Context
) -> tuple[Int32, Subgraph]:
    """Refine parts with a sample of the nets; return parts and their traffic by these nets."""
    settings, _, steps, monitor, _ = context

    def work() -> Arrays:
        capacities = np.full(parts, capacity, np.int64)
        found, before, after = refine_by_reach(
            sample, part, capacities, settings.seed_of(8), monitor.stop
        )
        monitor.note(
            f"{sample.nets.net_count:,} nets sampled; connectivity of "
            f"{sample.checks.net_count:,} others {before:,} to {after:,}"
        )
        return {"part": found}

    part, parts = numbered(steps.run_once("nets", work)["part"], parts)
    monitor.observer.on_partition(part)
    return part, net_traffic(sample.nets, part, parts)


def refine_places(
    sample: NetSample, core: Int32, places: Int64, capacities: Int64, context: Context
) -> Int32:
    """Return the core of every vertex, so that packets of the sample reach fewer places.

    places : shape (cores,), place of each core, such as its tile
    capacities : shape (cores,), 0 for cores that must not be used

    Vertices move between all cores of the places in use. Returns `core` if no two cores share a
    place.
    """
    settings, _, steps, monitor, _ = context
    used = np.flatnonzero(np.isin(places, places[core]) & (capacities > 0))
    place = np.unique(places[used], return_inverse=True)[1].astype(np.int32)
    if place.max() + 1 == used.size:
        return core
    number = np.zeros(capacities.size, np.int32)
    number[used] = np.arange(used.size)

    def work() -> Arrays:
        found, before, after = refine_by_reach(
            sample, number[core], capacities[used], settings.seed_of(20), monitor.stop, place
        )
        monitor.note(f"cost of {sample.checks.net_count:,} nets {before:,} to {after:,}")
        return {"core": used[found].astype(np.int32)}

    return steps.run_once("places", work)["core"]


def refine_trees(
    nets: Hypergraph,
    core: Int32,
    mesh: CoreMesh,
    context: Context,
    on_better: OnMapping,
    domains: Domains | None = None,
) -> Int32:
    """Return the core of every vertex, with fewer packet hops; no core exceeds its capacity.

    on_better : called with the mapping after each V-cycle
    domains : of the vertices

    Ends early when two consecutive V-cycles together save less than `WORTH_ANOTHER`.
    """
    settings, plan, steps, monitor, _ = context
    effort = TreeEffort(settings.tree_proposals)
    name = "tree hops"
    if settings.objective == "core":
        effort, name = packet_effort(settings.tree_proposals), "hops"
    effort = effort.share(plan.net_work)
    earlier = 0  # hops before the previous cycle
    for index in range(settings.net_cycles):

        def work(core: Int32 = core, index: int = index) -> Arrays:
            found, before, after = refine_by_trees(
                nets, core, mesh, effort, settings.seed_of(20 + index), monitor.stop, domains
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
            break  # a single cycle may save little, and the next much
        earlier = before
    return core
