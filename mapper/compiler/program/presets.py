"""Contents of a core before the first frame.

These are borders of feature maps, data of small memories that are reloaded while the program runs,
and data that determines the timing of a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.encoding import decode_micro_ops
from mapper.compiler.ir.tensor import NO_PAD, Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.program.image import Image
from mapper.compiler.program.tables import ReloadArea, Tables

Vectors = NDArray[np.int64]


class Preset(NamedTuple):
    """Vectors of the feature memory that are set before the first frame.

    runs : first address and number of vectors; data : bytes of all runs, concatenated
    """

    runs: list[tuple[int, int]]
    data: bytes

    @staticmethod
    def around(regions: Mapping[Tensor, Region], columns: int) -> Preset:
        """Return the borders of the regions, without duplicates. columns : bytes per vector"""
        bases = {one.base: one for one in regions.values() if one.owner is None}
        runs: list[tuple[int, int]] = []
        data = b""
        for _, region in sorted(bases.items()):
            vectors = border_vectors(region)
            breaks = np.flatnonzero(np.diff(vectors) > 1) + 1
            runs += [(int(run[0]), run.size) for run in np.split(vectors, breaks) if run.size]
            data += _bytes(region, vectors, columns)
        return Preset(runs, data)

    @staticmethod
    def filled(runs: Sequence[tuple[int, int, int]], columns: int) -> Preset:
        """Return runs of constant bytes. runs : first vector, number of vectors, value"""
        data = b"".join(bytes([value & 255]) * (count * columns) for _, count, value in runs)
        return Preset([(first, count) for first, count, _ in runs], data)

    def with_area(self, area: ReloadArea) -> Preset:
        """Return this preset with the area after the feature maps added."""
        runs = [(area.first, area.stop - area.first)] if area.stop > area.first else []
        return Preset(self.runs + runs, self.data + bytes(area.data))

    @property
    def stop(self) -> int:
        return max((first + count for first, count in self.runs), default=0)

    def vectors(self, columns: int) -> NDArray[np.uint8]:
        return np.frombuffer(self.data, np.uint8).reshape(-1, columns)


def border_vectors(region: Region) -> Vectors:
    """Return the vectors around a feature map that owns its region, in order."""
    tensor, pad = region.tensor, region.border.pad
    if pad == NO_PAD:
        return np.zeros(0, np.int64)
    rows = tensor.height + pad.top + pad.bottom
    outside = np.ones((rows, region.row // region.pixel, region.pixel), bool)
    outside[pad.top : pad.top + tensor.height, pad.left : pad.left + tensor.width] = False
    return region.base + np.flatnonzero(outside)


def _bytes(region: Region, vectors: Vectors, columns: int) -> bytes:
    """Return the bytes of border vectors, each constant. With 16 bits the vectors of low bytes of a
    pixel precede the vectors of high bytes."""
    value = np.full(vectors.size, region.border.value, np.int64)
    if region.high:
        value >>= np.where((vectors - region.base) % region.pixel >= region.high, 8, 0)
    return np.repeat((value & 255).astype(np.uint8), columns).tobytes()


WORD = 2  # column of the weight word in decoded micro-ops


class Preloaded(NamedTuple):
    """State of a core before its first frame.

    headers : packet headers of the window unit; words : the weight word of each micro-op
    runs : first address and number of preset vectors; data : their bytes
    """

    headers: Sequence[int] = ()
    words: Sequence[int] = ()
    runs: Sequence[tuple[int, int]] = ()
    data: bytes = b""

    @classmethod
    def of(cls, tables: Tables, preset: Preset) -> Preloaded:
        words = [one.wgt for one in tables.micro_ops]
        return cls(tables.headers, words, preset.runs, preset.data)

    @classmethod
    def of_image(cls, image: Image, where: str) -> Preloaded:
        """Return the state from an image; where : file name for errors"""
        headers = np.frombuffer(image.headers, "<u8").tolist()
        words = decode_micro_ops(image.micro_ops, where)[:, WORD].tolist()
        return cls(headers, words, image.runs, image.maps.tobytes())

    def vectors(self, first: int, count: int) -> bytes:
        """Return vectors of one run; vectors that are not set are omitted."""
        each = len(self.data) // max(1, sum(size for _, size in self.runs))
        at = 0
        for begin, size in self.runs:
            if begin <= first < begin + size:
                place = (at + first - begin) * each
                return self.data[place : place + min(count, begin + size - first) * each]
            at += size
        return b""
