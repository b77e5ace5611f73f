"""What the times of a program depend on besides its instructions: packet headers, the weight words
that micro-ops take, and the vectors of which micro-ops are loaded again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hw.npu.programs import decode_micro_ops

if TYPE_CHECKING:
    from mapper.compiler.codegen.image import Image
    from mapper.compiler.codegen.presets import Preset
    from mapper.compiler.codegen.tables import Tables

WORD = 2  # column of the weight word in decoded micro-ops


class Preloaded(NamedTuple):
    """Of a core, before its first frame.

    headers : of packets of the window unit; words : the weight word of each micro-op
    runs : first address and number of the vectors that are set; data : their bytes
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
        """where : the file, for errors"""
        headers = np.frombuffer(image.headers, "<u8").tolist()
        words = decode_micro_ops(image.micro_ops, where)[:, WORD].tolist()
        return cls(headers, words, image.runs, image.maps.tobytes())

    def vectors(self, first: int, count: int) -> bytes:
        """Vectors of one run; those that are not set are left out."""
        each = len(self.data) // max(1, sum(size for _, size in self.runs))
        at = 0
        for begin, size in self.runs:
            if begin <= first < begin + size:
                place = (at + first - begin) * each
                return self.data[place : place + min(count, begin + size - first) * each]
            at += size
        return b""
