"""Step 8: force-directed refinement by swaps of groups.

A connection of weight w pulls each of its ends towards the other with the force w * (distance
vector). The groups that are pulled hardest are visited first; each may swap places with the
group, among those that lie in the direction of its force, where the total cost falls most.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.partition.growing import Subgraph

REACH = 64  # columns and rows searched in the direction of the force; a 64x64 chip is searched whole


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
def _move_partner(begin, end, ids, weights, x, y, v, to_x, to_y, u):
    """Change of cost when v moves, without its connection to u; and that connection's weight."""
    change = np.int64(0)
    mutual = np.int64(0)
    for e in range(begin, end):
        t = ids[e]
        if t == u:
            mutual = weights[e]
            continue
        change += weights[e] * (
            abs(np.int64(x[t]) - to_x)
            + abs(np.int64(y[t]) - to_y)
            - abs(np.int64(x[t]) - x[v])
            - abs(np.int64(y[t]) - y[v])
        )
    return change, mutual


@njit(cache=True, nogil=True)
def _swap_pulled(indptr, ids, weights, strength, x, y, at, order, reach):
    """Let each group of `order` do its best swap; returns (swaps, change of the total cost).

    strength : sum of each group's weights
    at : group on each cell of the chip, shape (height, width), -1 where there is none
    """
    height, width = at.shape
    by_column = np.empty(width, np.int64)
    by_row = np.empty(height, np.int64)
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
        # the quadrant (half-row, half-column) that the force points into
        x_low = max(0, ux - reach) if fx < 0 else ux
        x_high = min(width - 1, ux + reach) if fx > 0 else ux
        y_low = max(0, uy - reach) if fy < 0 else uy
        y_high = min(height - 1, uy + reach) if fy > 0 else uy
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
                partner_change, mutual = _move_partner(
                    indptr[v], indptr[v + 1], ids, weights, x, y, v, ux, uy, u
                )
                # u's tables saw v where it was, at no distance; the two keep their distance
                change += partner_change + mutual * distance
                if change < best:
                    best = change
                    best_v = v
        if best_v >= 0:
            v = best_v
            x[u], x[v] = x[v], x[u]
            y[u], y[v] = y[v], y[u]
            at[y[u], x[u]] = u
            at[y[v], x[v]] = v
            swaps += 1
            total += best
    return swaps, total


@njit(cache=True, nogil=True)
def _hop_cost(indptr, ids, weights, x, y):
    total = np.int64(0)
    for u in range(indptr.size - 1):
        for e in range(indptr[u], indptr[u + 1]):
            v = ids[e]
            total += weights[e] * (abs(np.int64(x[v]) - x[u]) + abs(np.int64(y[v]) - y[u]))
    return total


def hop_cost(groups: Subgraph, x: NDArray[np.int32], y: NDArray[np.int32]) -> int:
    """Sum over connections, each once, of weight times Manhattan distance."""
    return int(_hop_cost(groups.indptr, groups.ids, groups.weights, x, y)) // 2


def refine_by_forces(
    groups: Subgraph,
    x: NDArray[np.int32],
    y: NDArray[np.int32],
    shape: tuple[int, int],
    share: float,
    iterations: int,
    reach: int = REACH,
) -> tuple[int, bool]:
    """Swap groups until no swap of the hardest pulled helps; x and y change in place.

    x, y : ndarray[int32], shape (groups,), column and row on a chip of `shape` (height, width)
    share : part of the groups that is visited in an iteration

    Returns the iterations done and whether it was interrupted (Ctrl-C keeps what is reached).
    """
    at = np.full(shape, -1, np.int32)
    at[y, x] = np.arange(x.size, dtype=np.int32)
    force_x, force_y = np.empty(x.size, np.int64), np.empty(x.size, np.int64)
    owner = np.repeat(np.arange(x.size), np.diff(groups.indptr))
    strength = np.zeros(x.size, np.int64)
    np.add.at(strength, owner, groups.weights)
    top = max(1, math.ceil(share * x.size))
    for iteration in range(iterations):
        try:
            _forces(groups.indptr, groups.ids, groups.weights, x, y, force_x, force_y)
            magnitude = np.hypot(force_x, force_y)
            order = np.argsort(-magnitude, kind="stable")
            for begin in range(0, order.size, top):  # the next 5 % only when these are settled
                swaps, _ = _swap_pulled(
                    groups.indptr, groups.ids, groups.weights, strength, x, y, at,
                    order[begin : begin + top], reach,
                )  # fmt: skip
                if swaps:
                    break
        except KeyboardInterrupt:
            return iteration, True
        if not swaps:
            return iteration + 1, False
    return iterations, False
