"""Loads of the directed links of the mesh under XY routing (x first).

Loads are kept as int64 of shape (4, height, width): entry [d, y, x] is the link that leaves the
router in column x, row y towards DIRECTIONS[d]. Links that would leave the mesh stay 0. A route is
a run in the row of its source and a run in the column of its target, so it costs O(1) to note in a
difference array of shape (4, height + 1, width + 1); `loads_of` turns differences into loads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.chip import Chip
from chipsim.protocols import Int64Array

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


def unicast_loads(
    chip: Chip, source: Int64Array, target: Int64Array, weight: Int64Array
) -> Int64Array:
    """Link loads, shape (4, height, width), when every spike takes its XY route by itself.

    ``source``, ``target`` (core ids) and ``weight`` have shape (flows,).
    """
    differences = new_differences(chip)
    _unicast(source, target, weight, chip.width, differences)
    return loads_of(differences)


@njit(cache=True, nogil=True)
def _unicast(
    source: Int64Array, target: Int64Array, weight: Int64Array, width: int, diff: Int64Array
) -> None:
    """Note the XY route of every flow in ``diff``, shape (4, height + 1, width + 1)."""
    for i in range(len(source)):
        w = weight[i]
        y0 = source[i] // width
        x0 = source[i] - y0 * width
        y1 = target[i] // width
        x1 = target[i] - y1 * width
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
