"""Loads of the directed links of the mesh under XY routing (x first).

Loads are int64 of shape (4, rows, columns of routers): entry [d, y, x] is the link that leaves the
router in column x, row y towards DIRECTIONS[d]. Links that would leave the mesh stay 0; on a torus
they lead to its other end; `chipsim.chip.faults.working_links` selects the links that work. A route
is a run in the row of its source and a run in the column of its target, so adding it to differences
of shape (4, rows + 1, columns + 1) costs O(1); `loads_of` turns differences into loads. Eight more
arrays of the same shape may follow, or twelve if links are broken: they count where routes leave
their core and turn (`chipsim.traffic.turns`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from chipsim.chip.model import Chip
from chipsim.protocols import Int32Array, Int64Array
from chipsim.traffic.routes import Routes, add_route, add_turns, way
from chipsim.traffic.walks import add_detour

DIRECTIONS = ("east", "west", "south", "north")
"""x + 1, x - 1, y + 1, y - 1: row 0 is the northernmost."""


def new_differences(chip: Chip, turns: bool = True) -> Int64Array:
    """Return zero differences, shape (4 + turns, rows + 1, columns + 1).

    turns : whether to count 8 kinds of turns and entries, or 12 if links are broken
    """
    columns, rows = chip.routers
    kinds = (12 if chip.detoured else 8) if turns else 0
    return np.zeros((4 + kinds, rows + 1, columns + 1), dtype=np.int64)


def loads_of(differences: Int64Array) -> Int64Array:
    """Return link loads, shape (4, rows, columns), from differences."""
    loads = np.empty_like(differences[:4, :-1, :-1])
    np.cumsum(differences[:2, :-1, :-1], axis=2, out=loads[:2])
    np.cumsum(differences[2:4, :-1, :-1], axis=1, out=loads[2:])
    return loads


def turns_of(differences: Int64Array) -> Int64Array:
    """Return where routes enter and turn, shape (turns, rows, columns), 0 without turns."""
    return differences[4:, :-1, :-1].copy()


@dataclass(slots=True)
class Totals:
    """Sums over flows; ``hops_estimate`` is ``hops`` in float64, which cannot overflow.

    weight, cut : weight of all flows, and of flows that leave their core
    hops : weight * distance
    farthest : largest distance
    """

    weight: int = 0
    cut: int = 0
    hops: int = 0
    farthest: int = 0
    hops_estimate: float = 0.0

    def add(self, other: Totals) -> None:
        """Add the totals of other flows."""
        self.weight += other.weight
        self.cut += other.cut
        self.hops += other.hops
        self.farthest = max(self.farthest, other.farthest)
        self.hops_estimate += other.hops_estimate


def route_flows(
    chip: Chip, source: Int32Array, target: Int32Array, weight: Int64Array
) -> tuple[Int64Array, Totals]:
    """Route every flow as its own packet; return the differences and the totals.

    ``source``, ``target`` (core ids) and ``weight`` (positive) have shape (flows,).
    """
    differences = new_differences(chip)
    routes = Routes.of(chip)
    *sums, estimate = _unicast(source, target, weight, routes, differences)
    total, cut, hops, farthest = map(int, sums)
    return differences, Totals(total, cut, hops, farthest, float(estimate))


@njit(cache=True, nogil=True, inline="always")
def add_straight(diff, x0, y0, x, y, rate):
    """Add the XY route between two places to the differences."""
    if x > x0:
        diff[0, y0, x0] += rate
        diff[0, y0, x] -= rate
    elif x < x0:
        diff[1, y0, x + 1] += rate
        diff[1, y0, x0 + 1] -= rate
    if y > y0:
        diff[2, y0, x] += rate
        diff[2, y, x] -= rate
    elif y < y0:
        diff[3, y + 1, x] += rate
        diff[3, y0 + 1, x] -= rate
    if len(diff) > 4:
        add_turns(diff, x0, y0, x, x > x0, x < x0, y > y0, y < y0, rate)


@njit(cache=True, nogil=True)
def _unicast(source, target, weight, routes, diff):
    """Add the route of every flow to ``diff`` of `new_differences`."""
    width, torus = routes.column.size, routes.torus
    columns, detoured = np.int64(routes.x.size), len(routes.table) > 0
    total = 0
    cut = 0
    hops = 0
    farthest = 0
    estimate = 0.0
    for i in range(len(source)):
        w = weight[i]
        total += w
        if source[i] == target[i]:
            continue
        y0 = source[i] // width
        x0 = routes.column[source[i] - y0 * width]
        y0 = routes.row[y0]
        y1 = target[i] // width
        x1 = routes.column[target[i] - y1 * width]
        y1 = routes.row[y1]
        if detoured:
            d = add_detour(diff, routes, y0 * columns + x0, y1 * columns + x1, w)
        elif torus:
            dx = way(x0, x1, routes.x, routes.round_x)
            dy = way(y0, y1, routes.y, routes.round_y)
            add_route(diff, x0, y0, dx, dy, w)
            d = abs(dx) + abs(dy)
        else:
            d = np.int64(abs(x1 - x0) + abs(y1 - y0))
        cut += w
        hops += w * d
        estimate += float(w) * d
        farthest = max(farthest, d)
        if not (torus or detoured):
            add_straight(diff, x0, y0, x1, y1, w)
    return total, cut, hops, farthest, estimate
