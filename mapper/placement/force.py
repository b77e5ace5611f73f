"""Step 8: force-directed refinement by swaps of groups.

A connection of weight w pulls each of its ends towards the other with the force w * (distance
vector). The groups that are pulled hardest are visited first; each may swap places with the
group, among those that lie in the direction of its force, where the total cost falls most.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.graph.csr import Subgraph
from mapper.placement.clock import ENDLESS, Clock

REACH = 64  # columns and rows searched along the force: all of a 64x64 chip


class Layout(NamedTuple):
    """Where groups are.

    x, y : column and row of each, shape (groups,)
    at : group on each cell of the chip, shape (height, width), -1 where there is none
    """

    x: NDArray[np.int32]
    y: NDArray[np.int32]
    at: NDArray[np.int32]


class Tables(NamedTuple):
    """Cost of every group in every column and row; empty if they would not fit."""

    columns: NDArray[np.int64]
    rows: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _forces(indptr, ids, weights, x, y, force_x, force_y):
    for u in range(indptr.size - 1):
        fx = np.int64(0)
        fy = np.int64(0)
        for e in range(indptr[u], indptr[u + 1]):
            v = ids[e]
            fx += weights[e] * (np.int64(x[v]) - x[u])
            fy += weights[e] * (np.int64(y[v]) - y[u])
        force_x[u] = fx
        force_y[u] = fy


@njit(cache=True, nogil=True)
def _axis_costs(begin, end, ids, weights, position, cost, low, high):
    """cost[c] for low <= c <= high: weight times distance, on one axis, of a group put there."""
    for c in range(low, high + 1):
        cost[c] = 0
    for e in range(begin, end):
        p = np.int64(position[ids[e]])
        for c in range(low, high + 1):
            cost[c] += weights[e] * abs(p - c)


@njit(cache=True, nogil=True)
def _cost_of_move(begin, end, ids, weights, x, y, v, to_x, to_y):
    """Change of the cost of v's connections when v alone moves."""
    change = np.int64(0)
    for e in range(begin, end):
        t = ids[e]
        change += weights[e] * (
            abs(np.int64(x[t]) - to_x)
            + abs(np.int64(y[t]) - to_y)
            - abs(np.int64(x[t]) - x[v])
            - abs(np.int64(y[t]) - y[v])
        )
    return change


@njit(cache=True, nogil=True)
def _shift_costs(begin, end, ids, weights, table, old, new):
    """Bring the cost tables of a group's neighbours up to date when it moves on one axis."""
    for e in range(begin, end):
        row = table[ids[e]]
        for c in range(row.size):
            row[c] += weights[e] * (abs(c - new) - abs(c - old))


@njit(cache=True, nogil=True)
def _swap_pulled(indptr, ids, weights, strength, layout, tables, tie, order, reach):
    """Let each group of `order` do its best swap; returns (swaps, change of the total cost).

    strength : sum of each group's weights
    layout, tables : `Layout` and `Tables`, kept up to date
    tie : scratch, shape (groups,), zero on entry and exit; weight from u to each group
    """
    x, y, at = layout.x, layout.y, layout.at
    columns, rows = tables.columns, tables.rows
    height, width = at.shape
    tabled = columns.shape[0] > 0
    own_columns = np.empty(width, np.int64)
    own_rows = np.empty(height, np.int64)
    swaps = 0
    total = np.int64(0)
    for u in order:
        begin, end = indptr[u], indptr[u + 1]
        ux, uy = np.int64(x[u]), np.int64(y[u])
        fx = np.int64(0)
        fy = np.int64(0)
        for e in range(begin, end):
            fx += weights[e] * (x[ids[e]] - ux)
            fy += weights[e] * (y[ids[e]] - uy)
            tie[ids[e]] = weights[e]
        # the quadrant (half-row, half-column) that the force points into
        x_low = max(0, ux - reach) if fx < 0 else ux
        x_high = min(width - 1, ux + reach) if fx > 0 else ux
        y_low = max(0, uy - reach) if fy < 0 else uy
        y_high = min(height - 1, uy + reach) if fy > 0 else uy
        if tabled:
            by_column = columns[u]
            by_row = rows[u]
        else:
            by_column = own_columns
            by_row = own_rows
            _axis_costs(begin, end, ids, weights, x, by_column, x_low, x_high)
            _axis_costs(begin, end, ids, weights, y, by_row, y_low, y_high)
        here = by_column[ux] + by_row[uy]
        best = np.int64(0)
        best_v = -1
        for row in range(y_low, y_high + 1):
            for column in range(x_low, x_high + 1):
                v = at[row, column]
                if v < 0 or v == u:
                    continue
                distance = abs(row - uy) + abs(column - ux)
                change = by_column[column] + by_row[row] - here
                if change - strength[v] * distance >= best:
                    continue  # not even if all of v's connections became shorter by the distance
                # each of the two is charged as if the other stayed: they keep their distance
                change += 2 * tie[v] * distance
                if tabled:
                    change += columns[v, ux] + rows[v, uy] - columns[v, column] - rows[v, row]
                else:
                    change += _cost_of_move(indptr[v], indptr[v + 1], ids, weights, x, y, v, ux, uy)
                if change < best:
                    best = change
                    best_v = v
        for e in range(begin, end):
            tie[ids[e]] = 0
        if best_v >= 0:
            v = best_v
            vx, vy = np.int64(x[v]), np.int64(y[v])
            if tabled:
                _shift_costs(begin, end, ids, weights, columns, ux, vx)
                _shift_costs(begin, end, ids, weights, rows, uy, vy)
                _shift_costs(indptr[v], indptr[v + 1], ids, weights, columns, vx, ux)
                _shift_costs(indptr[v], indptr[v + 1], ids, weights, rows, vy, uy)
            x[u], x[v] = vx, ux
            y[u], y[v] = vy, uy
            at[uy, ux] = v
            at[vy, vx] = u
            swaps += 1
            total += best
    return swaps, total


@njit(cache=True, nogil=True)
def _fill_tables(indptr, ids, weights, x, y, columns, rows):
    for u in range(indptr.size - 1):
        begin, end = indptr[u], indptr[u + 1]
        _axis_costs(begin, end, ids, weights, x, columns[u], 0, columns.shape[1] - 1)
        _axis_costs(begin, end, ids, weights, y, rows[u], 0, rows.shape[1] - 1)


@njit(cache=True, nogil=True)
def sum_hops(indptr, ids, weights, x, y):
    total = np.int64(0)
    for u in range(indptr.size - 1):
        for e in range(indptr[u], indptr[u + 1]):
            v = ids[e]
            total += weights[e] * (abs(np.int64(x[v]) - x[u]) + abs(np.int64(y[v]) - y[u]))
    return total


def hop_cost(groups: Subgraph, x: NDArray[np.int32], y: NDArray[np.int32]) -> int:
    """Sum over connections, each once, of weight times Manhattan distance."""
    return int(sum_hops(groups.indptr, groups.ids, groups.weights, x, y)) // 2


def refine_by_forces(
    groups: Subgraph,
    x: NDArray[np.int32],
    y: NDArray[np.int32],
    shape: tuple[int, int],
    share: float,
    iterations: int,
    memory: int,
    reach: int = REACH,
    clock: Clock = ENDLESS,
) -> int:
    """Swap groups until no swap of the hardest pulled helps; x and y change in place.

    x, y : ndarray[int32], shape (groups,), column and row on a chip of `shape` (height, width)
    share : part of the groups that is visited in an iteration
    memory : bytes that tables of costs may take; without them the same is computed, more slowly
    clock : says when to end early, with what is reached by then

    Returns the iterations done.
    """
    at = np.full(shape, -1, np.int32)
    at[y, x] = np.arange(x.size, dtype=np.int32)
    force_x, force_y = np.empty(x.size, np.int64), np.empty(x.size, np.int64)
    owner = np.repeat(np.arange(x.size), np.diff(groups.indptr))
    strength = np.zeros(x.size, np.int64)
    np.add.at(strength, owner, groups.weights)
    tabled = 8 * x.size * sum(shape) <= memory
    columns = np.zeros((x.size if tabled else 0, shape[1]), np.int64)
    rows = np.zeros((x.size if tabled else 0, shape[0]), np.int64)
    if tabled:
        _fill_tables(groups.indptr, groups.ids, groups.weights, x, y, columns, rows)
    layout, tables = Layout(x, y, at), Tables(columns, rows)
    tie = np.zeros(x.size, np.int64)
    top = max(1, math.ceil(share * x.size))
    for iteration in range(iterations):
        if clock.over():
            return iteration
        _forces(groups.indptr, groups.ids, groups.weights, x, y, force_x, force_y)
        magnitude = np.hypot(force_x, force_y)
        order = np.argsort(-magnitude, kind="stable")
        for begin in range(0, order.size, top):  # the next 5 % only when these are settled
            swaps, _ = _swap_pulled(
                groups.indptr, groups.ids, groups.weights, strength, layout, tables, tie,
                order[begin : begin + top], reach,
            )  # fmt: skip
            if swaps or clock.over():
                break
        if not swaps:
            return iteration + 1
    return iterations
