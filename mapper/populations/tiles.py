"""Tiles of a population: channels x rows x columns that go to one core.

Neurons of a core are numbered by id, so a tile is row-major within each channel, with the same row
pitch in all channels. Inner pixels of a convolution then have synapse lists that are equal up to
the base. A dense population has one row, and its tiles are consecutive slices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


class Grid(NamedTuple):
    """Sides of a population, or the number of pieces along each side."""

    channels: int
    rows: int
    columns: int


def grid_of(shape: tuple[int, ...]) -> Grid:
    """Return the sides of a population whose spikes have this shape.

    (n,) is one row, (c, n) has a row per channel, and more than three axes have their inner axes
    joined to rows.
    """
    if len(shape) < 2:
        return Grid(1, 1, math.prod(shape))
    return Grid(shape[0], math.prod(shape[1:-1]), shape[-1])


def cuts_of(grid: Grid, tiles: int) -> Iterator[Grid]:
    """Yield the cuts of a population into this number of tiles, uncut columns and rows first."""
    for columns in range(1, min(tiles, grid.columns) + 1):
        if tiles % columns:
            continue
        rest = tiles // columns
        for rows in range(1, min(rest, grid.rows) + 1):
            if rest % rows == 0 and rest // rows <= grid.channels:
                yield Grid(rest // rows, rows, columns)


def tile_of(grid: Grid, cut: Grid) -> Int64:
    """Return the tile of each neuron, shape (neurons,); pieces of a side differ by at most 1."""
    channel, row, column = (
        np.arange(side) * pieces // side for side, pieces in zip(grid, cut, strict=True)
    )
    tile = (channel[:, None, None] * cut.rows + row[:, None]) * cut.columns + column
    return tile.reshape(-1)
