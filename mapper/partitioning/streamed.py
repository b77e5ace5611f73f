"""Steps 2 to 4 of the streaming presets: blocks of cores first, then cores.

A semi-external form of the deep multilevel method, with O(vertices) memory and fixed buffers:

1. Clusters by label propagation on the network itself, a few passes.
2. A sample of the connections between clusters, in memory, after further levels of clusters if
memory does not hold enough of it; deep multilevel partitioning of the sample into blocks of about
8,192 neurons. Some clusters are wrong, since to a single neuron a long-range connection is as good
as a local one, but few such errors survive in parts of that size.
3. Refinement of the blocks on the network, a few passes.
4. Each block is cut into cores in memory, from its inner connections alone.
5. Refinement of the cores on the network, a few passes.

Small networks are one block. Larger ones that fit in memory are held there, which avoids decoding
in every pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.by_label import numbered, sums_by_label
from mapper.graph.rows import Rows, StreamedRows, copied, hold
from mapper.graph.sampled_contraction import contract_sampled, sampling_threshold
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from mapper.partitioning.deep import DeepEffort, block_bounds, partition_in_memory
from mapper.partitioning.kway_refinement import SeekCut, Seeker, refine_round
from mapper.partitioning.levels import ClusterLevel, cluster_rows, clustered_enough, sample_at
from mapper.partitioning.multilevel_bisection import BisectionEffort
from mapper.partitioning.rebalance import balance, enforce_capacity
from mapper.partitioning.recursive_splitting import Splitting, split_parts
from mapper.planning.memory import FILL
from mapper.planning.rounds import cut_passes
from mapper.planning.sampling import Sample
from mapper.resume.checkpoint import Arrays
from storage.arrays import Int32, Int64, Mask
from storage.graph import Graph
from storage.scratch.scratch import Scratch

# limit of mean-sized vertices per cluster; label propagation alone stops near this size
CLUSTER = 5
SETTLED = 32  # passes end if fewer than one in SETTLED vertices moved; more would gain 0.1 %


@dataclass(frozen=True, slots=True)
class Task:
    """A graph and the parameters of its partition.

    capacity : of a core; cores : number of cores of the chip
    strict : parts above the capacity are an error; otherwise they are repaired later
    parts : number of parts to cut the graph into; 0 for as few as leave some slack
    """

    graph: Graph
    rows: Rows
    capacity: int
    cores: int
    strict: bool = True
    parts: int = 0

    @property
    def wanted(self) -> int:
        """Number of cores to use, see `parts_wanted`."""
        return self.parts or parts_wanted(int(self.rows.sizes.sum()), self.capacity, self.cores)


def parts_wanted(size: int, capacity: int, cores: int) -> int:
    """Return the least number of cores that leaves some slack, which refinement needs for moves."""
    return max(1, min(cores, -(-size // max(1, int(capacity * FILL)))))


def partition_streamed(task: Task, context: Context) -> tuple[Int32, int]:
    """Return parts within the capacity of a core.

    Returns (part, count): part : ndarray[int32], shape (vertices,), and the number of parts. Raises
    `DoesNotFitError` if no partition within the capacity was found.
    """
    settings, plan, steps, monitor, team = context
    rows = task.rows
    stop = max(1, task.wanted * settings.block_vertices // max(1, rows.vertices))
    monitor.level(rows.vertices, rows.entries // 2)
    if stop < task.wanted:
        with monitor.stage("coarsen"):  # step 2
            limit = max(1, int(CLUSTER * rows.sizes.sum() / rows.vertices))
            cluster = cluster_rows(rows, limit, settings.seed_of(2), "cluster", context)
        with monitor.stage("initial partition"):  # step 3
            blocks = steps.run_once("blocks", lambda: _blocks(task, stop, cluster, context))
            del cluster
            monitor.sample = Sample(*blocks["sample"].tolist())
            monitor.note(f"{monitor.sample.shown} sampled connections per cluster")
            monitor.observer.on_partition(blocks["part"])
        with monitor.stage("refine blocks"):
            part, cores = blocks["part"], blocks["cores"]
            for vertices, connections in blocks["level"].reshape(-1, 2).tolist():
                monitor.level(vertices, connections)
            largest = int(rows.sizes.max())
            bounds = block_bounds(cores, int(rows.sizes.sum()), task.capacity, largest)
            part = _refine(task, part, *bounds, settings.block_passes, 4, context)
            monitor.observer.on_partition(part)
    else:
        part, cores = np.zeros(rows.vertices, np.int32), np.array([task.wanted], np.int64)
    if cores.max() > 1:
        with monitor.stage("split blocks"):
            effort = BisectionEffort(
                settings.bisection_repeats, settings.fm_passes, settings.smoothing
            )

            def split() -> Arrays:
                monitor.expect(rows.entries)
                how = Splitting(1, task.capacity, effort, settings.seed_of(5))
                found, _ = split_parts(rows, part, cores, how, plan.gathered, team, monitor.advance)
                return {"part": found}

            part = steps.run_once("split", split)["part"]
            monitor.observer.on_partition(part)
    with monitor.stage("uncoarsen and refine"):  # step 4
        part = balanced(task, part, np.ones(task.cores, np.bool_), settings.threads)
        capacities = np.full(task.cores, task.capacity, np.int64)
        part = _refine(
            task,
            part,
            capacities,
            np.zeros_like(capacities),
            cut_passes(settings, rows.entries),
            6,
            context,
            # Distant blocks may share a core, or a neuron may end in a distant block: such outliers
            # are few, but their hops grow with the chip.
            SeekCut(task.cores, room=capacities),
        )
        monitor.observer.on_partition(part)
    return numbered(part, task.cores)


def _blocks(task: Task, stop: int, cluster: Int32, context: Context) -> Arrays:
    """Return blocks of at most `stop` cores, from a sample of the connections between clusters.

    Arrays of a step: level : vertices and connections of each level; sample : see `Sample`
    """
    settings, plan, _, monitor, team = context
    effort = DeepEffort(
        cluster_rounds=settings.cluster_rounds,
        bisection=BisectionEffort(settings.bisection_repeats, 3, 0),
    )
    seed = settings.seed_of(3)
    network = ClusterLevel(task.rows, cluster, int(cluster.max()) + 1)
    with clustered_enough(network, CLUSTER, -(-task.wanted // stop), context) as level:
        sample = sample_at(level, context)
        monitor.expect(level.rows.entries)
        threshold = sampling_threshold(level.rows, sample.kept, team, monitor.advance)
        coarse = contract_sampled(
            level.rows, level.cluster, level.clusters, threshold, seed, team, monitor.advance
        )
    part, cores = partition_in_memory(
        coarse, task.wanted, stop, task.capacity, effort, seed, plan.gathered // 2, team
    )
    monitor.note(f"{cores.size:,} blocks")
    made = [*level.made, (coarse.vertices, coarse.entries // 2)]
    return {
        "part": level.of_network(part),
        "cores": cores,
        "level": np.array(made, np.int64).ravel(),
        "sample": np.array(astuple(sample), np.int64),
    }


def _refine(
    task: Task,
    part: Int32,
    capacities: Int64,
    floor: Int64,
    passes: int,
    step: int,
    context: Context,
    seeker: Seeker | None = None,
) -> Int32:
    """Run passes of k-way refinement, each of them a step; seeker : see `refine_round`."""
    settings, _, _, monitor, team = context
    rows = task.rows
    monitor.expect(passes * rows.entries)

    def work(part: Int32, index: int) -> int:
        found = refine_round(
            rows, part, capacities, floor, settings.seed_of(step), index, team, monitor.advance,
            seeker,
        )  # fmt: skip
        share = found.outside / max(1, found.everything)
        monitor.note(f"pass {index + 1}: {found.moves:,} moves, cut fraction was {share:.4f}")
        return found.moves

    return run_passes(f"refine {step}.", part, passes, work, context)


def run_passes(
    name: str, part: Int32, passes: int, work: Callable[[Int32, int], int], context: Context
) -> Int32:
    """Run passes over a partition, each of them a step, until few vertices move; return the parts.

    name : of the steps, before the number of the pass
    work : changes the parts in place in a pass, and returns the number of moves
    """
    for index in range(passes):

        def once(part: Int32 = part, index: int = index) -> Arrays:
            moves = work(part, index)
            return {"part": part, "moves": np.array([moves], np.int64)}

        arrays = context.steps.run_once(f"{name}{index}", once)
        part = arrays["part"]
        if arrays["moves"][0] * SETTLED < part.size:
            break  # further gains are not worth a pass
    return part


def balanced(task: Task, core: Int32, usable: Mask, threads: int) -> Int32:
    """Return cores within the capacity; unused cores of the chip may be added.

    core : of every vertex; usable : per core, True for all cores in use
    Raises `DoesNotFitError` if no solution was found.
    """
    sizes = task.rows.sizes
    cores = np.flatnonzero(usable).astype(np.int32)
    block_weights = sums_by_label(core, sizes, usable.size)[cores]
    if block_weights.max() <= task.capacity:
        return core
    part = (np.cumsum(usable, dtype=np.int32) - np.int32(1))[core]
    if task.strict:
        enforce_capacity(task.graph, sizes, part, block_weights, task.capacity, threads)
    else:
        balance(task.graph, sizes, part, block_weights, task.capacity, threads)
    return cores[part]


def open_rows(
    graph: Graph, shift: int, held: bool, scratch: Scratch, monitor: Monitor, team: ThreadTeam
) -> Rows:
    """Return the graph as read by the passes: held in memory, or copied to scratch once.

    The copy has both directions of a pair added and weights in the unit of the passes; reading it
    takes a fifth of the time.
    """
    rows = StreamedRows(graph, graph.vertex_sizes(), shift)
    monitor.expect(graph.connections)
    monitor.note(f"{graph.connections:,} connections to read")
    if held:
        return hold(rows, team, monitor.advance)
    return copied(rows, scratch, team, monitor.advance)
