"""Legalisation: assign a cell to each group by its coordinates, by recursive splits.

The cells are cut across their longer side near the middle, and each side gets as many groups, in
order of their coordinates on that axis; both sides are split further (as in Quinn and Breuer's and
other top-down placers). Densities even out on every scale, so that dense areas spread towards free
cells. Cuts run between columns or rows: exact halves of an odd side would end within one, and made
a grid of groups on its own mesh of 11x11 50 % longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from chipsim.chip.machine import Axes
from storage.arrays import Float64, Int32, Int64

Places = tuple[Int32, Int32]
"""Columns and rows of groups, each of shape (groups,)."""


@dataclass(frozen=True, slots=True)
class Splits:
    """The cuts of a set of cells.

    cells : ndarray[int64], shape (n, 2), columns and rows, ordered so that every piece is a slice
    cuts : ndarray[int64], shape (n - 1, 4): begin, middle and end of a piece, and the axis whose
        coordinates decide (0: columns); pieces precede their halves
    axes : coordinates of all columns and rows
    """

    cells: Int64
    cuts: Int64
    axes: Axes


def split_cells(cells: Int64, axes: Axes) -> Splits:
    """Cut cells, shape (n, 2), between columns or rows down to single cells.

    axes : coordinates of columns and rows, which determine the longer side
    """
    n = len(cells)
    ends = np.array([0, n]) if n else np.zeros(1, np.int64)
    cuts = [np.empty((0, 4), np.int64)]
    while ends.size - 1 < n:
        size = np.diff(ends)
        first = ends[:-1]
        low, high = np.minimum.reduceat(cells, first), np.maximum.reduceat(cells, first)
        count, span = high - low, axes.places(high) - axes.places(low)
        # Cores of a tile have the same position: if both lengths are 0, the side with more cells.
        longer, more = (each[:, 0] - each[:, 1] for each in (span, count))
        axis = np.where((longer > 0) | ((longer == 0) & (more >= 0)), 0, 1)
        piece = np.repeat(np.arange(size.size), size)
        by_row = axis[piece] == 1
        major = np.where(by_row, cells[:, 1], cells[:, 0])
        minor = np.where(by_row, cells[:, 0], cells[:, 1])
        order = np.lexsort((minor, major, piece))
        cells, major = cells[order], major[order]
        # the boundary of a column (or row) nearest to the middle of the piece
        start = np.append(True, (np.diff(major) != 0) | (np.diff(piece) != 0))
        starts = np.append(np.flatnonzero(start), n)
        after = np.searchsorted(starts, first + size // 2, side="right")
        low, high = starts[after - 1], starts[after]
        nearer = (2 * high - first - ends[1:] < first + ends[1:] - 2 * low) & (high < ends[1:])
        middle = np.where(nearer | (low == first), high, low)
        cut = np.column_stack([first, middle, ends[1:], axis])
        cuts.append(cut[size > 1])
        ends = np.unique(np.concatenate([ends, middle]))
    return Splits(cells, np.concatenate(cuts), axes)


@njit(cache=True, nogil=True)
def _split_ranks(cuts, position, order):
    """Sort groups into the cells: order[i] becomes the group on cell i.

    position : ndarray[float64], shape (n, 2); ties by number
    order : ndarray[int64], shape (n,), all groups, changed (by Hoare's selection at every cut)
    """
    for k in range(cuts.shape[0]):
        low, middle, high, axis = cuts[k, 0], cuts[k, 1], cuts[k, 2] - 1, cuts[k, 3]
        while low < high:
            pivot = order[(low + high) // 2]
            value = position[pivot, axis]
            i, j = low, high
            while i <= j:
                while True:
                    p = position[order[i], axis]
                    if p > value or (p == value and order[i] >= pivot):
                        break
                    i += 1
                while True:
                    p = position[order[j], axis]
                    if p < value or (p == value and order[j] <= pivot):
                        break
                    j -= 1
                if i <= j:
                    order[i], order[j] = order[j], order[i]
                    i += 1
                    j -= 1
            if middle <= j:
                high = j
            elif middle >= i:
                low = i
            else:
                break


def ranked(splits: Splits, position: Float64) -> Int64:
    """Return the group on each cell of `splits`, by the relative order of their positions."""
    order = np.arange(len(position), dtype=np.int64)
    _split_ranks(splits.cuts, position, order)
    return order


def on_cells(order: Int64, cells: Int64) -> Places:
    """Return column and row of each group, with group order[i] on cell i; cells : shape (n, 2)"""
    x, y = np.empty((2, order.size), np.int32)
    x[order], y[order] = cells.T
    return x, y


def legalise(splits: Splits, position: Float64) -> Places:
    """Return column and row of each group, by the relative order of positions, shape (n, 2)."""
    return on_cells(ranked(splits, position), splits.cells)
