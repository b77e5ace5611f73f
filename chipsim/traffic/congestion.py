"""Expected load of every router when spikes spread over all minimal paths.

A spike on its way to its target core only moves closer. At a router where both a horizontal and a
vertical step bring it closer it takes either with probability 1/2; elsewhere it goes straight.

Let a target be i columns and j rows away from the source. Until the spike enters the column or the
row of its target it is a plain random walk, so it visits the router (a, b) with a < i and b < j
with probability C(a + b, a) / 2^(a + b), independent of the target. In the column of the target it
goes straight, so it visits (i, b) with b < j if it has entered the column in a row up to b; the
same holds for the row. From one source, a router therefore receives

    inside * (weight of the targets beyond it in both directions)
    + down * (weight of the targets beyond it in its column)
    + across * (weight of the targets beyond it in its row)
    + the weight of targets at this router

with three probabilities that depend on the offset only. The weights are sums over rows and columns,
accumulated from the far corner: O(bounding box of the targets) per source core, 17 million steps
for a 64x64 mesh where every core sends to every other, and less for a mapping with local traffic.
All terms are positive, so nothing cancels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.model import Chip
from chipsim.protocols import FloatArray, Int32Array, Int64Array
from chipsim.traffic.routes import Routes, way


class Walks(NamedTuple):
    """Probabilities that a spike visits the router b rows and a columns away, at [b, a].

    inside : if its target is farther away in both directions
    down : if its target is in that column, farther away
    across : if its target is in that row, farther away
    """

    inside: FloatArray
    down: FloatArray
    across: FloatArray

    @classmethod
    def within(cls, rows: int, columns: int) -> Walks:
        """Return the tables for offsets of less than ``rows`` rows and ``columns`` columns."""
        walks = cls(*(np.zeros((rows, columns), dtype=np.float64) for _ in range(3)))
        _fill_walks(walks.inside, walks.down, walks.across)
        return walks


def router_loads(
    chip: Chip, walks: Walks, source: Int32Array, target: Int32Array, weight: Int64Array
) -> FloatArray:
    """Return the expected load per router, float64 of shape (rows, columns), in weight units.

    ``source``, ``target`` (core ids) and ``weight`` have shape (flows,), the flows of a source
    contiguous, and ``walks`` covers their offsets. A flow also loads the routers of its source and
    target; flows within a core load none. The result is bit-identical for the same flows in the
    same order.
    """
    routes, (columns, rows) = Routes.of(chip), chip.routers
    # On a torus the routers are laid out three times in both directions, with the source in the
    # middle copy, so that no way wraps round.
    copies = 3 if routes.torus else 1
    load = np.zeros((copies * rows, copies * columns), dtype=np.float64)
    lines = np.empty((2, load.shape[1]), dtype=np.float64)
    _spread(source, target, weight, walks, routes, np.zeros_like(load), lines, load)
    return load.reshape(copies, rows, copies, columns).sum(axis=(0, 2)) if routes.torus else load


@njit(cache=True, nogil=True)
def _fill_walks(inside, down, across):
    """Fill the tables of `Walks`; each has shape (rows, columns)."""
    tiny = 1e-280  # flush to 0: denormals are slow and far below rounding
    rows, columns = inside.shape
    for b in range(rows):
        for a in range(columns):
            if a == 0 and b == 0:
                chance = 1.0
            else:
                chance = 0.0
                if a > 0:
                    chance += 0.5 * inside[b, a - 1]
                if b > 0:
                    chance += 0.5 * inside[b - 1, a]
            inside[b, a] = chance if chance > tiny else 0.0
    for b in range(rows):
        for a in range(columns):
            # Straight on from the source, or from an earlier router of the line: the entering
            # spikes.
            down[b, a] = 1.0 if a == 0 else 0.5 * inside[b, a - 1]
            across[b, a] = 1.0 if b == 0 else 0.5 * inside[b - 1, a]
            if a > 0 and b > 0:
                down[b, a] += down[b - 1, a]
                across[b, a] += across[b, a - 1]


@njit(cache=True, nogil=True)
def _spread(source, target, weight, walks, routes, grid, lines, load):
    """Add the router loads of all flows to ``load``; ``grid`` is zero before and after.

    grid : shape of ``load``, weights of the current source by target
    lines : (2, columns of ``load``), scratch of `_quadrant`
    """
    width, torus = routes.column.size, routes.torus
    columns, rows = np.int64(routes.x.size), np.int64(routes.y.size)
    at = 0
    while at < len(source):
        s = source[at]
        y0, x0 = np.int64(routes.row[s // width]), np.int64(routes.column[s % width])
        if torus:
            y0, x0 = y0 + rows, x0 + columns
        # Largest offsets [rows, columns] in each quadrant; -1 without a target there.
        far = np.full((4, 2), -1)
        while at < len(source) and source[at] == s:
            t = target[at]
            if t != s:
                y = np.int64(routes.row[t // width])
                x = np.int64(routes.column[t % width])
                if torus:
                    y = y0 + way(y0 - rows, y, routes.y, routes.round_y)
                    x = x0 + way(x0 - columns, x, routes.x, routes.round_x)
                grid[y, x] += weight[at]  # cores of a tile share a place
                # Targets straight ahead belong to the quadrant of the larger coordinates.
                q = 2 * int(y < y0) + int(x < x0)
                far[q, 0] = max(far[q, 0], abs(y - y0))
                far[q, 1] = max(far[q, 1], abs(x - x0))
            at += 1
        for q in range(4):
            # A line between quadrants is read, and cleared, by its first owner.
            if far[q, 0] >= 0:
                steps = 1 if q < 2 else -1, 1 if q % 2 == 0 else -1
                _quadrant(grid, lines, load, walks, (y0, x0), steps, far[q, 0], far[q, 1])


@njit(cache=True, nogil=True)
def _quadrant(grid, lines, load, walks, source, steps, rows, columns):
    """Add the load of routers up to ``rows`` and ``columns`` away, from the farthest row inwards.

    source, steps : row and column of the source core, and the direction in each, 1 or -1
    """
    y0, x0 = source
    step_y, step_x = steps
    inside, down, across = walks.inside, walks.down, walks.across
    beyond_column = lines[0]  # weight farther away in the column
    beyond_both = lines[1]
    for i in range(columns + 1):
        beyond_column[i] = 0.0
        beyond_both[i] = 0.0
    for b in range(rows, -1, -1):
        y = y0 + step_y * b
        weights = grid[y]
        loads = load[y]
        inside_b = inside[b]
        down_b = down[b]
        across_b = across[b]
        beyond_row = 0.0  # weight farther away in the row
        for i in range(columns, -1, -1):
            # Unsigned indices save the compiler's test for negative ones: half of the time of this
            # loop, the hottest of this module.
            a = np.uint64(i)
            x = np.uint64(x0 + step_x * i)
            w = weights[x]
            weights[x] = 0.0
            loads[x] += (
                inside_b[a] * beyond_both[a]
                + down_b[a] * beyond_column[a]
                + across_b[a] * beyond_row
                + w
            )
            beyond_both[a] += beyond_row
            beyond_column[a] += w
            beyond_row += w
