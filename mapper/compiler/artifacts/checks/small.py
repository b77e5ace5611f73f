"""Contents of a core's small memories during replay: micro-ops determine the places that
instructions access, records the number of parameter words that they read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.encoding import decode_micro_ops
from hw.npu.isa.table import MICRO_OP_BYTES, RECORD
from mapper.compiler.program.image import Image

TABLES = ("UM", "PM", "HM")
"""Memories that LOAD.TABLE writes, by number."""
LANES = 16
"""Numbers per parameter word."""
WORD_BYTES = {"UM": MICRO_OP_BYTES, "PM": 4 * LANES, "HM": 8}
FLAGS = list(RECORD).index("flags")
OFFSETS, LEAKY = 1, 2
"""Flags of a record: words that blocks have in addition to their scales."""


class SmallMemories:
    """Micro-ops, shape (micro-ops, 6), parameters, shape (words, 16), and packet headers; words
    that were never loaded are 0.

    each : parameter words with one number per row of the array
    """

    def __init__(self, image: Image, shape: NpuShape, where: str) -> None:
        self.shape, self.where = shape, where
        self.each = -(-shape.rows // LANES)
        self.micro_ops = np.zeros((shape.micro_ops, 6), np.int32)
        self.parameters = np.zeros((shape.parameter_words, LANES), np.int32)
        known = decode_micro_ops(image.micro_ops, where)
        self.micro_ops[: len(known)] = known[: shape.micro_ops]
        self.parameters[: len(image.parameters)] = image.parameters[: shape.parameter_words]
        self.headers = [0] * shape.headers
        headers = np.frombuffer(image.headers, "<u8").tolist()[: shape.headers]
        self.headers[: len(headers)] = headers
        self._maps = image.filled().tobytes()

    def load(self, memory: str, first: int, source: int, vectors: int) -> NDArray[np.int64]:
        """Execute LOAD.TABLE and return the words that are completely filled.

        first : first word; source : first vector, with contents as before the first frame
        """
        columns, size = self.shape.columns, WORD_BYTES[memory]
        count = vectors * columns // size
        data = self._maps[source * columns :][: count * size].ljust(count * size, b"\0")
        if memory == "UM" and first + count <= len(self.micro_ops):
            self.micro_ops[first : first + count] = decode_micro_ops(data, self.where)
        elif memory == "PM" and first + count <= len(self.parameters):
            words = np.frombuffer(data, "<i4").reshape(-1, LANES)
            self.parameters[first : first + count] = words
        elif memory == "HM" and first + count <= len(self.headers):
            self.headers[first : first + count] = np.frombuffer(data, "<u8").tolist()
        return np.arange(first, first + count)

    def ops(self, f: Mapping[str, int]) -> NDArray[np.int32]:
        """Return the micro-ops of an instruction that exist, shape (uops, 6)."""
        return self.micro_ops[f["uop"] : f["uop"] + f["uops"]]

    def said(self, op: str, kind: str, f: Mapping[str, int]) -> Hashable:
        """Return the contents that determine an instruction's places; None if there are none."""
        if op in ("GEMM", "ALU"):
            return self.ops(f).tobytes()
        if op == "RQ" and kind != "THRESHOLD":
            return self.record_words(f["rec"], f["n_out"])
        return None

    def record_words(self, rec: int, blocks: int) -> int:
        """Return the words of a requantisation record, which depend on its flags."""
        flags = int(self.parameters[rec, FLAGS]) if rec < len(self.parameters) else 0
        of_block = 1 + bool(flags & OFFSETS) + bool(flags & LEAKY)
        return 1 + blocks * of_block * self.each

    @property
    def table_words(self) -> int:
        """Parameter words of a table of 256 bytes, or of 256 numbers of 16 bits."""
        return 256 * (2 if self.shape.multiplier == "dual" else 1) // WORD_BYTES["PM"]

    def threshold_words(self, blocks: int) -> int:
        """Return the words of a threshold record: per block the thresholds and the flips."""
        return 1 + 2 * blocks * self.each
