"""Step 3: initial partition of the coarsest graph by recursive bisection."""

from __future__ import annotations

import numpy as np

from mapper.concurrency.stop_flag import StopFlag
from mapper.graph.csr import Subgraph
from mapper.partitioning.greedy_growing import grow_half
from storage.arrays import Int32
from storage.graph import Graph
from storage.store.memory import load


def whole(graph: Graph, threads: int = 1) -> Subgraph:
    """Load a graph into memory as an undirected graph."""
    held = load(graph, threads)
    indptr, ids, weights = held.read_all().undirected()
    return Subgraph(
        indptr, ids, weights, held.vertex_sizes(), np.arange(graph.vertices, dtype=np.int64)
    )


def parts_by_halving(size: int, capacity: int) -> int:
    """Return the number of parts after halving down to the capacity: a power of two."""
    parts = 1
    while parts * capacity < size:
        parts *= 2
    return parts


def bisect(
    graph: Subgraph,
    capacity: int,
    cores: int,
    repeats: int,
    rng: np.random.Generator,
    threads: int = 1,
    stop: StopFlag | None = None,
) -> tuple[Int32, int]:
    """Partition a graph into at most `cores` parts, each of total size at most `capacity`.

    A set is cut into halves of equal size until every part fits, which gives a power of two of
    parts. If the chip has too few cores for that, its cores are divided between the halves, and the
    sizes follow the cores. Vertices of the coarsest graph are coarse: a part may exceed the
    capacity by less than a vertex; `balance` repairs this later.

    stop : checked before each cut

    Returns (part, count): part : ndarray[int32], shape (vertices,), and the number of parts.
    """
    part = np.empty(graph.members.size, np.int32)
    count = 0
    stack = [(graph, min(cores, parts_by_halving(graph.size, capacity)))]
    while stack:
        if stop is not None:
            stop.check()
        piece, allowed = stack.pop()
        size = piece.size
        if allowed == 1 or size <= capacity or piece.members.size == 1:
            part[piece.members] = count
            count += 1
            continue
        left = allowed // 2
        right = allowed - left
        target = round(size * left / allowed)
        side = grow_half(
            piece,
            target,
            max(1, size - right * capacity),
            max(target, min(left * capacity, size - 1)),
            repeats,
            rng,
            threads,
        )
        halves = list(piece.halves(side))
        # depth first, selected half first: neighbouring parts get consecutive numbers
        stack += [
            (half, share)
            for half, share in zip(reversed(halves), (right, left), strict=True)
            if half.members.size
        ]
    return part, count
