"""Where cores are and how far apart: in hops on a mesh, or only whether they are the same one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

NEAR = ((1, 0), (0, 1))  # steps from a core to the one that it exchanges with: its neighbours,
DIAGONAL = ((1, 1), (-1, 1))  # and those across a corner
HOPS = 2**31 - 1  # no distance is too far to count
CUT = 1  # all other cores are one hop away, so that hops are the weight of the cut

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


@njit(cache=True, nogil=True)
def _apart(a, b, column, row, most):
    """Distance of two cores, up to `most`."""
    return min(abs(column[a] - column[b]) + abs(row[a] - row[b]), most)


class Grid(NamedTuple):
    """A mesh as kernels take it: column and row of every core, and the rest as in `Mesh`."""

    column: Int32
    row: Int32
    capacities: Int64
    width: int
    height: int
    most: int


@dataclass(frozen=True, slots=True)
class Mesh:
    """Columns and rows of the cores, and what each may hold (0: not to be used).

    most : the distance at which distances stop to grow, `HOPS` or `CUT`
    """

    width: int
    height: int
    capacities: Int64
    most: int = HOPS

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
    def grid(self) -> Grid:
        return Grid(self.column, self.row, self.capacities, self.width, self.height, self.most)

    def pairs(self, steps: tuple[tuple[int, int], ...]) -> Iterator[Int64]:
        """Sets of pairs of cores, each of shape (pairs, 2); those of a set share none.

        steps : columns and rows from a core to its partner
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
