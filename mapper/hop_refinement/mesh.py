"""Where cores are and how far apart: by coordinates, or only whether they are the same one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.machine import STRAIGHT, Axes, flat_axes
from chipsim.chip.model import Chip
from mapper.graph.distance import along

NEAR = ((1, 0), (0, 1))  # steps from a core to the one that it exchanges with: its neighbours,
DIAGONAL = ((1, 1), (-1, 1))  # and those across a corner
HOPS = 2**31 - 1  # no distance is too far to count
CUT = 1  # all other cores are one hop away, so that hops are the weight of the cut

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


class Grid(NamedTuple):
    """A mesh as kernels take it: column and row of every core, and the rest as in `Mesh`.

    x, y : coordinates of every core, shape (cores,)
    """

    column: Int32
    row: Int32
    capacities: Int64
    width: int
    height: int
    most: int
    x: Int32
    y: Int32
    axes: Axes


@njit(cache=True, nogil=True)
def _apart(a, b, grid):
    """Distance of two cores, up to `most`."""
    x, y, axes = grid.x, grid.y, grid.axes
    far = along(x[a], x[b], axes.round_x) + along(y[a], y[b], axes.round_y)
    return min(far, grid.most)


@dataclass(frozen=True, slots=True)
class Mesh:
    """Columns and rows of the cores, and what each may hold (0: not to be used).

    most : the distance at which distances stop to grow, `HOPS` or `CUT`
    coordinates : of columns and rows; None for steps that all cost 1
    """

    width: int
    height: int
    capacities: Int64
    most: int = HOPS
    coordinates: Axes | None = None

    @classmethod
    def of(cls, chip: Chip, capacities: Int64) -> Mesh:
        """The cores of a chip; capacities : what each may hold, shape (cores,)"""
        return cls(chip.width, chip.height, capacities, HOPS, chip.axes)

    @classmethod
    def flat(cls, capacities: Int64) -> Mesh:
        """Cores without places, or parts, whose hops are the cut."""
        return cls(capacities.size, 1, capacities, CUT)

    @property
    def column(self) -> Int32:
        return np.arange(self.width * self.height, dtype=np.int32) % self.width

    @property
    def row(self) -> Int32:
        return np.arange(self.width * self.height, dtype=np.int32) // self.width

    @property
    def axes(self) -> Axes:
        """Coordinates of columns and rows."""
        return self.coordinates or flat_axes(self.width, self.height)

    @property
    def grid(self) -> Grid:
        column, row, axes = self.column, self.row, self.axes
        return Grid(
            column, row, self.capacities, self.width, self.height, self.most,
            axes.x[column], axes.y[row], axes,
        )  # fmt: skip

    def pairs(self, steps: tuple[tuple[int, int], ...]) -> Iterator[Int64]:
        """Sets of pairs of cores, each of shape (pairs, 2); those of a set share none.

        steps : columns and rows from a core to its partner, on a torus round the end too
        """
        cores = np.arange(self.width * self.height)
        column, row = cores % self.width, cores // self.width
        for dx, dy in steps:
            x, y = column + dx, row + dy
            there = (x >= 0) & (x < self.width) & (y < self.height)
            there[there] &= self.capacities[(y * self.width + x)[there]] > 0
            there &= self.capacities > 0
            turn = column // dx if dy == 0 else row // dy  # every second one begins a pair
            for odd in (0, 1):
                first = cores[there & (turn % 2 == odd)]
                if first.size:
                    yield np.column_stack([first, first + dy * self.width + dx])
            yield from self._round(dx, dy)

    def _round(self, dx: int, dy: int) -> Iterator[Int64]:
        """Pairs over the end of an axis that is a torus; in a short ring these are beside each
        other anyway.
        """
        x, y = self.column + dx, self.row + dy
        over_x, over_y = (x < 0) | (x >= self.width), (y < 0) | (y >= self.height)
        turns_x = self.axes.round_x != STRAIGHT and self.width > 2 * abs(dx)
        turns_y = self.axes.round_y != STRAIGHT and self.height > 2 * abs(dy)
        partner = y % self.height * self.width + x % self.width
        usable = (self.capacities > 0) & (self.capacities[partner] > 0)
        for there in (over_x & (turns_y | ~over_y) & turns_x, over_y & ~over_x & turns_y):
            first = np.flatnonzero(there & usable)
            if first.size:
                yield np.column_stack([first, partner[first]])
