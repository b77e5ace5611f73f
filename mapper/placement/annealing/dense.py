"""Simulated annealing of a placement by swaps of two groups, in tiles of the mesh.

The schedule is in `mapper.placement.annealing.schedule`, after VPR (Betz and Rose, FPL 1997).
Departures: some partners are chosen next to the cell of a random neighbour, where a good position
is likely, and the mesh is divided into tiles, with boundaries that shift from round to round.

Within a tile, a table holds the cost of every group in each column and each row, so that a swap is
priced by a few lookups for any number of connections; only an accepted swap costs work per
connection. For few connections `sparse` needs no tables. Tiles are annealed in parallel, with the
groups of other tiles at their positions of the start of the round. Tiles depend on the mesh only
and use independent random streams, so that the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.machine import STRAIGHT, Axes
from mapper.graph.distance import along
from mapper.placement.annealing.schedule import (
    CHANCES,
    HOPELESS,
    MeshTile,
    Proposals,
    Schedule,
    allowance,
    next_window,
)
from mapper.placement.annealing.sparse import Local, _anneal_sparse, _gather
from mapper.placement.clock import ENDLESS, Clock
from mapper.placement.force import hops_of
from mapper.placement.placer import Placed, Placer, Problem
from mapper.placement.traffic import Traffic, background_of
from mapper.random_numbers import draw
from storage.arrays import Int32, Mask
from storage.parallel import map_ordered

PROPOSAL, SWAP, NEIGHBOUR, ENTRY = 60.0, 200.0, 20.0, 3.0  # nanoseconds, measured
SPARSE_PROPOSAL, SPARSE_ENTRY = 45.0, 8.0  # the same without tables
SIDE = 32  # cores along the side of a tile; tables of 1,024 groups fit a second-level cache
SPARSE = 24  # mean connections per group up to which no tables are used


@njit(cache=True, nogil=True)
def _tabulate(traffic, spot, tile, table, weight):
    """Compute the cost of each member in every column and row of a tile, relative to the first.

    spot : ndarray[int32], shape (groups, 2), column and row
    table : ndarray[float32], shape (groups, at least columns + rows of the tile), columns and then
        rows, changed
    weight : scratch, shape (at least columns or rows of the tile,)
    """
    indptr, ids, weights, box = traffic.indptr, traffic.ids, traffic.weights, tile.box
    axes = tile.axes
    for axis in range(2):
        at, around = (axes.x, axes.round_x) if axis == 0 else (axes.y, axes.round_y)
        low, high = box[2 * axis], box[2 * axis + 1]
        first = axis * (box[1] - box[0])
        for u in tile.members:
            if around != STRAIGHT:
                for c in range(high - low):
                    weight[c] = 0.0
                for e in range(indptr[u], indptr[u + 1]):
                    there = np.int64(at[spot[ids[e], axis]])
                    for c in range(high - low):
                        weight[c] += weights[e] * along(there, at[low + c], around)
                for c in range(high - low):
                    table[u, first + c] = weight[c] - weight[0]
                continue
            for p in range(high - low):
                weight[p] = 0.0
            total = 0.0
            for e in range(indptr[u], indptr[u + 1]):
                p = min(max(np.int64(spot[ids[e], axis]), low), high - 1)
                weight[p - low] += weights[e]
                total += weights[e]
            cost = 0.0
            passed = 0.0
            for c in range(high - low):
                table[u, first + c] = cost
                passed += weight[c]
                if c + 1 < high - low:  # a step away from `passed`, closer to the rest
                    cost += (2 * passed - total) * (at[low + c + 1] - at[low + c])


@njit(cache=True, nogil=True)
def _shift(indptr, ids, weights, u, step, sign, spot, box, table):
    """Update the tables of a group's neighbours in the box when it moves.

    step : ndarray[float32], change of the distance of the group from each column and row
    sign : 1, or -1 for a group that moves the other way
    """
    left, right, top, bottom = box[0], box[1], box[2], box[3]
    for e in range(indptr[u], indptr[u + 1]):
        t = ids[e]
        px, py = spot[t, 0], spot[t, 1]
        if px < left or px >= right or py < top or py >= bottom:
            continue  # in another tile
        w = sign * np.float32(weights[e])
        row = table[t]
        for c in range(step.size):
            row[c] += w * step[c]


@njit(cache=True, nogil=True)
def _anneal(traffic, background, start, spot, at, table, tile, proposals):
    """Propose swaps within a tile; return the swaps made and the change of cost.

    start, spot : ndarray[int32], shape (groups, 2), column and row at the start of the round, and
        now; changed for groups in the tile
    at : group on each cell, shape (height, width), -1 for none; changed in the tile
    table : costs of all groups in the tile, as in `_tabulate`, kept up to date
    """
    indptr, ids, weights = traffic.indptr, traffic.ids, traffic.weights
    mass, by_column, by_row = background.mass, background.columns, background.rows
    box, movers, state, axes = tile.box, tile.movers, tile.state, tile.axes
    window, near, temperature = proposals.window, proposals.near, proposals.temperature
    left, right, top, bottom = box[0], box[1], box[2], box[3]
    wide = right - left
    step = np.empty(wide + bottom - top, np.float32)
    made = 0
    total = 0.0
    for _ in range(proposals.moves):
        u = movers[draw(state, movers.size)]
        ux, uy = np.int64(spot[u, 0]), np.int64(spot[u, 1])
        cx, cy, reach = ux, uy, window
        if draw(state, np.int64(1024)) < near:
            t = ids[indptr[u] + draw(state, indptr[u + 1] - indptr[u])]
            cx, cy, reach = np.int64(start[t, 0]), np.int64(start[t, 1]), 1
            cx, cy = min(max(cx, left), right - 1), min(max(cy, top), bottom - 1)
        low, high = max(left, cx - reach), min(right - 1, cx + reach)
        tx = low + draw(state, high - low + 1)
        low, high = max(top, cy - reach), min(bottom - 1, cy + reach)
        ty = low + draw(state, high - low + 1)
        v = at[ty, tx]
        if v < 0 or v == u:
            continue
        to_x, to_y = tx - left, wide + ty - top
        at_x, at_y = ux - left, wide + uy - top
        change = np.float64(table[u, to_x] - table[u, at_x] + table[u, to_y] - table[u, at_y])
        change += table[v, at_x] - table[v, to_x] + table[v, at_y] - table[v, to_y]
        change += (mass[u] - mass[v]) * (by_column[tx] - by_column[ux] + by_row[ty] - by_row[uy])
        allowed = 0.0
        if temperature > 0.0:
            if change > HOPELESS * temperature:
                continue
            allowed = allowance(temperature, draw(state, np.int64(CHANCES)))
        if change >= allowed and (change > 0.0 or temperature == 0.0):
            continue
        for e in range(indptr[u], indptr[u + 1]):
            if ids[e] == v:  # their distance does not change; undo its price
                apart = along(np.int64(axes.x[tx]), axes.x[ux], axes.round_x)
                apart += along(np.int64(axes.y[ty]), axes.y[uy], axes.round_y)
                change += 2.0 * weights[e] * apart
                break
        if change >= allowed and (change > 0.0 or temperature == 0.0):
            continue
        for c in range(wide):
            x = np.int64(axes.x[left + c])
            step[c] = along(x, axes.x[tx], axes.round_x) - along(x, axes.x[ux], axes.round_x)
        for c in range(bottom - top):
            y = np.int64(axes.y[top + c])
            there = along(y, axes.y[ty], axes.round_y)
            step[wide + c] = there - along(y, axes.y[uy], axes.round_y)
        _shift(indptr, ids, weights, u, step, np.float32(1), spot, box, table)
        _shift(indptr, ids, weights, v, step, np.float32(-1), spot, box, table)
        spot[u, 0], spot[u, 1] = tx, ty
        spot[v, 0], spot[v, 1] = ux, uy
        at[uy, ux] = v
        at[ty, tx] = u
        made += 1
        total += change
    return made, total


def _sides(shape: tuple[int, int], groups: int, memory: int) -> tuple[int, int]:
    """Return columns and rows of a tile: a square, or longer if the mesh is narrow."""
    side = SIDE
    while side > 4 and 8 * side * groups > memory:
        side //= 2
    height, width = shape
    tall = min(height, side if width > side else 2 * side - min(width, side))
    return min(width, 2 * side - tall), tall


def _cuts(length: int, side: int, rng: np.random.Generator) -> list[int]:
    """Return the boundaries of the tiles along one axis."""
    if length <= side:
        return [0, length]
    return sorted({0, *range(int(rng.integers(1, side + 1)), length, side), length})


def _tiles(
    at: Int32, busy: Mask, sides: tuple[int, int], axes: Axes, rng: np.random.Generator
) -> list[MeshTile]:
    """Return tiles that cover the mesh, those with most work first."""
    height, width = at.shape
    columns, rows = _cuts(width, sides[0], rng), _cuts(height, sides[1], rng)
    tiles = []
    for top, bottom in pairwise(rows):
        for left, right in pairwise(columns):
            members = at[top:bottom, left:right].ravel()
            members = members[members >= 0]
            movers = members[busy[members]]
            if movers.size:
                box = np.array([left, right, top, bottom], np.int64)
                state = rng.integers(1, 1 << 62, 1).astype(np.uint64)
                tiles.append(MeshTile(box, members, movers, state, axes))
    return sorted(tiles, key=lambda tile: -tile.movers.size)


def anneal(
    traffic: Traffic,
    x: Int32,
    y: Int32,
    axes: Axes,
    schedule: Schedule,
    rng: np.random.Generator,
    threads: int = 1,
    memory: int = 1 << 28,
    clock: Clock = ENDLESS,
) -> None:
    """Anneal a placement; x and y become the best state at the end of a round.

    x, y : columns and rows on a mesh with these coordinates
    memory : bytes for the tables
    """
    busy = np.diff(traffic.indptr) > 0
    movers = np.count_nonzero(busy)
    if movers == 0 or schedule.work <= 0:
        return
    shape = axes.shape
    at = np.full(shape, -1, np.int32)
    at[y, x] = np.arange(traffic.size, dtype=np.int32)
    spot = np.column_stack([x, y])
    degree = float(traffic.ids.size / movers)
    sparse = bool(degree <= SPARSE)
    if sparse:
        sides = _sides(shape, 1, memory)
        table = np.empty((0, 0), np.float32)
        proposal, swap = SPARSE_PROPOSAL + SPARSE_ENTRY * degree, 0.0
        build = 5 * ENTRY * traffic.ids.size + 20.0 * traffic.size
    else:
        sides = _sides(shape, traffic.size, memory)
        table = np.empty((traffic.size, sum(sides)), np.float32)
        proposal, swap = PROPOSAL, SWAP + 2 * NEIGHBOUR * degree
        build = 2 * ENTRY * traffic.ids.size + 2 * sum(sides) * traffic.size
    rounds = max(2, min(schedule.rounds, int(schedule.work / (3 * build))))
    temperature: float = schedule.start * float(traffic.weights.sum()) / movers
    decay = (schedule.end / schedule.start) ** (1 / (rounds - 1)) if schedule.start else 0.0
    widest = float(max(sides))
    window = max(2.0, widest * min(1.0, schedule.start))
    work, rate = schedule.work, 0.05
    best = total_cost(traffic, spot, axes)
    for done in range(rounds):
        if clock.over():
            return
        price = proposal + rate * swap
        moves = (work / (rounds - done) - build) / (movers * price)
        some = Proposals(max(1, round(window)), round(1024 * schedule.near), temperature, 0)
        tiles = _tiles(at, busy, sides, axes, rng)
        each = min(max(moves, 1.0), schedule.most)
        swaps, tried = _round(traffic, spot, at, tiles, table, some, each, threads, clock)
        rate = swaps / max(1, tried)
        work -= build + tried * proposal + swaps * swap
        cost = total_cost(traffic, spot, axes)
        if cost < best:
            best = cost
            x[:], y[:] = spot[:, 0], spot[:, 1]
        window = next_window(window, rate, widest)
        temperature *= decay


def _round(
    traffic: Traffic,
    spot: Int32,
    at: Int32,
    tiles: list[MeshTile],
    table: NDArray[np.float32],
    proposals: Proposals,
    moves: float,
    threads: int,
    clock: Clock,
) -> tuple[int, int]:
    """Anneal all tiles at one temperature; return the numbers of swaps made and proposed.

    table : for costs, as in `_tabulate`; empty if traffic is sparse
    moves : proposals per group that seeks partners
    """
    sparse = table.size == 0
    start = spot.copy()
    background = background_of(traffic.mass, start, tiles[0].axes)

    def run(tile: MeshTile) -> tuple[int, int]:
        if clock.over():
            return 0, 0
        mine = proposals._replace(moves=math.ceil(moves * tile.movers.size))
        if sparse:
            left, right, top, bottom = tile.box
            degree = traffic.indptr[tile.members + 1] - traffic.indptr[tile.members]
            indptr = np.empty(degree.size + 1, np.int64)
            other, weight = np.empty(degree.sum(), np.int32), np.empty(degree.sum(), np.float64)
            cells = np.empty((bottom - top, right - left), np.int32)
            place, where = _gather(traffic, start, tile, cells, indptr, other, weight)
            local = Local(indptr, other, weight, place, where, cells)
            made, _ = _anneal_sparse(
                local,
                background._replace(mass=traffic.mass[tile.members]),
                tile._replace(movers=np.flatnonzero(degree).astype(np.int32)),
                mine,
            )
            spot[tile.members] = place[: degree.size]
            return made, mine.moves
        _tabulate(traffic, start, tile, table, np.empty(max(at.shape), np.float64))
        made, _ = _anneal(traffic, background, start, spot, at, table, tile, mine)
        return made, mine.moves

    counts = list(map_ordered(run, tiles, threads))
    if sparse:
        at[spot[:, 1], spot[:, 0]] = np.arange(traffic.size)
    return sum(made for made, _ in counts), sum(tried for _, tried in counts)


def total_cost(traffic: Traffic, spot: Int32, axes: Axes) -> float:
    """Return twice the cost of connections and background."""
    cost = float(hops_of(traffic.csr, spot[:, 0], spot[:, 1], axes))
    if not traffic.mass.any():
        return cost
    background = background_of(traffic.mass, spot, axes)
    for axis, costs in enumerate((background.columns, background.rows)):
        cost += float((costs[spot[:, axis]] * traffic.mass).sum())
    return cost


@dataclass(frozen=True, slots=True)
class AnnealingPlacer(Placer):
    """Anneals a given placement; returns the better of the two.

    whole : price all connections exactly, even if `Problem.traffic` has a background
    threads : number of threads; None uses all threads of the problem
    """

    schedule: Schedule
    whole: bool = False
    threads: int | None = None

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        if start is None:
            return
        traffic = problem.traffic
        if self.whole:
            groups = problem.groups
            nothing = np.zeros(problem.size)
            traffic = Traffic(groups.indptr, groups.ids, groups.weights, nothing)
        x, y = start.x.copy(), start.y.copy()
        anneal(
            traffic, x, y, problem.region.axes, self.schedule, rng,
            self.threads or problem.threads, problem.memory, problem.clock,
        )  # fmt: skip
        yield problem.placed(x, y)
