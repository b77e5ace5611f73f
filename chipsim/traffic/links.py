"""Loads of the directed links of the mesh under XY routing (x first).

Loads are kept as int64 of shape (4, height, width): entry [d, y, x] is the link that leaves the
router in column x, row y towards DIRECTIONS[d]. Links that would leave the mesh stay 0. A route is
a run in the row of its source and a run in the column of its target, so it costs O(1) to note in a
difference array of shape (4, height + 1, width + 1); `loads_of` turns differences into loads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from chipsim.chip.model import Chip
from chipsim.protocols import Int32Array, Int64Array

DIRECTIONS = ("east", "west", "south", "north")
"""x + 1, x - 1, y + 1, y - 1: row 0 is the northernmost."""


def new_differences(chip: Chip) -> Int64Array:
    """Differences of an idle mesh, shape (4, height + 1, width + 1)."""
    return np.zeros((4, chip.height + 1, chip.width + 1), dtype=np.int64)


def loads_of(differences: Int64Array) -> Int64Array:
    """Link loads, shape (4, height, width), from differences (4, height + 1, width + 1)."""
    loads = np.empty_like(differences[:, :-1, :-1])
    np.cumsum(differences[:2, :-1, :-1], axis=2, out=loads[:2])
    np.cumsum(differences[2:, :-1, :-1], axis=1, out=loads[2:])
    return loads


def existing(loads: Int64Array) -> Int64Array:
    """The loads of the links that exist, shape (Chip.links,), direction by direction."""
    east, west, south, north = loads
    parts = (east[:, :-1], west[:, 1:], south[:-1], north[1:])
    return np.concatenate([part.ravel() for part in parts])


@dataclass(slots=True)
class Totals:
    """Sums over flows; ``hops_estimate`` is ``hops`` in float64, which cannot wrap around.

    weight, cut : weight of all flows, and of those that leave their core
    hops : weight * distance; farthest : largest distance
    """

    weight: int = 0
    cut: int = 0
    hops: int = 0
    farthest: int = 0
    hops_estimate: float = 0.0


def route_flows(
    chip: Chip, source: Int32Array, target: Int32Array, weight: Int64Array
) -> tuple[Int64Array, Totals]:
    """Send every flow along its XY route by itself: differences of the link loads, and the totals.

    ``source``, ``target`` (core ids) and ``weight`` (positive) have shape (flows,).
    """
    differences = new_differences(chip)
    *sums, estimate = _unicast(source, target, weight, chip.width, differences)
    total, cut, hops, farthest = map(int, sums)
    return differences, Totals(total, cut, hops, farthest, float(estimate))


@njit(cache=True, nogil=True)
def _unicast(source, target, weight, width, diff):
    """Note the XY route of every flow in ``diff``, shape (4, height + 1, width + 1)."""
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
        x0 = source[i] - y0 * width
        y1 = target[i] // width
        x1 = target[i] - y1 * width
        d = abs(x1 - x0) + abs(y1 - y0)
        cut += w
        hops += w * d
        estimate += float(w) * d
        farthest = max(farthest, d)
        if x1 > x0:
            diff[0, y0, x0] += w
            diff[0, y0, x1] -= w
        elif x1 < x0:
            diff[1, y0, x1 + 1] += w
            diff[1, y0, x0 + 1] -= w
        if y1 > y0:
            diff[2, y0, x1] += w
            diff[2, y1, x1] -= w
        elif y1 < y0:
            diff[3, y1 + 1, x1] += w
            diff[3, y0 + 1, x1] -= w
    return total, cut, hops, farthest, estimate
