"""Data besides instructions that determines the timing of a program: packet headers, the weight
words of micro-ops, and the vectors from which micro-ops are reloaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hw.npu.isa.encoding import decode_micro_ops

if TYPE_CHECKING:
    from mapper.compiler.program.image import Image
    from mapper.compiler.program.presets import Preset
    from mapper.compiler.program.tables import Tables

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
