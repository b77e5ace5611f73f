"""Positions of cores, distances between them (by coordinates, or 0 and 1 only), and exact hops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.machine import STRAIGHT, Axes, flat_axes
from chipsim.chip.model import Chip
from mapper.concurrency.threads import ThreadTeam
from mapper.graph.distance import along
from mapper.graph.rows import Rows
from storage.arrays import Int32, Int64

ADJACENT = ((1, 0), (0, 1))  # steps from a core to its exchange partner: adjacent cores
DIAGONAL = ((1, 1), (-1, 1))  # and cores across a corner
HOPS = 2**31 - 1  # distances are not capped
CUT = 1  # distances are capped at one hop, so that hops are the cut weight


class Grid(NamedTuple):
    """A mesh as kernels use it: column and row of every core, the other fields as in `CoreMesh`.

    x, y : coordinates of every core, shape (cores,)
    """

    column: Int32
    row: Int32
    capacities: Int64
    least: Int64
    width: int
    height: int
    most: int
    x: Int32
    y: Int32
    axes: Axes


@njit(cache=True, nogil=True)
def _apart(a, b, grid):
    """Return the distance of two cores, at most `most`."""
    x, y, axes = grid.x, grid.y, grid.axes
    far = along(x[a], x[b], axes.round_x) + along(y[a], y[b], axes.round_y)
    return min(far, grid.most)


@dataclass(frozen=True, slots=True)
class CoreMesh:
    """Columns and rows of the cores, and their capacities (0: not usable).

    most : the cap on distances, `HOPS` or `CUT`
    coordinates : coordinates of columns and rows; None if all steps cost 1
    bounds : ndarray[int64], shape (cores,), size that moves must leave on each core; None for 0
    """

    width: int
    height: int
    capacities: Int64
    most: int = HOPS
    coordinates: Axes | None = None
    bounds: Int64 | None = None

    @classmethod
    def of(cls, chip: Chip, capacities: Int64, bounds: Int64 | None = None) -> CoreMesh:
        """Return the mesh of a chip.

        capacities, bounds : most and least size of each core, shape (cores,)
        """
        return cls(chip.width, chip.height, capacities, HOPS, chip.axes, bounds)

    @classmethod
    def flat(cls, capacities: Int64) -> CoreMesh:
        """Return cores, or parts, without positions; their hops are the cut weight."""
        return cls(capacities.size, 1, capacities, CUT)

    @property
    def column(self) -> Int32:
        return np.arange(self.width * self.height, dtype=np.int32) % self.width

    @property
    def row(self) -> Int32:
        return np.arange(self.width * self.height, dtype=np.int32) // self.width

    @property
    def least(self) -> Int64:
        """Return the size that moves must leave on each core, shape (cores,)."""
        return np.zeros_like(self.capacities) if self.bounds is None else self.bounds

    @property
    def axes(self) -> Axes:
        """Return the coordinates of columns and rows."""
        return self.coordinates or flat_axes(self.width, self.height)

    @property
    def grid(self) -> Grid:
        column, row, axes = self.column, self.row, self.axes
        return Grid(
            column, row, self.capacities, self.least, self.width, self.height, self.most,
            axes.x[column], axes.y[row], axes,
        )  # fmt: skip

    def pairs(self, steps: tuple[tuple[int, int], ...]) -> Iterator[Int64]:
        """Yield sets of disjoint pairs of cores, each of shape (pairs, 2).

        steps : columns and rows from a core to its partner; on a torus they wrap around
        """
        cores = np.arange(self.width * self.height)
        column, row = cores % self.width, cores // self.width
        for dx, dy in steps:
            x, y = column + dx, row + dy
            there = (x >= 0) & (x < self.width) & (y < self.height)
            there[there] &= self.capacities[(y * self.width + x)[there]] > 0
            there &= self.capacities > 0
            turn = column // dx if dy == 0 else row // dy  # every second core starts a pair
            for odd in (0, 1):
                first = cores[there & (turn % 2 == odd)]
                if first.size:
                    yield np.column_stack([first, first + dy * self.width + dx])
            yield from self._round(dx, dy)

    def _round(self, dx: int, dy: int) -> Iterator[Int64]:
        """Yield pairs that wrap around a torus axis; in a short ring they are adjacent anyway."""
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


@njit(cache=True, nogil=True)
def _hop_cost(chunk, core, grid):
    """Sum the hops of the connections of a chunk, from the side of its vertices."""
    first, indptr, ids, weights = chunk
    total = np.int64(0)
    for i in range(indptr.size - 1):
        own = core[first + i]
        for e in range(indptr[i], indptr[i + 1]):
            apart = _apart(core[np.uint32(ids[e])], own, grid)
            total += np.int64(weights[e]) * apart
    return total


def hop_cost(rows: Rows, core: Int32, mesh: CoreMesh, team: ThreadTeam) -> int:
    """Return the hops of all connections, each counted at both of its ends.

    core : ndarray[int32], shape (vertices,); on a flat mesh hops are the cut weight, on a machine
        the costs of distances
    """
    grid = mesh.grid

    def look(index: int) -> int:
        return int(_hop_cost(rows.read(index), core, grid))

    return sum(team.stream(look, range(rows.chunks)))
