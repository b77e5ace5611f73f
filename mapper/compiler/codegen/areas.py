"""Parts of feature maps: in accumulators and buffers, and in the feature memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.tensor import NO_PAD
from mapper.compiler.memory.planner import Region
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.steps import most_of
from mapper.errors import DoesNotFitError

_LOAD = most_of("LOAD", "INP")
MOST_PIXEL, MOST_ROW, MOST_WRAP = _LOAD["x_stride"], _LOAD["y_stride"], _LOAD["wrap"]


class Entries(NamedTuple):
    """A part of a feature map in accumulators or in the input buffer. Entry (block, row, column) is
    at first + (block * rows + row) * columns + column. With `together` the blocks of a pixel are
    contiguous: first + (row * columns + column) * blocks + block."""

    first: int
    blocks: int
    rows: int
    columns: int
    together: bool = False

    @property
    def column_step(self) -> int:
        """Entries from a pixel to the next one in its row."""
        return self.blocks if self.together else 1

    @property
    def row_step(self) -> int:
        """Entries from a pixel to the one below it."""
        return self.columns * self.column_step

    @property
    def block_step(self) -> int:
        """Entries from a block of a pixel to the next block."""
        return 1 if self.together else self.pixels

    @property
    def pixels(self) -> int:
        return self.rows * self.columns

    @property
    def by_rows(self) -> dict[str, int]:
        """Counts and strides of an instruction that goes through the entries row by row."""
        return {
            "n_out": self.blocks * self.rows, "n_in": self.columns,
            "dst_out": self.columns, "dst_in": 1,
        }  # fmt: skip

    @property
    def by_blocks(self) -> dict[str, int]:
        """Counts and strides of an instruction that goes through the entries block by block."""
        return {"n_out": self.blocks, "n_in": self.pixels, "dst_out": self.pixels, "dst_in": 1}

    def cells(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.stop)

    @property
    def stop(self) -> int:
        return self.first + self.blocks * self.pixels


@dataclass(slots=True)
class LoadArea:
    """The part of a feature map that a load reads, including padding around the map.

    Padding stored around the map in memory is read from there if it holds the required value; the
    load generates all other padding.
    """

    region: Region
    rows: Span
    columns: Span
    blocks: Span

    def fields(self, padding: int | None = None, scale: int = 1) -> dict[str, int]:
        """Return the fields of a load or a store.

        padding : value of pixels outside the map; None if there are no such pixels
        scale : columns per pixel of a store that upsamples
        """
        tensor = self.region.tensor
        rows, columns = self._there(padding)
        top, bottom = _outside(self.rows, rows)
        left, right = _outside(self.columns, columns)
        pixel = self.blocks.size if self.columns.size == 1 else self.region.pixel
        wrap = self._wrap(columns, scale)
        row = 0 if self.rows.size == 1 and not wrap else self.region.row
        if pixel > MOST_PIXEL or row > MOST_ROW:
            raise DoesNotFitError(
                f"{tensor.name!r}: stride of {pixel:,} vectors between pixels and {row:,} between "
                f"rows; loads and stores allow at most {MOST_PIXEL:,} and {MOST_ROW:,}"
            )
        return {
            "src": self.region.vector(
                min(max(rows.first, self.rows.first), rows.stop - 1),
                min(max(columns.first, self.columns.first), columns.stop - 1),
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
            "pp": self.region.slots,
            **({"wrap": wrap} if wrap else {}),
        }

    def _wrap(self, columns: Span, scale: int) -> int:
        """Return the pixels before the end of a ring if the area reaches beyond it, else 0.

        columns : columns of the map in memory; scale : columns per pixel
        """
        ring = self.region.ring
        if ring is None:
            return 0
        there = columns.meet(self.columns)
        left = ring.columns - there.first % ring.columns
        if there.size > ring.columns or MOST_WRAP * scale < left < there.size:
            raise DoesNotFitError(
                f"{self.region.tensor.name!r}: a load of {there.size} columns has {left} before "
                f"the end of a ring of {ring.columns}; at most {MOST_WRAP} are possible"
            )
        return left // scale if left < there.size else 0

    def numbers(self, padding: int | None = None) -> NDArray[np.int64] | None:
        """Return the numbers of the vectors if they are in a ring, see `Region.number`."""
        if self.region.ring is None:
            return None
        return self._vectors(padding, self.region.number)

    def cells(self, padding: int | None = None) -> NDArray[np.int64]:
        """Return the addresses of the vectors in memory."""
        return self._vectors(padding, self.region.vector)

    def _vectors(self, padding: int | None, of: Callable[..., Any]) -> NDArray[np.int64]:
        rows, columns = (
            there.meet(span).cells
            for there, span in zip(self._there(padding), (self.rows, self.columns), strict=True)
        )
        blocks = self.blocks.cells
        found = of(rows[:, None, None], columns[:, None], blocks).ravel()
        if self.region.high:
            return np.concatenate([found, found + self.region.high])
        return np.asarray(found)

    def _there(self, padding: int | None) -> tuple[Span, Span]:
        """Return the rows and columns in memory, including stored padding."""
        tensor, (pad, value) = self.region.tensor, self.region.border
        if value != padding:
            pad = NO_PAD
        return (
            Span(-pad.top, tensor.height + pad.bottom), Span(-pad.left, tensor.width + pad.right)
        )  # fmt: skip


def _outside(span: Span, there: Span) -> tuple[int, int]:
    """Return how many positions of a span precede and follow the stored ones."""
    before = min(max(0, there.first - span.first), span.size)
    return before, min(max(0, span.stop - there.stop), span.size - before)
