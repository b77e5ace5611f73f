"""Shape parameters that the hardware of an NPU core needs, and derived sizes."""

from __future__ import annotations

from typing import Protocol

from amaranth.hdl import Shape, signed, unsigned
from amaranth.utils import ceil_log2

from hw.errors import NotBuiltError

PARAMETER_LANES = 16
"""Numbers of 32 bits per parameter word."""
BANKS = 4
"""Banks of the feature memory; each has words of two vectors."""
STREAMS = 16
HEADER_BITS = 64
SIDES = (4, 8, 16, 32, 64)
"""Supported rows and columns: table words are whole vectors, or vectors whole words."""
TABLE_ENTRIES = 256
TABLE_BITS = 128
"""Bits of a table that enter the lanes of the ALU per cycle."""
LOAD_SIZES = (1, 2, 4)
"""Supported vectors per cycle of a load: neighbouring banks, whole entries of ACC32."""


class Latency(Protocol):
    """Cycles of an instruction without work, by unit."""

    @property
    def control(self) -> int: ...
    @property
    def load(self) -> int: ...
    @property
    def stream(self) -> int: ...
    @property
    def matrix(self) -> int: ...
    @property
    def alu(self) -> int: ...
    @property
    def requantise(self) -> int: ...
    @property
    def lookup(self) -> int: ...
    @property
    def store(self) -> int: ...
    @property
    def restart(self) -> int: ...


class NpuShape(Protocol):
    """The parameters of a core, as in the table `[npu]` of chip files."""

    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def multiplier(self) -> str: ...
    @property
    def binary(self) -> bool: ...
    @property
    def multiply_lanes(self) -> int: ...
    @property
    def weight_port(self) -> str: ...
    @property
    def map_vectors(self) -> int: ...
    @property
    def input_vectors(self) -> int: ...
    @property
    def weight_words(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def parameter_words(self) -> int: ...
    @property
    def micro_ops(self) -> int: ...
    @property
    def instructions(self) -> int: ...
    @property
    def headers(self) -> int: ...
    @property
    def filters(self) -> int: ...
    @property
    def queue_places(self) -> int: ...
    @property
    def token_bits(self) -> int: ...
    @property
    def payload_bits(self) -> int: ...
    @property
    def loop_overhead(self) -> int: ...
    @property
    def accumulator_bits(self) -> int: ...
    @property
    def vectors_per_cycle(self) -> int: ...
    @property
    def latency(self) -> Latency: ...


class Widths:
    """Sizes derived from a shape; raises `NotBuiltError` for an unsupported core.

    lane : bits of a lane of INP and OUT
    vector : bits of a vector in feature memory
    words : parameter words that hold a number per row
    entry : vectors of an accumulator entry in feature memory
    table : words of `TABLE_BITS` bits in a table
    """

    def __init__(self, shape: NpuShape) -> None:
        self.shape = shape
        _require_buildable(shape)
        self.rows = self.columns = shape.rows
        self.dual = shape.multiplier == "dual"
        self.lane = 16 if self.dual else 8
        self.acc = shape.accumulator_bits
        self.vector = 8 * shape.columns
        self.words = -(-shape.rows // PARAMETER_LANES)
        self.entry = 1 << ceil_log2(-(-self.acc // 8))
        self.loads = shape.vectors_per_cycle
        self.phases = -(-shape.rows // shape.multiply_lanes)
        self.table = TABLE_ENTRIES * self.lane // TABLE_BITS
        self.blocks = 8  # blocks per packed vector

    @property
    def sum(self) -> Shape:
        """A lane of an accumulator entry."""
        return signed(self.acc)

    @property
    def map_address(self) -> Shape:
        return unsigned(ceil_log2(self.shape.map_vectors))


def _require_buildable(shape: NpuShape) -> None:
    def refuse(field: str, asked: str) -> None:
        raise NotBuiltError(f"npu {shape.name}: {field} is {getattr(shape, field)!r}; give {asked}")

    if shape.rows != shape.columns:
        refuse("columns", f"{shape.rows}, equal to rows")
    if shape.rows not in SIDES:
        refuse("rows", f"one of {', '.join(map(str, SIDES))}")
    if shape.map_vectors == 0 or shape.map_vectors % (2 * BANKS):
        refuse(
            "map_vectors", f"a multiple of {2 * BANKS}; external feature memory is only simulated"
        )
    if shape.instructions == 0:
        refuse("instructions", "the size of the memory; external memory is only simulated")
    if shape.loop_overhead:
        refuse("loop_overhead", "0; hardware loops have no overhead")
    if shape.vectors_per_cycle not in LOAD_SIZES:
        raise NotBuiltError(
            f"npu {shape.name}: loads read {shape.vectors_per_cycle} vectors per cycle; give "
            f"load_bits for {', '.join(map(str, LOAD_SIZES))}"
        )
    if shape.multiplier == "dual" and shape.binary and shape.rows % 8:
        refuse("rows", "a multiple of 8, so that the packed bits of a block are whole bytes")
