"""Distribution of feature maps over cores, as boxes of the maps that own regions.

Parts of concatenations and splits share a region on one core, and also on several: a reader of the
whole receives each part from the core that computes it. A core stores the parts of an owner that
its layers read in one region, their bounding box; for planes each layer has its own region.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from mapper.compiler.ir.node import Upsample
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.layouts import WORD_VECTORS, plane_words
from mapper.compiler.memory.planner import VECTORS_OF_ENTRY, Region, Ring, blocks_of
from mapper.compiler.memory.regions import Place, Places
from mapper.compiler.multicore.job import Whole
from mapper.compiler.multicore.slices import Held, Sliced, part_of, slice_macro
from mapper.compiler.program.inputs import Span


class Box(NamedTuple):
    """Rows of an owner, and blocks of its pixels (16-bit blocks are two vectors)."""

    rows: Span
    blocks: Span

    @property
    def size(self) -> int:
        """Number of blocks in all rows."""
        return self.rows.size * self.blocks.size

    def meet(self, other: Box) -> Box | None:
        """Return the intersection with another box, or None."""
        rows, blocks = self.rows.meet(other.rows), self.blocks.meet(other.blocks)
        return Box(rows, blocks) if rows.size > 0 and blocks.size > 0 else None

    def holds(self, other: Box) -> bool:
        """Return whether another box is inside."""
        return self.meet(other) == other

    def around(self, other: Box) -> Box:
        """Return the bounding box of both."""
        return Box(self.rows.around(other.rows), self.blocks.around(other.blocks))


def add_box(boxes: list[Box], box: Box) -> None:
    """Add a box to disjoint boxes; merge it with the boxes that it overlaps."""
    while meets := [other for other in boxes if other.meet(box)]:
        for other in meets:
            boxes.remove(other)
            box = box.around(other)
    boxes.append(box)


def gaps_between(made: Sequence[Box], taken: Sequence[Box]) -> list[Box]:
    """Return the written parts that are not read, as boxes of consecutive rows."""
    stop = reduce(Box.around, made)
    missing = np.zeros((stop.rows.stop, stop.blocks.stop), bool)
    for boxes, value in ((made, True), (taken, False)):
        for box in boxes:
            missing[slice(*box.rows), slice(*box.blocks)] = value
    rows = np.flatnonzero(missing.any(1))
    found = []
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        if run.size:
            blocks = np.flatnonzero(missing[run].any(0))
            spans = (Span(int(one[0]), int(one[-1]) + 1) for one in (run, blocks))
            found.append(Box(*spans))
    return found


class Kept(NamedTuple):
    """A region of a core before it has an address: a box of an owner."""

    owner: Tensor
    box: Box


class Homes:
    """Places of feature maps in the owners of regions. lanes : channels per vector of bytes"""

    def __init__(self, places: Places, lanes: int) -> None:
        self.places, self.lanes = places, lanes

    def of(self, tensor: Tensor) -> Place:
        return self.places.get(tensor, Place(tensor))

    def blocks(self, tensor: Tensor, channels: Span) -> Span:
        """Return the blocks of a pixel that hold some channels."""
        lanes, each = self._blocks_of(tensor)
        return Span(channels.first // lanes * each, blocks_of(channels.stop, lanes) * each)

    def _blocks_of(self, tensor: Tensor) -> tuple[int, int]:
        """Return channels and vectors per block of a pixel."""
        lanes = 8 * self.lanes if tensor.type == "bits" else self.lanes
        return lanes, VECTORS_OF_ENTRY if tensor.type == "int32" else 1

    def whole(self, tensor: Tensor) -> Box:
        """Return the box of a whole map in its owner."""
        return self.box(tensor, Held(Span(0, tensor.height), Span(0, tensor.channels)))

    def box(self, tensor: Tensor, held: Held) -> Box:
        """Return the box of a part of a map in its owner. If columns are stored in the channels of
        a pixel, it includes all of them."""
        place = self.of(tensor)
        step = place.row_step
        last = place.row + step * (held.rows.stop - 1)
        rows = Span(place.row + step * held.rows.first, last + 1)
        if place.columns > 1:
            return Box(rows, self.blocks(place.owner, Span(0, place.owner.channels)))
        first = self.blocks(place.owner, Span(place.channel, place.channel)).first
        return Box(rows, self.blocks(tensor, held.channels).moved(first))

    def rows(self, tensor: Tensor, rows: Span) -> Span:
        """Return the rows of a map in some rows of its owner; the size may be 0 if the map provides
        only every n-th row."""
        place = self.of(tensor)
        step = place.row_step
        return Span(-((place.row - rows.first) // step), -((place.row - rows.stop) // step))

    def columns(self, tensor: Tensor, columns: Span) -> Span:
        """Return the columns of its owner that hold some columns of a map."""
        place = self.of(tensor)
        if place.columns > 1:
            return Span(columns.first // place.columns, -(-columns.stop // place.columns))
        step, first = place.column_step, place.column
        stop = first + step * (columns.stop - 1) + 1 if columns.size > 0 else first
        return Span(first + step * columns.first, max(stop, first + step * columns.first))

    def kept(self, one: Sliced) -> Kept:
        """Return the region of a part of a map alone."""
        return Kept(self.of(one.whole).owner, self.box(one.whole, one.held))

    def held(self, tensor: Tensor, box: Box) -> Held | None:
        """Return the part of a map inside a box of its owner, or None."""
        some = self.whole(tensor).meet(box)
        if some is None:
            return None
        place, rows = self.of(tensor), self.rows(tensor, some.rows)
        if rows.size <= 0:
            return None
        if place.columns > 1:
            return Held(rows, Span(0, tensor.channels))
        first = self.whole(tensor).blocks.first
        lanes, each = self._blocks_of(tensor)
        ends = [(at - first) // each * lanes for at in some.blocks]
        return Held(rows, Span(ends[0], min(ends[1], tensor.channels)))

    def can_wrap(self, owner: Tensor, tensors: Iterable[Tensor]) -> bool:
        """Return whether a core may keep some columns of a map at a time. tensors : all maps"""
        places = [self.of(one) for one in tensors]
        return not owner.planes and all(
            one.columns == 1 and not one.column for one in places if one.owner is owner
        )

    def size(self, kept: Kept, columns: int = 0) -> int:
        """Return the vectors of a region. columns : columns of a ring, 0 for all"""
        owner, box = kept
        if owner.planes:
            words = plane_words(owner.channels, box.rows.size * owner.width, 2 * self.lanes)
            return WORD_VECTORS * words
        return box.rows.size * (columns or owner.width) * self._pixel(kept)

    def vectors(self, owner: Tensor) -> int:
        """Return the vectors of a whole map."""
        return self.size(Kept(owner, self.whole(owner)))

    def tall(self, kept: Kept) -> int:
        """Return the vectors of a column of a region."""
        return kept.box.rows.size * self._pixel(kept)

    def _pixel(self, kept: Kept) -> int:
        return kept.box.blocks.size * (2 if kept.owner.type == "int16" else 1)

    def region(
        self, kept: Kept, one: Sliced, base: int, slots: int = 0, ring: tuple[int, int] = (0, 0)
    ) -> Region:
        """Return the region of a part of a map, which may extend beyond the kept box.

        base : first vector of the kept region; slots : see `Region`
        ring : columns that are kept, and number of the first vector of the kept region
        """
        place, box = self.of(one.whole), self.box(one.whole, one.held)
        owner, around = kept
        columns, number = ring
        size = self.size(kept, columns)
        if owner.planes:
            return Region(one.part, base, size, 0, 0, 0, 0, slots=slots)
        pixel = self._pixel(kept)
        row = (columns or owner.width) * pixel
        down = box.rows.first - around.rows.first
        first = base + down * row + place.column * pixel
        block = box.blocks.first - around.blocks.first if place.columns == 1 else 0
        high = around.blocks.size if owner.type == "int16" else 0
        step = pixel * place.column_step // place.columns
        row *= place.row_step
        wraps = Ring(columns, number + down * pixel + block, self.tall(kept)) if columns else None
        return Region(
            one.part, first + block, size, 0, 0, step, row, high, slots=slots, ring=wraps,
        )  # fmt: skip

    def part(self, tensor: Tensor, held: Held) -> Sliced:
        """Return a part of a map as a separate tensor."""
        return Sliced(tensor, part_of(tensor, held), held)


def taken_rows(whole: Whole, homes: Homes, lanes: int) -> list[Span]:
    """Return the rows of each macro node that other nodes or the host read; the last rows of a
    feature map may be outside all windows.

    All parts of a concatenation are computed for the same rows, even if nothing reads some parts:
    cores store the whole, whose rows are then complete.
    """
    boxes: dict[Tensor, Box] = {}

    def take(owner: Tensor, box: Box) -> None:
        box = box._replace(blocks=homes.whole(owner).blocks)
        boxes[owner] = box.around(boxes[owner]) if owner in boxes else box

    for tensor in whole.read:
        take(homes.of(tensor).owner, homes.whole(tensor))
    found: dict[int, Span] = {}
    for number in range(len(whole.macros) - 1, -1, -1):
        macro = whole.macros[number]
        last = macro.nodes[-1].operator
        scale = last.rows if isinstance(last, Upsample) else 1
        spans = []
        for tensor in macro.outputs:
            owner = homes.of(tensor).owner
            held = homes.held(tensor, boxes[owner]) if owner in boxes else None
            if held is not None:
                spans.append(held.rows)
        first = min((one.first for one in spans), default=0) // scale
        stop = -(-max((one.stop for one in spans), default=scale) // scale)
        found[number] = Span(first, stop)
        extent = Span(0, blocks_of(macro.output.channels, lanes))
        for one in slice_macro(macro, found[number], extent, lanes).inputs:
            take(*homes.kept(one))
    return [found[number] for number in range(len(whole.macros))]
