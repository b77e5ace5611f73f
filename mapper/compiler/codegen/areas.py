"""Parts of maps: in accumulators and buffers, and in the feature memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.memory.planner import Region
from mapper.compiler.schedule.tiles import Span


class Entries(NamedTuple):
    """A part of a map in accumulators: entry (block, row, column) at
    first + (block * rows + row) * columns + column."""

    first: int
    blocks: int
    rows: int
    columns: int

    @property
    def pixels(self) -> int:
        return self.rows * self.columns

    @property
    def cells(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.first + self.blocks * self.pixels)

    @property
    def behind(self) -> int:
        return self.first + self.blocks * self.pixels


@dataclass(slots=True)
class Area:
    """The part of a map that a load brings: pixels of the map, and how many of padding around."""

    region: Region
    rows: Span
    columns: Span
    blocks: Span

    def fields(self) -> dict[str, int]:
        tensor = self.region.tensor
        top, left = max(0, -self.rows.first), max(0, -self.columns.first)
        bottom = max(0, self.rows.behind - tensor.height)
        right = max(0, self.columns.behind - tensor.width)
        return {
            "src": self.region.vector(
                self.rows.first + top, self.columns.first + left, self.blocks.first
            ),
            "c_size": self.blocks.size,
            "x_size": self.columns.size,
            "y_size": self.rows.size,
            "x_stride": self.region.pixel,
            "y_stride": self.region.row,
            "pad_t": top,
            "pad_b": bottom,
            "pad_l": left,
            "pad_r": right,
        }

    def cells(self) -> NDArray[np.int64]:
        """The vectors in memory."""
        tensor = self.region.tensor
        rows = np.arange(max(0, self.rows.first), min(tensor.height, self.rows.behind))
        columns = np.arange(max(0, self.columns.first), min(tensor.width, self.columns.behind))
        blocks = np.arange(self.blocks.first, self.blocks.behind)
        return self.region.vector(rows[:, None, None], columns[:, None], blocks).ravel()
