"""Line buffers in the functional simulator: columns that the host sends, and a log of stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.execute import Frame
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.numerics.binary import packed

Map = dict[str, Any]
"""A stored map, or a part of one, as in the manifest: name, core, address, shape."""


def sent_columns(manifest: Map) -> list[SentColumns]:
    """Return the columns that the host sends into rings. manifest : of the compiled folder"""
    return [
        SentColumns(place, each, _ring_at(manifest["maps"], place, each["runs"][0][0]))
        for core in manifest["cores"]
        for place in [(core["x"], core["y"])]
        for each in core["brought"]
        if "waits" in each
    ]


def _ring_at(maps: list[Map], place: tuple[int, int], address: int) -> Map:
    """Return the map in a ring of a core that starts at an address: the one with most channels."""
    found = [
        one for one in maps
        if tuple(one["core"]) == place and "ring" in one and one["address"] == address
    ]  # fmt: skip
    return max(found, key=lambda one: int(one["vectors"]))


class SentColumns:
    """Columns of a map that the host sends into a ring.

    map : its part on the core
    waits : credits that each run consumes; credits : credits before the first run
    places : row, first column and end of the columns of each run
    """

    def __init__(self, place: tuple[int, int], brought: Map, map_: Map) -> None:
        self.place, self.stream, self.map = place, int(brought["stream"]), map_
        self.waits, self.credits = brought["waits"], int(brought["credits"])
        self.runs = brought["runs"]
        row, pixel = map_["strides"]
        self.places = []
        for first, count, column in self.runs:
            number, rest = divmod(first - map_["address"], row)
            begin = column + (rest // pixel - column) % map_["ring"]
            self.places.append((number, begin, begin + count // pixel))

    def in_order(self, vectors: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the vectors in the order in which they are sent. vectors : of the map"""
        parts = [
            vectors[row, begin:stop].reshape(-1, vectors.shape[-1])
            for row, begin, stop in self.places
        ]
        return np.concatenate(parts)


class Feeder:
    """Sends the columns of rings in a frame as credits arrive. vectors : by stream and core"""

    def __init__(self, frame: Frame, sent: list[tuple[SentColumns, NDArray[np.int8]]]) -> None:
        self.frame, self.sent = frame, sent
        self.at = [0] * len(sent)
        self.left = [one.credits for one, _ in sent]
        self.seen = [0] * len(sent)

    def __call__(self) -> bool:
        """Send what credits allow; return whether that was anything."""
        moved = False
        for number, (one, vectors) in enumerate(self.sent):
            given = int(self.frame.credits(one.place)[one.stream])
            self.left[number] += given - self.seen[number]
            self.seen[number] = given
            while self.at[number] < len(one.runs):
                at = self.at[number]
                if one.waits[at] > self.left[number]:
                    break
                self.left[number] -= one.waits[at]
                self.at[number], moved = at + 1, True
                row, begin, stop = one.places[at]
                some = vectors[row, begin:stop].reshape(-1, vectors.shape[-1])
                for address, vector in enumerate(some, int(one.runs[at][0])):
                    self.frame.receive(one.place, address, vector, one.stream)
        return moved


class LoggedColumns:
    """A map in a ring, from the log of stored vectors, with the read interface of cores."""

    def __init__(self, frame: Frame, one: Map) -> None:
        self.one, self.ring = one, int(one["ring"])
        self.addresses, self.vectors = frame.log(tuple(one["core"]))

    def read(
        self, core: tuple[int, int] | None, base: int, sizes: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> NDArray[np.int8]:  # fmt: skip
        """See `Frame.read`; sizes and strides are of rows, columns and blocks."""
        height, width, blocks = sizes
        found = np.zeros((*sizes, self.vectors.shape[1]), np.int8)
        rows, places = np.arange(height)[:, None, None], np.arange(self.ring)[:, None]
        at = base + rows * strides[0] + places * strides[1] + np.arange(blocks)
        size = 1 + max(int(at.max()), int(self.addresses.max(initial=0)))
        known = np.full(size, -1)
        known[at.ravel()] = np.arange(at.size)
        mine = np.flatnonzero(known[self.addresses] >= 0)
        cells = known[self.addresses[mine]]
        order = np.argsort(cells, kind="stable")  # the writes of each cell, in order
        sorted_ = cells[order]
        begins = np.flatnonzero(np.diff(sorted_, prepend=-1))
        turns = np.arange(sorted_.size) - np.repeat(begins, np.diff([*begins, sorted_.size]))
        row, place, block = np.unravel_index(sorted_, at.shape)
        column = place + turns * self.ring
        inside = column < width
        some = self.vectors[mine[order]]
        found[row[inside], column[inside], block[inside]] = some[inside]
        return found


def stored_vectors(one: Map, pixels: NDArray[np.int64], columns: int) -> NDArray[np.int8]:
    """Return a map, shape (rows, columns, channels), as stored: int8, shape (rows, columns, vectors
    per pixel, columns of the core)."""
    height, width, channels = pixels.shape
    if one["bits"] == 1:
        return packed(pixels, columns).reshape(height, width, -1, columns).view(np.int8)
    blocks = blocks_of(channels, columns)
    whole = np.full((height, width, blocks * columns), one["zero_point"], np.int64)
    whole[:, :, :channels] = pixels
    vectors = whole.reshape(height, width, blocks, columns)
    parts = [(vectors >> 8 * byte & 255).astype(np.uint8) for byte in range(one["bits"] // 8)]
    return np.concatenate(parts, axis=2).view(np.int8)


def current_parts(parts: Sequence[Map]) -> list[Map]:
    """Return the parts of a map without smaller copies of a part.

    A core that sent a copy may overwrite it before the layer ends on all cores.
    """

    def inside(one: Map, other: Map) -> bool:
        ranges = [(one[axis], other[axis]) for axis in ("rows", "channels")]
        within = all(b[0] <= a[0] and a[1] <= b[1] for a, b in ranges)
        return within and any(a != b for a, b in ranges)

    return [one for one in parts if not any(inside(one, other) for other in parts)]


def by_name(maps: list[Map]) -> dict[str, list[Map]]:
    found: dict[str, list[Map]] = {}
    for one in maps:
        found.setdefault(one["name"], []).append(one)
    return found
