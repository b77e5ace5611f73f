"""Annealing of classes of equal groups, with one cost table per class.

In dense layers every group of a layer is connected to the same groups. With mean weights the
members of such a class have equal costs on a cell, so a table of cost by column and row per class,
instead of per group, prices a swap, and a swap changes only the tables of neighbouring classes:
work for a few table rows instead of for each connection. The schedule is in
`mapper.placement.annealing.schedule`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.machine import STRAIGHT, Axes
from mapper.graph.distance import along
from mapper.placement.annealing.schedule import CHANCES, HOPELESS, Proposals, allowance, next_window
from mapper.placement.assignment import exchange_members
from mapper.placement.classes import Classes
from mapper.placement.clock import ENDLESS, Clock
from mapper.placement.placer import Placed, Placer, Problem
from mapper.random_numbers import draw
from storage.arrays import Float64, Int32, Int64
from storage.parallel import map_ordered

PROPOSAL, SWAP, ENTRY = 35.0, 100.0, 0.6  # nanoseconds, measured
PIECES = 16  # slices of a round, between which the clock is checked
CHUNK = 512  # maximum number of groups in one assignment problem, whose work is cubic


@njit(cache=True, nogil=True)
def _class_tables(indptr, ids, weights, columns, rows, axes, table):
    """Compute the cost of a member of each class in every column and row.

    indptr, ids, weights : symmetric lists of classes, the weight between two single members
    columns, rows : members of each class in every column and row, shape (classes, width or height)
    axes : coordinates of columns and rows
    table : ndarray[float32], shape (classes, width + height), columns then rows; changed
        (computed again for each round, so that rounding errors do not accumulate)
    """
    for axis in range(2):
        members = columns if axis == 0 else rows
        first = 0 if axis == 0 else columns.shape[1]
        length = members.shape[1]
        at, around = (axes.x, axes.round_x) if axis == 0 else (axes.y, axes.round_y)
        mixed = np.empty(length)
        for a in range(indptr.size - 1):
            mixed[:] = 0.0
            for e in range(indptr[a], indptr[a + 1]):
                for c in range(length):
                    mixed[c] += weights[e] * members[ids[e], c]
            if around != STRAIGHT:
                for c in range(length):
                    cost = 0.0
                    for p in range(length):
                        cost += mixed[p] * along(np.int64(at[p]), at[c], around)
                    table[a, first + c] = cost
                continue
            total = mixed.sum()
            cost = 0.0
            for c in range(length):
                cost += mixed[c] * at[c]
            passed = 0.0
            for c in range(length):
                table[a, first + c] = cost
                passed += mixed[c]
                if c + 1 < length:
                    cost += (2 * passed - total) * (at[c + 1] - at[c])


@njit(cache=True, nogil=True)
def _anneal_classes(graph, cells, number, at, axes, table, proposals, state):
    """Propose swaps of the classes of two cells; return the swaps made and the change of cost.

    graph : lists of the classes, as in `_class_tables`
    cells : ndarray[int32], shape (n, 2), columns and rows
    axes : coordinates of columns and rows
    number : index into `cells` by row and column, -1 for others
    at : class on each cell, shape (n,), changed
    table : as in `_class_tables`, kept up to date
    """
    indptr, ids, weights = graph
    window, temperature = proposals.window, proposals.temperature
    height, width = number.shape
    step = np.empty(width + height, np.float32)
    made = 0
    total = 0.0
    for _ in range(proposals.moves):
        p = draw(state, at.size)
        a = at[p]
        px, py = np.int64(cells[p, 0]), np.int64(cells[p, 1])
        low, high = max(0, px - window), min(width - 1, px + window)
        qx = low + draw(state, high - low + 1)
        low, high = max(0, py - window), min(height - 1, py + window)
        qy = low + draw(state, high - low + 1)
        q = number[qy, qx]
        if q < 0 or at[q] == a:
            continue
        b = at[q]
        change = np.float64(table[a, qx] - table[a, px] + table[b, px] - table[b, qx])
        change += table[a, width + qy] - table[a, width + py]
        change += table[b, width + py] - table[b, width + qy]
        allowed = 0.0
        if temperature > 0.0:
            if change > HOPELESS * temperature:
                continue
            allowed = allowance(temperature, draw(state, np.int64(CHANCES)))
        if change >= allowed:
            continue
        for e in range(indptr[a], indptr[a + 1]):
            if ids[e] == b:  # their distance does not change; undo its price
                apart = along(np.int64(axes.x[qx]), axes.x[px], axes.round_x)
                apart += along(np.int64(axes.y[qy]), axes.y[py], axes.round_y)
                change += 2.0 * weights[e] * apart
                break
        if change >= allowed:
            continue
        for c in range(width):
            x = np.int64(axes.x[c])
            step[c] = along(x, axes.x[qx], axes.round_x) - along(x, axes.x[px], axes.round_x)
        for c in range(height):
            y = np.int64(axes.y[c])
            there = along(y, axes.y[qy], axes.round_y)
            step[width + c] = there - along(y, axes.y[py], axes.round_y)
        for e in range(indptr[a], indptr[a + 1]):
            row = table[ids[e]]
            w = np.float32(weights[e])
            for c in range(step.size):
                row[c] += w * step[c]
        for e in range(indptr[b], indptr[b + 1]):
            row = table[ids[e]]
            w = np.float32(weights[e])
            for c in range(step.size):
                row[c] -= w * step[c]
        at[p], at[q] = b, a
        made += 1
        total += change
    return made, total


def class_tables(
    classes: Classes, cells: Int32, at: Int64, axes: Axes
) -> tuple[NDArray[np.float32], float]:
    """Return the tables of the classes, and the cost of the placement in mean weights."""
    shape = axes.shape
    columns = np.zeros((classes.count, shape[1]))
    rows = np.zeros((classes.count, shape[0]))
    np.add.at(columns, (at, cells[:, 0]), 1)
    np.add.at(rows, (at, cells[:, 1]), 1)
    table = np.empty((classes.count, sum(shape)), np.float32)
    _class_tables(classes.indptr, classes.ids, classes.weights, columns, rows, axes, table)
    members = np.concatenate([columns, rows], axis=1)
    return table, float((table * members).sum()) / 2


def anneal_classes(
    classes: Classes,
    cells: Int32,
    at: Int64,
    axes: Axes,
    work: float,
    temperatures: Float64,
    rng: np.random.Generator,
    clock: Clock = ENDLESS,
) -> None:
    """Anneal the assignment of classes to cells: `at`, shape (n,), is changed.

    cells : ndarray[int32], shape (n, 2), columns and rows on a mesh with these coordinates
    work : nanoseconds, approximately
    temperatures : temperature of each round, in strengths
    """
    shape, graph = axes.shape, (classes.indptr, classes.ids, classes.weights)
    number = np.full(shape, -1, np.int64)
    number[cells[:, 1], cells[:, 0]] = np.arange(at.size)
    state = rng.integers(1, 1 << 62, 1).astype(np.uint64)
    links = 2 * classes.ids.size / classes.count
    swap = SWAP + ENTRY * links * sum(shape)
    window, rate = max(2.0, max(shape) / 2), 0.2
    for done, temperature in enumerate(temperatures):
        table, _ = class_tables(classes, cells, at, axes)
        price = (PROPOSAL + rate * swap) * PIECES
        moves = max(1, math.ceil(work / (temperatures.size - done) / price))
        proposals = Proposals(max(1, round(window)), 0, float(temperature), moves)
        made = 0
        for _ in range(PIECES):
            if clock.over():
                return
            made += _anneal_classes(graph, cells, number, at, axes, table, proposals, state)[0]
        rate = made / (moves * PIECES)
        work -= moves * price
        window = next_window(window, rate, float(max(shape)))


@dataclass(frozen=True, slots=True)
class ClassPlacer(Placer):
    """Anneals classes from a given placement, then assigns the cells of each to its members.

    work : nanoseconds of one core for the annealing, approximately
    first, last : temperatures, in strengths
    sweeps : rounds of exact assignment of the cells of each class to its members
    """

    work: float
    sweeps: int = 1
    rounds: int = 40
    first: float = 1.0
    last: float = 0.05

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        classes = problem.classes
        if classes is None or start is None:
            return
        spot = np.column_stack([start.x, start.y])
        order = np.lexsort((start.x, start.y))
        cells, at = spot[order], classes.label[order]
        temperatures = np.geomspace(self.first, self.last, self.rounds)
        anneal_classes(
            classes, cells, at, problem.region.axes, self.work, temperatures, rng, problem.clock
        )
        members = np.argsort(classes.label, kind="stable")
        spot[members] = cells[np.argsort(at, kind="stable")]
        yield problem.placed(spot[:, 0].copy(), spot[:, 1].copy())
        for _ in range(self.sweeps):
            exchange(problem, classes, spot, rng)
            yield problem.placed(spot[:, 0].copy(), spot[:, 1].copy())


def exchange(problem: Problem, classes: Classes, spot: Int32, rng: np.random.Generator) -> None:
    """Reassign the cells of each class to its members optimally; `spot` is changed.

    Classes of one colour are not connected, so they are processed in parallel.
    """
    csr = problem.groups.indptr, problem.groups.ids, problem.groups.weights
    busy = np.diff(problem.groups.indptr) > 0
    members = classes.members()

    def run(chunk: Int64) -> None:
        if not problem.clock.over():
            exchange_members(*csr, chunk, spot, problem.region.axes)

    for colour in classes.coloured():
        chunks: list[Int64] = []
        for a in colour:
            mixed = rng.permutation(members[a])
            if busy[mixed[0]]:
                chunks += np.array_split(mixed, -(-mixed.size // CHUNK))
        for _ in map_ordered(run, chunks, problem.threads):
            pass
