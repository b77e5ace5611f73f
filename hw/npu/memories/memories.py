"""The memories of an NPU core, with their readers and writers.

All are synchronous. The feature memory (FM) has four banks with words of two vectors: vector v is
half v & 1 of word v >> 3 in bank (v >> 1) & 3; a plane of four channels has one bank per channel,
and its words are read together. The other memories hold whole words; loads write several per cycle.
A read returns the writes of earlier cycles; accumulators can also be read in the cycle in which
their own unit writes them, so that sums into one entry can follow each other directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from amaranth.hdl import MemoryData, Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from numpy.typing import NDArray

from hw.npu.isa.instruction import MICRO_OP_BITS, WORD_BITS
from hw.npu.shape import BANKS, HEADER_BITS, PARAMETER_LANES, NpuShape, Widths
from hw.npu.steps import ADDRESS


class Contents(NamedTuple):
    """Initial memory contents of a core; missing contents are 0.

    instructions, micro_ops, headers : words
    parameters : int32, shape (words, PARAMETER_LANES)
    weights : int8, shape (words, rows, columns)
    maps : bytes, shape (vectors, columns)
    streams : initial stream counts
    """

    instructions: Sequence[int] = ()
    micro_ops: Sequence[int] = ()
    headers: Sequence[int] = ()
    parameters: NDArray[np.int32] | None = None
    weights: NDArray[np.int8] | None = None
    maps: NDArray[np.uint8] | None = None
    streams: Sequence[int] = ()


def loads(bits: int, lanes: int) -> wiring.Signature:
    """Return the port of a memory write with lane enables."""
    return wiring.Signature({"en": Out(lanes), "addr": Out(ADDRESS), "data": Out(bits)})


NOTHING = Contents()


class NpuMemories:
    """Shapes and initial contents of all memories, by name; simulations access them.

    fm : the banks of the feature memory
    """

    def __init__(self, shape: NpuShape, contents: Contents = NOTHING) -> None:
        size = Widths(shape)
        whole = shape.weight_port == "word"
        rows = shape.rows if whole else 1  # rows per memory word
        weights = words_of(contents.weights, rows * shape.columns)
        maps = words_of(contents.maps, 2 * shape.columns)
        parameters = words_of(contents.parameters, 4 * PARAMETER_LANES)
        self.fm = [
            MemoryData(
                shape=2 * size.vector,
                depth=shape.map_vectors // (2 * BANKS),
                init=maps[bank::BANKS],
            )
            for bank in range(BANKS)
        ]
        self.inp = MemoryData(shape=size.lane * shape.columns, depth=shape.input_vectors, init=[])
        self.wm = MemoryData(
            shape=size.vector * rows, depth=shape.weight_words * shape.rows // rows, init=weights
        )
        self.acc = MemoryData(shape=size.acc * shape.rows, depth=shape.entries, init=[])
        self.out = MemoryData(shape=size.lane * shape.rows, depth=shape.entries, init=[])
        self.pm = MemoryData(
            shape=32 * PARAMETER_LANES, depth=shape.parameter_words, init=parameters
        )
        self.um = MemoryData(shape=MICRO_OP_BITS, depth=shape.micro_ops, init=contents.micro_ops)
        self.im = MemoryData(shape=WORD_BITS, depth=shape.instructions, init=contents.instructions)
        self.hm = MemoryData(shape=HEADER_BITS, depth=max(1, shape.headers), init=contents.headers)

    def by_name(self) -> dict[str, MemoryData]:
        """Return all memories, the banks of the feature memory as fm0 and so on."""
        names = ("inp", "wm", "acc", "out", "pm", "um", "im", "hm")
        found = {f"fm{number}": bank for number, bank in enumerate(self.fm)}
        return found | {name: getattr(self, name) for name in names}

    def words(self) -> dict[str, list[int]]:
        """Return the initial contents of each memory."""
        return {name: list(memory.init) for name, memory in self.by_name().items()}

    def bits(self) -> dict[str, int]:
        """Return the bits of every memory, by its name in the instruction set."""
        names = {"INP": self.inp, "WM": self.wm, "ACC": self.acc, "OUT": self.out}
        names |= {"PM": self.pm, "UM": self.um, "IM": self.im, "HM": self.hm}
        sizes = {name: Shape.cast(each.shape).width * each.depth for name, each in names.items()}
        maps = sum(Shape.cast(bank.shape).width * bank.depth for bank in self.fm)
        return {"FM": maps, **sizes}


def words_of(values: NDArray[Any] | None, size: int) -> list[int]:
    """Return integers of `size` bytes each, little-endian; the last one is zero-padded."""
    data = b"" if values is None else np.ascontiguousarray(values).tobytes()
    return [
        int.from_bytes(data[first : first + size], "little") for first in range(0, len(data), size)
    ]
