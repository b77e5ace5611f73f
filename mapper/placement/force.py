"""Step 8: force-directed refinement by swaps of groups.

A connection of weight w pulls each of its ends towards the other with the force w * (distance
vector). Groups with the strongest forces are visited first; each may swap with the group, among
those in the direction of its force, that lowers the total cost most.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.machine import STRAIGHT, Axes
from mapper.graph.by_label import sums_by_label
from mapper.graph.csr import Subgraph
from mapper.graph.distance import along, towards
from mapper.placement.clock import ENDLESS, Clock
from storage.arrays import Int32, Int64

Lists = tuple[Int64, Int32, Int64]
REACH = 64  # columns and rows searched along the force: all of a 64x64 chip


class GroupLayout(NamedTuple):
    """Positions of groups.

    x, y : column and row of each group, shape (groups,)
    at : group on each cell of the chip, shape (height, width), -1 for none
    axes : coordinates of columns and rows
    """

    x: Int32
    y: Int32
    at: Int32
    axes: Axes


class CostTables(NamedTuple):
    """Cost of every group in every column and row; empty if memory does not suffice."""

    columns: Int64
    rows: Int64


@njit(cache=True, nogil=True)
def _forces(indptr, ids, weights, x, y, axes, force_x, force_y):
    for u in range(indptr.size - 1):
        fx = np.int64(0)
        fy = np.int64(0)
        for e in range(indptr[u], indptr[u + 1]):
            v = ids[e]
            fx += weights[e] * towards(np.int64(axes.x[x[u]]), axes.x[x[v]], axes.round_x)
            fy += weights[e] * towards(np.int64(axes.y[y[u]]), axes.y[y[v]], axes.round_y)
        force_x[u] = fx
        force_y[u] = fy


@njit(cache=True, nogil=True)
def _axis_costs(begin, end, ids, weights, position, axis, cost, low, high):
    """Compute cost[c] for low <= c <= high: weight times distance, on one axis, of a group at c.

    axis : coordinates, and circumference
    """
    at, around = axis
    for c in range(low, high + 1):
        cost[c] = 0
    for e in range(begin, end):
        p = np.int64(at[position[ids[e]]])
        for c in range(low, high + 1):
            cost[c] += weights[e] * along(p, at[c], around)


@njit(cache=True, nogil=True)
def _cost_of_move(begin, end, ids, weights, layout, v, to):
    """Return the change of the cost of v's connections when only v moves to a column and row."""
    x, y, axes = layout.x, layout.y, layout.axes
    change = np.int64(0)
    to_x, to_y = np.int64(axes.x[to[0]]), np.int64(axes.y[to[1]])
    from_x, from_y = np.int64(axes.x[x[v]]), np.int64(axes.y[y[v]])
    for e in range(begin, end):
        t = ids[e]
        there_x, there_y = np.int64(axes.x[x[t]]), np.int64(axes.y[y[t]])
        change += weights[e] * (
            along(there_x, to_x, axes.round_x)
            + along(there_y, to_y, axes.round_y)
            - along(there_x, from_x, axes.round_x)
            - along(there_y, from_y, axes.round_y)
        )
    return change


@njit(cache=True, nogil=True)
def _shift_costs(begin, end, ids, weights, table, axis, old, new):
    """Update the cost tables of a group's neighbours when it moves on one axis."""
    at, around = axis
    before, after = np.int64(at[old]), np.int64(at[new])
    for e in range(begin, end):
        row = table[ids[e]]
        for c in range(row.size):
            row[c] += weights[e] * (along(at[c], after, around) - along(at[c], before, around))


@njit(cache=True, nogil=True)
def _reached(fx, fy, ux, uy, layout, reach):
    """Return the ranges of columns and rows in the direction of a force, ends included."""
    height, width = layout.at.shape
    x_low = max(0, ux - reach) if fx < 0 else ux
    x_high = min(width - 1, ux + reach) if fx > 0 else ux
    y_low = max(0, uy - reach) if fy < 0 else uy
    y_high = min(height - 1, uy + reach) if fy > 0 else uy
    if layout.axes.round_x != STRAIGHT:  # wrapping around may be shorter
        x_low, x_high = 0, width - 1
    if layout.axes.round_y != STRAIGHT:
        y_low, y_high = 0, height - 1
    return x_low, x_high, y_low, y_high


@njit(cache=True, nogil=True)
def _swap(indptr, ids, weights, layout, tables, u, v):
    """Swap two groups, and update the tables of their neighbours if there are any."""
    x, y, at, axes = layout.x, layout.y, layout.at, layout.axes
    on_x, on_y = (axes.x, axes.round_x), (axes.y, axes.round_y)
    ux, uy, vx, vy = np.int64(x[u]), np.int64(y[u]), np.int64(x[v]), np.int64(y[v])
    if tables.columns.shape[0] > 0:
        for w, old_x, new_x, old_y, new_y in ((u, ux, vx, uy, vy), (v, vx, ux, vy, uy)):
            begin, end = indptr[w], indptr[w + 1]
            _shift_costs(begin, end, ids, weights, tables.columns, on_x, old_x, new_x)
            _shift_costs(begin, end, ids, weights, tables.rows, on_y, old_y, new_y)
    x[u], x[v] = vx, ux
    y[u], y[v] = vy, uy
    at[uy, ux] = v
    at[vy, vx] = u


@njit(cache=True, nogil=True)
def _swap_pulled(indptr, ids, weights, strength, layout, tables, tie, order, reach):
    """Make the best swap of each group of `order`; return (swaps, change of the total cost).

    strength : sum of each group's weights
    layout, tables : `GroupLayout` and `CostTables`, kept up to date
    tie : scratch, shape (groups,), zero on entry and exit; weight from u to each group
    """
    x, y, at, axes = layout.x, layout.y, layout.at, layout.axes
    on_x, on_y = (axes.x, axes.round_x), (axes.y, axes.round_y)
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
            fx += weights[e] * towards(np.int64(axes.x[ux]), axes.x[x[ids[e]]], axes.round_x)
            fy += weights[e] * towards(np.int64(axes.y[uy]), axes.y[y[ids[e]]], axes.round_y)
            tie[ids[e]] = weights[e]
        x_low, x_high, y_low, y_high = _reached(fx, fy, ux, uy, layout, reach)
        if tabled:
            by_column = columns[u]
            by_row = rows[u]
        else:
            by_column = own_columns
            by_row = own_rows
            _axis_costs(begin, end, ids, weights, x, on_x, by_column, x_low, x_high)
            _axis_costs(begin, end, ids, weights, y, on_y, by_row, y_low, y_high)
        here = by_column[ux] + by_row[uy]
        best = np.int64(0)
        best_v = -1
        for row in range(y_low, y_high + 1):
            for column in range(x_low, x_high + 1):
                v = at[row, column]
                if v < 0 or v == u:
                    continue
                distance = along(np.int64(axes.x[column]), axes.x[ux], axes.round_x)
                distance += along(np.int64(axes.y[row]), axes.y[uy], axes.round_y)
                change = by_column[column] + by_row[row] - here
                if change - strength[v] * distance >= best:
                    continue  # not even if v's connections all became shorter by the distance
                # the distance of u and v does not change: undo its price
                change += 2 * tie[v] * distance
                if tabled:
                    change += columns[v, ux] + rows[v, uy] - columns[v, column] - rows[v, row]
                else:
                    change += _cost_of_move(
                        indptr[v], indptr[v + 1], ids, weights, layout, v, (ux, uy)
                    )
                if change < best:
                    best = change
                    best_v = v
        for e in range(begin, end):
            tie[ids[e]] = 0
        if best_v >= 0:
            _swap(indptr, ids, weights, layout, tables, u, best_v)
            swaps += 1
            total += best
    return swaps, total


@njit(cache=True, nogil=True)
def _fill_tables(indptr, ids, weights, layout, columns, rows):
    x, y, axes = layout.x, layout.y, layout.axes
    on_x, on_y = (axes.x, axes.round_x), (axes.y, axes.round_y)
    for u in range(indptr.size - 1):
        begin, end = indptr[u], indptr[u + 1]
        _axis_costs(begin, end, ids, weights, x, on_x, columns[u], 0, columns.shape[1] - 1)
        _axis_costs(begin, end, ids, weights, y, on_y, rows[u], 0, rows.shape[1] - 1)


@njit(cache=True, nogil=True)
def sum_hops(indptr, ids, weights, x, y, round_x, round_y):
    """Return weight times distance over all connections; x, y : coordinates of the groups."""
    total = np.int64(0)
    for u in range(indptr.size - 1):
        for e in range(indptr[u], indptr[u + 1]):
            v = ids[e]
            apart = along(np.int64(x[v]), x[u], round_x) + along(np.int64(y[v]), y[u], round_y)
            total += weights[e] * apart
    return total


def hops_of(csr: Lists, x: Int32, y: Int32, axes: Axes) -> int:
    """Return the sum over list entries of weight times distance; x, y : columns and rows."""
    return int(sum_hops(*csr, axes.x[x], axes.y[y], axes.round_x, axes.round_y))


def hop_cost(groups: Subgraph, x: Int32, y: Int32, axes: Axes) -> int:
    """Return weight times distance over connections, each once; x, y : columns and rows."""
    return hops_of((groups.indptr, groups.ids, groups.weights), x, y, axes) // 2


def refine_by_forces(
    groups: Subgraph,
    x: Int32,
    y: Int32,
    axes: Axes,
    share: float,
    iterations: int,
    memory: int,
    clock: Clock = ENDLESS,
) -> int:
    """Swap groups until no swap of the groups with the strongest forces helps; changes x and y.

    x, y : ndarray[int32], shape (groups,), column and row on a chip with these coordinates
    share : share of the groups that is visited in an iteration
    memory : bytes for tables of costs; without tables the result is the same, but slower
    clock : ends refinement early, with the result so far

    Returns the number of iterations.
    """
    shape = axes.shape
    at = np.full(shape, -1, np.int32)
    at[y, x] = np.arange(x.size, dtype=np.int32)
    force_x, force_y = np.empty(x.size, np.int64), np.empty(x.size, np.int64)
    owner = np.repeat(np.arange(x.size), np.diff(groups.indptr))
    strength = sums_by_label(owner, groups.weights, x.size)
    csr, layout = (groups.indptr, groups.ids, groups.weights), GroupLayout(x, y, at, axes)
    tabled = 8 * x.size * sum(shape) <= memory
    columns = np.zeros((x.size if tabled else 0, shape[1]), np.int64)
    rows = np.zeros((x.size if tabled else 0, shape[0]), np.int64)
    if tabled:
        _fill_tables(*csr, layout, columns, rows)
    tables = CostTables(columns, rows)
    tie = np.zeros(x.size, np.int64)
    top = max(1, math.ceil(share * x.size))
    for iteration in range(iterations):
        if clock.over():
            return iteration
        _forces(*csr, x, y, axes, force_x, force_y)
        magnitude = np.hypot(force_x, force_y)
        order = np.argsort(-magnitude, kind="stable")
        for begin in range(0, order.size, top):  # the next share only if no swap helps
            swaps, _ = _swap_pulled(
                *csr, strength, layout, tables, tie, order[begin : begin + top], REACH
            )
            if swaps or clock.over():
                break
        if not swaps:
            return iteration + 1
    return iterations
