"""Shape of the matrix processor (NPU) of a core: array size, memories and ports."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from msgspec import Meta

from chipsim.chip.tables import annotations_of
from chipsim.errors import ChipError


def _count(low: int, high: int, meaning: str) -> Meta:
    return Meta(ge=low, le=high, description=meaning)


class Latency(NamedTuple):
    """Cycles from start to end of an instruction with no work, by unit.

    lookup : requantisation with a table, which first enters the lanes, 128 bits per cycle
    restart : from the end of a frame to the first fetch of the next one
    """

    control: int = 1
    load: int = 4
    stream: int = 2
    matrix: int = 5
    alu: int = 4
    requantise: int = 5
    lookup: int = 6 + 256 * 8 // 128
    store: int = 3
    restart: int = 2


@dataclass(frozen=True, slots=True)
class NpuShape:
    """An NPU core; raises `ChipError` naming a value out of range.

    A vector holds one byte per column. Feature maps in external memory (`map_vectors` = 0) are
    stored on a separate core with attached memory. The range of each number follows from the
    instruction fields.
    """

    name: Annotated[str, Meta(min_length=1, description="name of the shape in programs")] = "npu"
    rows: Annotated[int, _count(1, 64, "rows of the matrix unit (output channels)")] = 16
    columns: Annotated[int, _count(1, 64, "its columns (input channels); bytes per vector")] = 16
    multiplier: Annotated[
        Literal["int8", "dual"],
        Meta(description="int8, or dual (25x16 bits: int16, or two int8 with a common factor)"),
    ] = "int8"
    binary: Annotated[
        bool, Meta(description="whether binary products are supported, 8 bits per lane")
    ] = True
    multiply_lanes: Annotated[
        int, _count(1, 64, "multipliers of the ALU for requantising, at most rows")
    ] = 8
    weight_port: Annotated[
        Literal["word", "row"],
        Meta(description="weights loaded into the matrix unit per cycle: a word or a row"),
    ] = "word"
    map_vectors: Annotated[int, _count(0, 1 << 16, "feature memory, in vectors; 0 if external")] = (
        8192
    )
    input_vectors: Annotated[int, _count(2, 1 << 12, "input buffer, in vectors")] = 2048
    weight_words: Annotated[
        int, _count(2, 1 << 12, "weight memory, in words of rows x columns bytes")
    ] = 512
    entries: Annotated[
        int, _count(2, 1 << 12, "accumulators and results, in entries of one lane per row")
    ] = 1024
    parameter_words: Annotated[
        int, _count(2, 1 << 10, "parameter memory, in words of 16 x 32 bits")
    ] = 512
    micro_ops: Annotated[int, _count(2, 1 << 10, "micro-op memory, in micro-ops")] = 1024
    instructions: Annotated[
        int, _count(0, 1 << 16, "instruction memory, in instructions; 0 if external")
    ] = 1024
    headers: Annotated[int, _count(0, 1 << 10, "packet headers of the window unit")] = 512
    load_bits: Annotated[
        int, _count(8, 1 << 12, "bits loaded per cycle, a multiple of a vector")
    ] = 256
    filters: Annotated[int, _count(0, 64, "filters of the window unit; 0 for none")] = 4
    queue_places: Annotated[int, _count(1, 64, "depth of the instruction queue of a unit")] = 8
    token_bits: Annotated[int, _count(1, 16, "width of a token counter")] = 8
    payload_bits: Annotated[int, _count(8, 512, "payload of a flit")] = 64
    loop_overhead: Annotated[int, _count(0, 16, "extra cycles per iteration of an outer loop")] = 0

    def __post_init__(self) -> None:
        # The name comes first, as messages start with it.
        for field, kind in annotations_of(NpuShape).items():
            object.__setattr__(self, field, self._checked(field, kind))
        if self.multiply_lanes > self.rows:
            raise ChipError(
                f"npu {self.name}: multiply_lanes is {self.multiply_lanes}; the array has "
                f"{self.rows} rows"
            )
        if self.load_bits % (8 * self.columns):
            raise ChipError(
                f"npu {self.name}: load_bits is {self.load_bits}; give a multiple of "
                f"{8 * self.columns}, the bits of a vector of {self.columns} columns"
            )

    def _checked(self, field: str, kind: Any) -> Any:
        """Return the value of a field as a plain Python object."""
        value = getattr(self, field)
        plain = value.item() if isinstance(value, np.generic) else value
        base, meta = get_args(kind)
        if base is int:
            if type(plain) is int and meta.ge <= plain <= meta.le:
                return plain
            asked = f"a whole number from {meta.ge} to {meta.le}"
        elif base is bool:
            if isinstance(plain, bool):
                return plain
            asked = "true or false"
        elif base is str:
            if isinstance(plain, str) and plain:
                return plain
            raise ChipError(f"npu: name is {value!r}; give a non-empty text")
        else:
            if plain in get_args(base):
                return plain
            asked = f"one of {', '.join(get_args(base))}"
        raise ChipError(f"npu {self.name}: {field} is {value!r}; give {asked}")

    @property
    def latency(self) -> Latency:
        """Pipeline depths of the units.

        With a weight port of one row, the matrix unit starts when all rows of the first word have
        arrived; published models of cores with external memory do not count these cycles.
        """
        found = Latency()
        if self.multiplier == "dual":  # entries of tables have 16 bits
            found = found._replace(lookup=found.lookup + 256 * 8 // 128)
        if self.weight_port == "row" and self.map_vectors:
            found = found._replace(matrix=found.matrix + self.rows)
        return found

    @property
    def accumulator_bits(self) -> int:
        """Bits per lane of ACC."""
        return 48 if self.multiplier == "dual" else 32

    @property
    def vectors_per_cycle(self) -> int:
        """Vectors loaded per cycle."""
        return self.load_bits // (8 * self.columns)

    def to_json(self) -> dict[str, Any]:
        """Return the name of a preset, or all fields; `npu_from_table` is the inverse."""
        if NPU_SHAPES.get(self.name) == self:
            return {"preset": self.name}
        return {field.name: getattr(self, field.name) for field in fields(self)}


NPU_SHAPES: dict[str, NpuShape] = {
    shape.name: shape
    for shape in (
        NpuShape(),
        NpuShape("npu-dual", multiplier="dual"),
        NpuShape(
            "ref32", 32, 32, "dual", binary=False, multiply_lanes=32, weight_port="row",
            map_vectors=0, input_vectors=3072, weight_words=128, entries=2048, instructions=0,
            headers=0, filters=0, loop_overhead=2,
        ),
        NpuShape(
            "tiny", 4, 4, multiply_lanes=4, map_vectors=512, input_vectors=128, weight_words=64,
            entries=128, parameter_words=64, micro_ops=64, instructions=64, headers=32,
            load_bits=64, filters=2, queue_places=2, token_bits=4, payload_bits=32,
        ),
    )
}  # fmt: skip
"""Preset shapes by name."""
