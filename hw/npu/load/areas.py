"""Steps of a load from an area of a feature map: vectors to read, destinations, and padding.

Contiguous pixels are read as one row; otherwise a cycle reads a single pixel only. A step reads
neighbouring vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value

from hw.npu.isa.instruction import Word
from hw.npu.shape import Widths

ADDRESS = 32
"""Bits of address sums; a memory uses the low ones."""

NAMES = ("x", "c", "part", "block", "pixel")


class Lane(NamedTuple):
    """One of the vectors of a step.

    valid : the lane holds a vector
    pad : the vector is padding
    to : destination entry in the buffer
    part : number of the vector within its entry
    """

    valid: Value
    pad: Value
    to: Value
    part: Value


class Area:
    """Counters of a load from an area.

    first : address of the first vector of a step
    lanes : lanes of a step
    last : the step is the last one
    """

    def __init__(self, m: Module, size: Widths, f: Word, whole: Value, source: Value) -> None:
        """f : fields of the instruction
        whole : entries of several vectors (ACC32)
        source : address of the first pixel of the map
        """
        self.m, self.size, self.f, self.whole, self.source = m, size, f, whole, source
        self.y, self.x, self.c = Signal(8), Signal(9), Signal(6)
        self.part = Signal(range(max(2, size.entry)))
        self.plane = Signal(17)  # entries per block
        self.block = Signal(ADDRESS)  # first entry of a block, relative to the area
        self.row, self.pixel = Signal(ADDRESS), Signal(ADDRESS)  # addresses
        self.row_to = Signal(ADDRESS)  # entry of the first pixel of a row
        self.first = Signal(ADDRESS)
        self.last = Signal()
        self.lanes: list[Lane] = []
        self._chain()

    @property
    def empty(self) -> Value:
        f = self.f
        return (f.c_size == 0) | (f.x_size == 0) | (f.y_size == 0)

    def set_up(self) -> None:
        """Start at the first step; must be called in the domain of the surrounding logic."""
        f = self.f
        row = self.source - f.pad_t * f.y_stride - f.pad_l * f.x_stride
        self.m.d.sync += [
            self.y.eq(0), self.x.eq(0), self.c.eq(0), self.part.eq(0), self.block.eq(0),
            self.row.eq(row), self.pixel.eq(row), self.row_to.eq(f.dst),
            self.plane.eq(f.y_size * f.x_size),
        ]  # fmt: skip

    def step(self) -> None:
        """Go to the next step; must be called in the domain of the surrounding logic."""
        f = self.f
        with self.m.If(self._row_ends):
            self.m.d.sync += [
                self.y.eq(self.y + 1), self.x.eq(0), self.c.eq(0), self.part.eq(0),
                self.block.eq(0), self.row.eq(self.row + f.y_stride),
                self.pixel.eq(self.row + f.y_stride), self.row_to.eq(self.row_to + f.x_size),
            ]  # fmt: skip
        with self.m.Else():
            x, c, part, block, pixel = self._next
            self.m.d.sync += [
                self.x.eq(x), self.c.eq(c), self.part.eq(part), self.block.eq(block),
                self.pixel.eq(pixel),
            ]  # fmt: skip

    def _chain(self) -> None:
        """Chain the vectors of a step; lanes after the end of a pixel or row are invalid."""
        m, f, size = self.m, self.f, self.size
        shift = (size.entry - 1).bit_length()
        m.d.comb += self.first.eq(self.pixel + Mux(self.whole, self.c << shift, self.c) + self.part)
        flat = (f.x_stride == f.c_size) & (f.wrap == 0)
        turn = Signal(10)  # first pixel of the area at the start of a ring
        m.d.comb += turn.eq(f.pad_l + f.wrap)
        above = (self.y < f.pad_t) | (self.y + f.pad_b >= f.y_size)
        state: Any = (self.x, self.c, self.part, self.block, self.pixel)
        valid: Value = Value.cast(1)
        row_ends: Value = Value.cast(0)
        for number in range(size.loads):
            x, c, part, block, pixel = state
            pad = above | (x < f.pad_l) | (x + f.pad_r >= f.x_size)
            self.lanes.append(Lane(valid, pad, self.row_to + x + block, part))
            entry_ends = ~self.whole | (part == size.entry - 1)
            pixel_ends = entry_ends & (c + 1 == f.c_size)
            ends = pixel_ends & (x + 1 == f.x_size)
            back = Mux((f.wrap != 0) & (x + 1 == turn), f.y_stride, 0)
            after = (
                Mux(pixel_ends, x + 1, x),
                Mux(pixel_ends, 0, Mux(entry_ends, c + 1, c)),
                Mux(entry_ends, 0, part + 1),
                Mux(pixel_ends, 0, Mux(entry_ends, block + self.plane, block)),
                Mux(pixel_ends, pixel + f.x_stride - back, pixel),
            )
            held = []
            for name, new, old in zip(NAMES, after, state, strict=True):
                value = Signal(len(Value.cast(getattr(self, name))), name=f"{name}_{number}")
                m.d.comb += value.eq(Mux(valid, new, old))
                held.append(value)
            row_ends = row_ends | (valid & ends)
            follows = Signal(name=f"valid_{number + 1}")
            m.d.comb += follows.eq(valid & ~ends & (flat | ~pixel_ends))
            state, valid = tuple(held), follows
        self._next = state
        self._row_ends = Signal()
        m.d.comb += [
            self._row_ends.eq(row_ends),
            self.last.eq(row_ends & (self.y + 1 == f.y_size)),
        ]
