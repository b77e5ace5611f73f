"""Check that loads read declared feature maps: an area inside one map, with the map's strides, and
padding only at its edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mapper.errors import CheckFailedError


class MapPlace(NamedTuple):
    """A feature map in memory.

    first : vector of its first pixel; row, pixel : vectors from a row or pixel to the next
    blocks : vectors per pixel that may be loaded at once
    pad : pixels of padding around it: top, bottom, left, right
    ring : columns that are kept; 0 for all
    """

    first: int
    height: int
    width: int
    blocks: int
    row: int
    pixel: int
    pad: Sequence[int] = (0, 0, 0, 0)
    ring: int = 0

    def holds(self, f: dict[str, int], each: int) -> bool:
        """Return whether an area is inside the map. f : load fields; each : vectors per block"""
        top, bottom, left, right = self.pad
        rows = f["y_size"] - f["pad_t"] - f["pad_b"]
        columns = f["x_size"] - f["pad_l"] - f["pad_r"]
        offset = f["src"] - self.first + top * self.row + left * self.pixel
        if offset < 0 or (rows > 1 and f["y_stride"] != self.row):
            return False
        if columns > 1 and f["x_stride"] != self.pixel:
            return False
        row, rest = divmod(offset, self.row)
        column, block = divmod(rest, self.pixel)
        if self.ring:
            left_ = self.ring - column
            if columns > self.ring or f["wrap"] != (left_ if left_ < columns else 0):
                return False
            if f["wrap"] and f["y_stride"] != self.row:
                return False
            return (
                block + f["c_size"] * each <= self.blocks
                and _along(row, rows, (f["pad_t"], f["pad_b"]), (0, self.height, 0))
                and (not f["pad_l"] or column == 0)
                and (not f["pad_r"] or (column + columns - self.width) % self.ring == 0)
            )
        if f["wrap"]:
            return False
        return (
            block + f["c_size"] * each <= self.blocks
            and _along(row, rows, (f["pad_t"], f["pad_b"]), (top, self.height, bottom))
            and _along(column, columns, (f["pad_l"], f["pad_r"]), (left, self.width, right))
        )


def _along(
    first: int, count: int, padded: tuple[int, int], sizes: tuple[int, int, int]
) -> bool:  # fmt: skip
    """Return whether positions are inside a map with its border, and reach an edge on padded sides.

    padded : padding by the load, before and after; sizes : border before, map, border after
    """
    before, size, stop = sizes
    whole = before + size + stop
    if first + count > whole or (padded[0] and first not in (0, before)):
        return False
    return not padded[1] or first + count in (whole, before + size)


class Areas:
    """The feature maps of a core; empty if they are unknown."""

    def __init__(self, places: Sequence[MapPlace]) -> None:
        self.places = sorted(places)

    def require(self, f: dict[str, int], each: int, what: str) -> None:
        """Raise `CheckFailedError` if an area is not inside a feature map."""
        empty = f["y_size"] <= f["pad_t"] + f["pad_b"] or f["x_size"] <= f["pad_l"] + f["pad_r"]
        if self.places and not empty and not any(one.holds(f, each) for one in self._near(f)):
            raise CheckFailedError(f"{what}: loads an area that is not part of a feature map")

    def _near(self, f: dict[str, int]) -> Iterator[MapPlace]:
        for one in self.places:
            top, bottom, left, _ = one.pad
            begin = one.first - top * one.row - left * one.pixel
            if begin <= f["src"] < begin + (top + one.height + bottom) * one.row:
                yield one
