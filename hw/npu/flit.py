"""Flits of NPU cores: destination, kind, stream, address and data.

=============  ==========================================================================
kind           address, data, stream
=============  ==========================================================================
0 spike        -, axon
1 map data     vector * parts + part, a part of the vector; stream that counts the vectors
2 weights      -, the next part of a row of weights
3 token        -, amount to add; stream
4 to the host  as map data, for the host's results
5 request      number of weight words; data: x, y (8 bits each) of the sender, then the
               address of the first word in the host's memory. Without words it is a
               credit: its stream, and a count instead of the address
6 load         word * parts of it + part; stream: number of the memory
7 frames       -, number of frames (16 bits), then the first instruction (16)
=============  ==========================================================================

A vector, and every word that is loaded, is sent in as many parts as it needs, low bits first.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.utils import ceil_log2

from hw.errors import HwError
from hw.noc.packet import Flit
from hw.npu.isa.instruction import MICRO_OP_BITS, WORD_BITS
from hw.npu.shape import HEADER_BITS, PARAMETER_LANES, NpuShape

KIND_BITS, STREAM_BITS = 3, 4
SIDE_BITS = 8
"""Bits of a coordinate in the data of a request."""
HOST_VECTOR_BITS = 16
"""Bits of the address of a vector in the host's results."""
COUNT_BITS = 16
"""Bits of a token's amount, and of a number of frames."""
PAYLOADS = (32, 64, 128, 256, 512)
"""Supported data bits: words and vectors have a power-of-two number of parts."""


class Kind(IntEnum):
    """Kind of a flit."""

    SPIKE = 0
    MAP = 1
    WEIGHTS = 2
    TOKEN = 3
    TO_HOST = 4
    REQUEST = 5
    LOAD = 6
    FRAMES = 7


class Loaded(IntEnum):
    """Numbers of the memories that flits can load."""

    FM = 0
    WM = 1
    PM = 2
    UM = 3
    IM = 4
    HM = 5


class NpuFlit(Flit):
    """Flit layout for cores of a shape; raises `HwError` for an unsupported payload."""

    def __init__(self, shape: NpuShape, x_bits: int, y_bits: int) -> None:
        if shape.payload_bits not in PAYLOADS:
            raise HwError(
                f"npu {shape.name}: payload_bits is {shape.payload_bits}; give one of "
                f"{', '.join(map(str, PAYLOADS))}"
            )
        self.payload = shape.payload_bits
        words = word_bits(shape)
        self.parts = {memory: -(-bits // self.payload) for memory, (bits, _) in words.items()}
        largest = max(self.parts[memory] * depth for memory, (_, depth) in words.items())
        self.address_bits = max(
            HOST_VECTOR_BITS + ceil_log2(self.parts[Loaded.FM]), ceil_log2(largest)
        )
        super().__init__(
            x_bits, y_bits,
            {
                "kind": KIND_BITS, "stream": STREAM_BITS, "address": self.address_bits,
                "data": self.payload,
            },
        )  # fmt: skip


def word_bits(shape: NpuShape) -> dict[Loaded, tuple[int, int]]:
    """Return word bits and number of words of each memory as flits address it; FM in vectors."""
    vector = 8 * shape.columns
    return {
        Loaded.FM: (vector, shape.map_vectors),
        Loaded.WM: (vector * shape.rows, shape.weight_words),
        Loaded.PM: (32 * PARAMETER_LANES, shape.parameter_words),
        Loaded.UM: (MICRO_OP_BITS, shape.micro_ops),
        Loaded.IM: (WORD_BITS, shape.instructions),
        Loaded.HM: (HEADER_BITS, max(1, shape.headers)),
    }
