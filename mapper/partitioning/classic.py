"""Steps 2 to 4 as published: pairwise coarsening, bisection, and refinement while uncoarsening."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from mapper.graph.affinity import cut_of
from mapper.graph.by_label import sums_by_label
from mapper.graph.contraction import contract
from mapper.graph.csr import chunk_of
from mapper.monitoring.monitor import Monitor
from mapper.partitioning.bisection import bisect, whole
from mapper.partitioning.heavy_edge_matching import match
from mapper.partitioning.rebalance import balance, enforce_and_renumber
from mapper.resume.checkpoint import Arrays, Checkpoint
from mapper.settings import Settings
from storage.arrays import Int32, Int64
from storage.graph import Graph
from storage.scratch.scratch import Scratch


@njit(cache=True, nogil=True)
def _refine_block(chunk, order, sizes, capacity, part, block_weights, affinity, connected):
    """Visit the block's vertices in `order` and move each to its best part with slack.

    affinity : scratch, zero on entry and exit; weight from the vertex into each part
    connected : scratch, parts that the vertex is connected to

    The published rule tries the parts by increasing cost W_i - W_k while it is negative, and takes
    the first one with slack. This is the same as the largest W_k above W_i among the parts with
    slack. Returns the number of moves and the reduction of the cut weight.
    """
    first, indptr, ids, weights = chunk
    moves = 0
    gained = np.int64(0)
    for step in range(order.size):
        local = order[step]
        v = first + local
        own = part[v]
        found = 0
        for e in range(indptr[local], indptr[local + 1]):
            k = part[ids[e]]
            if affinity[k] == 0:
                connected[found] = k
                found += 1
            affinity[k] += weights[e] + 1  # plus one, to mark parts reached with weight 0
        for e in range(indptr[local], indptr[local + 1]):
            affinity[part[ids[e]]] -= 1
        best = own
        for i in range(found):
            k = connected[i]
            if (
                k != own
                and block_weights[k] + sizes[v] <= capacity
                and affinity[k] > affinity[best]
            ):
                best = k
        if best != own:
            gained += affinity[best] - affinity[own]
            block_weights[own] -= sizes[v]
            block_weights[best] += sizes[v]
            part[v] = best
            moves += 1
        for i in range(found):
            affinity[connected[i]] = 0
    return moves, gained


def refine(
    graph: Graph,
    sizes: Int64,
    part: Int32,
    block_weights: Int64,
    capacity: int,
    rng: np.random.Generator,
    threads: int = 1,
) -> tuple[int, int]:
    """Visit all vertices once in random order; `part` and `block_weights` change in place.

    part : ndarray[int32], shape (vertices,); block_weights : ndarray[int64], shape (parts,), their
        sizes

    Returns the number of moves and the reduction of the cut weight.
    """
    moves = gained = 0
    affinity = np.zeros(block_weights.size, np.int64)
    connected = np.empty(block_weights.size, np.int64)
    for block in graph.blocks(rng.permutation(graph.block_count).tolist(), threads):
        order = rng.permutation(block.vertices)
        moved, gain = _refine_block(
            chunk_of(block), order, sizes, capacity, part, block_weights, affinity, connected
        )
        moves += int(moved)
        gained += int(gain)
    return moves, gained


def cut_weight(graph: Graph, part: Int32, threads: int = 1) -> int:
    """Return the weight of the connections between different parts, each pair counted once."""
    total = 0
    for block in graph.blocks(threads=threads):
        total += int(cut_of(chunk_of(block), part))
    return total // 2


@dataclass(frozen=True, slots=True)
class HierarchyLevel:
    """A graph of the hierarchy, and the scratch name of the coarser ids of its vertices."""

    graph: Graph
    coarser: str | None


def coarsen(
    graph: Graph,
    capacity: int,
    settings: Settings,
    rng: np.random.Generator,
    scratch: Scratch,
    monitor: Monitor,
) -> list[HierarchyLevel]:
    """Return the levels from the finest (the graph itself) to the coarsest, kept in scratch."""
    levels: list[HierarchyLevel] = []
    monitor.level(graph.vertices, graph.connections // 2)
    while True:
        coarse, count = match(
            graph,
            graph.vertex_sizes(),
            capacity // settings.size_divisor,
            settings.matching_repeats,
            rng,
            settings.threads,
        )
        if count > (1 - settings.stop_shrink) * graph.vertices:
            levels.append(HierarchyLevel(graph, None))
            return levels
        name = f"level/{len(levels) + 1:03d}"
        scratch.put_array(f"{name}/coarse", coarse)
        levels.append(HierarchyLevel(graph, f"{name}/coarse"))
        graph = contract(
            graph, coarse, count, scratch, name, settings.memory_bytes // 4, settings.threads
        )
        monitor.level(graph.vertices, graph.connections // 2)


def uncoarsen(
    levels: list[HierarchyLevel],
    part: Int32,
    count: int,
    capacity: int,
    cores: int,
    settings: Settings,
    rng: np.random.Generator,
    scratch: Scratch,
    monitor: Monitor,
) -> tuple[Int32, int]:
    """Project the parts of the coarsest level to the finest, refining them on each level.

    part : ndarray[int32], shape (vertices of the coarsest level,), numbered 0 .. count-1

    Returns the parts of the finest level, within the capacity and renumbered without gaps, and
    their number. Raises `DoesNotFitError` if the vertices cannot be packed.
    """
    for depth in range(len(levels) - 1, -1, -1):
        level = levels[depth]
        if level.coarser is not None:
            part = part[scratch.get_array(level.coarser)]
        sizes = level.graph.vertex_sizes()
        block_weights = sums_by_label(part, sizes, count)
        for _ in range(settings.refinement_passes):
            moves, _ = refine(
                level.graph, sizes, part, block_weights, capacity, rng, settings.threads
            )
            if not moves:
                break
        balance(level.graph, sizes, part, block_weights, capacity, settings.threads)
        if depth == 0:
            part, count = enforce_and_renumber(
                level.graph, sizes, part, block_weights, capacity, cores, settings.threads
            )
        cut = cut_weight(level.graph, part, settings.threads)
        monitor.levels[depth]["cut_weight"] = cut
        monitor.note(f"level {depth}: cut {cut:,} of {level.graph.vertices:,} vertices")
    return part, count


def partition_classic(
    graph: Graph,
    capacity: int,
    cores: int,
    settings: Settings,
    steps: Checkpoint,
    scratch: Scratch,
    monitor: Monitor,
) -> tuple[Int32, int]:
    """Return at most `cores` parts, each of total size at most `capacity`.

    Returns (part, count): part : ndarray[int32], shape (vertices,), and the number of parts. Raises
    `DoesNotFitError` if the vertices cannot be packed.
    """
    threads = settings.threads

    def partition() -> Arrays:
        with monitor.stage("coarsen"):  # step 2
            rng = np.random.default_rng([settings.seed, 2])
            levels = coarsen(graph, capacity, settings, rng, scratch, monitor)

        with monitor.stage("initial partition"):  # step 3
            rng = np.random.default_rng([settings.seed, 3])
            held = whole(levels[-1].graph, threads)
            part, parts = bisect(
                held, capacity, cores, settings.bisection_repeats, rng, threads, monitor.stop
            )
            monitor.note(f"{parts:,} parts")
            monitor.at_work["cut_weight"] = cut_weight(levels[-1].graph, part, threads)

        with monitor.stage("uncoarsen and refine"):  # step 4
            rng = np.random.default_rng([settings.seed, 4])
            part, _ = uncoarsen(
                levels, part, parts, capacity, cores, settings, rng, scratch, monitor
            )
            monitor.at_work["cut_weight"] = monitor.levels[0]["cut_weight"]
        levels_found = [list(level.values()) for level in monitor.levels]
        return {"part": part, "levels": np.array(levels_found, np.int64).ravel()}

    arrays = steps.run_once("partition", partition)
    if not monitor.levels:  # the step was done in an earlier run
        monitor.restore_levels(arrays["levels"].reshape(-1, 3).tolist())
    part: Int32 = arrays["part"]
    return part, int(part.max(initial=-1)) + 1
