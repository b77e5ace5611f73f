"""Positions of the routers of a chip, and the routes of spikes between them.

Cores of a tile share a router. Spikes go along the row first, then along the column, on a torus the
shorter way round by step cost; if both ways are equal, the one without wrap-around. If links are
broken, routes are stored in a table instead (`chipsim.detours`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.faults import place_of
from chipsim.chip.machine import STRAIGHT
from chipsim.chip.model import Chip
from chipsim.detours.search import RouteTable
from chipsim.detours.tables import detours_of
from chipsim.errors import ChipError
from chipsim.protocols import Int32Array, Int64Array


class Routes(NamedTuple):
    """Routers as kernels read them.

    column, row : ndarray[int32], router of every column and row of cores
    x, y : ndarray[int32], coordinates of every column and row of routers
    round_x, round_y : as in `chipsim.chip.machine.Axes`
    torus : True if any axis is a ring
    table : ndarray[uint16], the routes from every router, of `chipsim.detours.search`; shape (0, 0)
        if no link is broken
    """

    column: Int32Array
    row: Int32Array
    x: Int32Array
    y: Int32Array
    round_x: int
    round_y: int
    torus: bool
    table: RouteTable

    @classmethod
    def of(cls, chip: Chip) -> Routes:
        """Return the routers of a chip."""
        wide, tall = (1, 1) if chip.machine is None else chip.machine.tile_size
        axes, detours = chip.axes, detours_of(chip)
        column, row = (np.arange(n, dtype=np.int32) for n in (chip.width, chip.height))
        return cls(
            column // np.int32(wide),
            row // np.int32(tall),
            np.ascontiguousarray(axes.x[::wide]),
            np.ascontiguousarray(axes.y[::tall]),
            axes.round_x,
            axes.round_y,
            axes.round_x != STRAIGHT or axes.round_y != STRAIGHT,
            np.zeros((0, 0), np.uint16) if detours is None else detours.routes,
        )

    def of_cores(self) -> tuple[Int32Array, Int32Array]:
        """Return column and row of the router of every core, each shape (cores,)."""
        return np.tile(self.column, self.row.size), np.repeat(self.row, self.column.size)


def distances_of(chip: Chip) -> int:
    """Return the number of distances between routers in hops: 0 to the longest route."""
    detours = detours_of(chip)
    return sum(chip.routers) - 1 if detours is None else detours.longest + 1


def require_routes(chip: Chip, used: Int64Array) -> None:
    """Raise `ChipError` if broken links separate some of the cores in use from the others.

    used : ids of these cores; the chip ensures routes between usable ones
    """
    detours = detours_of(chip)
    if detours is None or not used.size:
        return
    columns, rows = Routes.of(chip).of_cores()
    router = rows[used].astype(np.int64) * chip.routers[0] + columns[used]
    cut = np.flatnonzero(~detours.reaches(int(router[0]))[router])
    if cut.size:
        a, b = (place_of(chip, int(core)) for core in used[[0, cut[0]]])
        raise ChipError(
            f"chip {chip.name}: no route leads from core {a} to core {b}, which are both in use; "
            "their links are broken: leave one empty"
        )


@njit(cache=True, nogil=True)
def way(a, b, at, around):
    """Return steps between two columns (or rows) of routers, negative westwards (northwards).

    at, around : coordinates of the routers, and the circumference
    """
    steps = np.int64(b) - a
    if 2 * abs(np.int64(at[b]) - at[a]) > around and steps != 0:
        steps += -at.size if steps > 0 else at.size
    return steps


@njit(cache=True, nogil=True)
def leg(ahead, back, start, steps, weight):
    """Add steps along a row (or column) to the differences of its link loads.

    ahead, back : differences of the links towards higher and lower positions, shape (length + 1,)
    """
    length = ahead.size - 1
    if steps > 0:
        ahead[start] += weight
        if start + steps < length:
            ahead[start + steps] -= weight
        else:  # wraps round
            ahead[length] -= weight
            ahead[0] += weight
            ahead[start + steps - length] -= weight
    elif steps < 0:
        back[start + 1] -= weight
        first = start + steps + 1
        if first >= 0:
            back[first] += weight
        else:
            back[0] += weight
            back[length] -= weight
            back[length + first] += weight


@njit(cache=True, nogil=True, inline="always")
def add_turns(diff, x0, y0, x, east, west, south, north, weight):
    """Add the places where a route leaves its core and turns (`chipsim.traffic.turns`).

    x : column in which it ends
    east, west, south, north : directions that it takes
    """
    if east or west:
        diff[4 if east else 5, y0, x0] += weight
    if south or north:
        diff[6 + 2 * east + 4 * west + north, y0, x] += weight


@njit(cache=True, nogil=True)
def add_route(diff, x0, y0, dx, dy, weight):
    """Add an XY route of dx, dy steps to ``diff``, in the form of `chipsim.traffic.links`."""
    leg(diff[0, y0], diff[1, y0], x0, dx, weight)
    x = x0 + dx
    if x < 0:
        x += diff.shape[2] - 1
    elif x >= diff.shape[2] - 1:
        x -= diff.shape[2] - 1
    leg(diff[2, :, x], diff[3, :, x], y0, dy, weight)
    if len(diff) > 4:
        add_turns(diff, x0, y0, x, dx > 0, dx < 0, dy > 0, dy < 0, weight)
