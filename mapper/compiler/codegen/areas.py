"""Parts of maps: in accumulators and buffers, and in the feature memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa import form_of
from mapper.compiler.memory.planner import Region
from mapper.compiler.schedule.inputs import Span
from mapper.errors import DoesNotFitError

_LOAD = {field.name: field.most for field in form_of("LOAD", "INP").fields}
MOST_PIXEL, MOST_ROW = _LOAD["x_stride"], _LOAD["y_stride"]


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
        top, bottom = _outside(self.rows, tensor.height)
        left, right = _outside(self.columns, tensor.width)
        pixel = self.blocks.size if self.columns.size == 1 else self.region.pixel
        row = 0 if self.rows.size == 1 else self.region.row
        if pixel > MOST_PIXEL or row > MOST_ROW:
            raise DoesNotFitError(
                f"{tensor.name!r}: {pixel:,} vectors from a pixel to the next and {row:,} from a "
                f"row to the next; loads and stores step {MOST_PIXEL:,} and {MOST_ROW:,} at most"
            )
        return {
            "src": self.region.vector(
                min(max(0, self.rows.first), tensor.height - 1),
                min(max(0, self.columns.first), tensor.width - 1),
                self.blocks.first,
            ),
            "c_size": self.blocks.size,
            "x_size": self.columns.size,
            "y_size": self.rows.size,
            "x_stride": pixel,
            "y_stride": row,
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
        found = self.region.vector(rows[:, None, None], columns[:, None], blocks).ravel()
        if self.region.high:
            return np.concatenate([found, found + self.region.high])
        return np.asarray(found)


def _outside(span: Span, length: int) -> tuple[int, int]:
    """Places of a span before the first and behind the last one of a map."""
    before = min(max(0, -span.first), span.size)
    return before, min(max(0, span.behind - length), span.size - before)
