"""Partitioning by recursive bisection of a hypergraph, each bisection multilevel.

A cut net costs its weight and is split: each side keeps the pins there, so that the costs of all
bisections add up to the connectivity of the parts (Catalyurek and Aykanat 1999).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mapper.concurrency.stop_flag import StopFlag
from mapper.hypergraph.coarsening import coarsen
from mapper.hypergraph.fm import (
    ENOUGH,
    EVERYWHERE,
    FmSearch,
    _grow,
    _search,
    _unload,
    refine,
)
from mapper.hypergraph.gains import new_queue, new_state
from mapper.hypergraph.hypergraph import Hypergraph, contract, objective
from storage.arrays import Int32, Int64

COARSEST = 120  # vertices on the coarsest level
HEAVIEST = 3.0  # maximum size of a cluster, in mean vertices of the coarsest level
SHRINKS = 0.95  # coarsening ends if a level keeps more than this share of the vertices
REPEATED = 1_000_000  # maximum pins in all runs of one bisection, if there are several


@dataclass(frozen=True, slots=True)
class BisectionEffort:
    """Parameters of bisections.

    tries : starts on the coarsest level
    passes : FM passes on each level
    patience : moves without improvement that end an FM search
    repeats : runs of a whole bisection, of which the best is used
    late : see `new_queue`
    """

    tries: int
    passes: int
    patience: int
    repeats: int = 1
    late: bool = False


def bisect(
    graph: Hypergraph,
    wanted: int,
    capacities: Int64,
    effort: BisectionEffort,
    rng: np.random.Generator,
) -> Int32:
    """Return the side of every vertex, 0 or 1; side 0 gets about `wanted`, within `capacities`.

    The best of several runs: results of equal runs often differ much.
    """
    best, best_cost = np.zeros(graph.vertices, np.int32), (1 << 62, 0)
    for _ in range(max(1, min(effort.repeats, REPEATED // max(1, graph.pins.size)))):
        side = _bisect(graph, wanted, capacities, effort, rng)
        cost = objective(graph, side, capacities)
        if cost < best_cost:
            best, best_cost = side, cost
    return best


def _bisect(
    graph: Hypergraph,
    wanted: int,
    capacities: Int64,
    effort: BisectionEffort,
    rng: np.random.Generator,
) -> Int32:
    """Run one bisection: coarsen, bisect, refine while uncoarsening."""
    levels: list[tuple[Hypergraph, Int32]] = []
    coarse = graph
    limit = max(1, int(HEAVIEST * graph.sizes.sum() / COARSEST))
    while coarse.vertices > COARSEST:
        one = np.zeros(coarse.vertices, np.int32)
        below, cluster = coarsen(coarse, one, limit, COARSEST, rng)
        if below.vertices > SHRINKS * coarse.vertices:
            break
        levels.append((coarse, cluster))
        coarse = below
    slack = int(coarse.sizes.max()) if levels else 0
    side = _start(coarse, wanted, capacities + slack, effort, rng)
    search = FmSearch(effort.passes, EVERYWHERE, effort.patience, late=effort.late)
    for finer, cluster in reversed(levels):
        side = side[cluster]
        slack = int(finer.sizes.max()) if finer is not graph else 0
        refine(finer, side, capacities + slack, search, rng)
    return side


def _start(
    graph: Hypergraph,
    wanted: int,
    capacities: Int64,
    effort: BisectionEffort,
    rng: np.random.Generator,
) -> Int32:
    """Grow several sides from random vertices, refine them by FM, and return the best."""
    best, best_cost = np.zeros(graph.vertices, np.int32), (1 << 62, 0)
    if graph.vertices == 0:
        return best
    queue = new_queue(graph.vertices, effort.late)
    for _ in range(effort.tries):
        state = new_state(graph, np.ones(graph.vertices, np.int32), capacities)
        order = rng.permutation(graph.vertices)
        for first in order:
            if state.block_weights[0] >= wanted:
                break
            if (
                state.part[first] == 1
                and state.block_weights[0] + graph.sizes[first] <= capacities[0]
            ):
                _grow(state, queue, first, wanted)
        if np.any(state.block_weights > capacities):
            _unload(state, queue, order)
        for _ in range(effort.passes):
            if not _search(state, queue, order, EVERYWHERE, effort.patience, ENOUGH):
                break
        cost = objective(graph, state.part, capacities)
        if cost < best_cost:
            best, best_cost = state.part, cost
    return best


def partition_by_bisection(
    graph: Hypergraph,
    parts: int,
    capacity: int,
    effort: BisectionEffort,
    rng: np.random.Generator,
    stop: StopFlag | None = None,
) -> Int32:
    """Return the part of every vertex, 0 .. parts-1; parts may exceed the capacity a little.

    capacity : of a part. The slack is distributed evenly over the levels of bisection (as in
        KaHyPar, Schlag et al., ALENEX 2016)
    stop : checked before each bisection
    """
    part = np.zeros(graph.vertices, np.int32)
    todo: list[tuple[Hypergraph, Int64, int, int]] = [(graph, np.arange(graph.vertices), 0, parts)]
    while todo:
        if stop is not None:
            stop.begin(f"bisection, {parts - sum(one[3] for one in todo):,} of {parts:,} parts")
        some, members, first, count = todo.pop()
        if count == 1:
            part[members] = first
            continue
        halves = np.array([count - count // 2, count // 2])
        size = int(some.sizes.sum())
        depth = int(count - 1).bit_length()
        slack = max(1.0, capacity * count / max(1, size)) ** (1 / depth)
        capacities = np.minimum(np.ceil(size * halves / count * slack), halves * capacity)
        wanted = int(size * halves[0] / count)
        side = bisect(some, wanted, capacities.astype(np.int64), effort, rng)
        at = first
        for half in (0, 1):
            inside = side == half
            number = np.where(inside, np.cumsum(inside) - 1, -1).astype(np.int32)
            below = contract(some, number, int(inside.sum()))
            todo.append((below, members[inside], at, int(halves[half])))
            at += int(halves[half])
    return part
