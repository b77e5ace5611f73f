"""How large the matrix processor (NPU) of a core is: its arrays, memories and ports."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from chipsim.errors import ChipError

MULTIPLIERS = ("int8", "dual")
WEIGHT_PORTS = ("word", "row")


@dataclass(frozen=True, slots=True)
class NpuShape:
    """An NPU core; raises `ChipError` that names a value out of range.

    A vector holds one byte for each column. Maps in external memory (`map_vectors` of 0) are on a
    core of its own, with memory attached.

    name : what the shape is called; programs name the shape that they were made for
    rows, columns : output and input channels of the matrix unit
    multiplier : int8, or dual (25x16 bits: int16, or two int8 with a common factor)
    binary : whether binary products of 8 bits a lane can be made
    multiply_lanes : of the ALU, 1 to rows
    weight_port : what enters the matrix unit in a cycle, a weight word or a row of it
    map_vectors : feature memory (FM), in vectors; 0 for external memory
    input_vectors : input buffer (INP), in vectors
    weight_words : weight memory (WM), in words of rows x columns bytes
    entries : accumulators (ACC) and results (OUT), in entries of one lane a row
    parameter_words : parameter memory (PM), in words of 16 x 32 bits
    micro_ops, instructions, headers : UM, IM and HM; 0 instructions for external memory
    load_bits : that a load moves in a cycle
    filters : of the window unit, 0 for none
    queue_places, token_bits : instructions waiting for a unit, and width of a counter of tokens
    payload_bits : of a flit
    loop_overhead : cycles that each iteration of a loop around another one adds in the matrix unit
    """

    name: str = "npu"
    rows: int = 16
    columns: int = 16
    multiplier: str = "int8"
    binary: bool = True
    multiply_lanes: int = 8
    weight_port: str = "word"
    map_vectors: int = 8192
    input_vectors: int = 2048
    weight_words: int = 512
    entries: int = 1024
    parameter_words: int = 512
    micro_ops: int = 1024
    instructions: int = 1024
    headers: int = 512
    load_bits: int = 256
    filters: int = 4
    queue_places: int = 8
    token_bits: int = 8
    payload_bits: int = 64
    loop_overhead: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _RANGES:
                low, high = _RANGES[field.name]
                whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
                if not whole or not low <= value <= high:
                    raise ChipError(
                        f"npu {self.name}: {field.name} is {value!r}; give a whole number from "
                        f"{low} to {high}"
                    )
                object.__setattr__(self, field.name, int(value))
        for name, allowed in (("multiplier", MULTIPLIERS), ("weight_port", WEIGHT_PORTS)):
            if getattr(self, name) not in allowed:
                raise ChipError(
                    f"npu {self.name}: {name} is {getattr(self, name)!r}; give one of "
                    f"{', '.join(allowed)}"
                )
        if not isinstance(self.binary, bool):
            raise ChipError(f"npu {self.name}: binary is {self.binary!r}; give true or false")
        if self.multiply_lanes > self.rows:
            raise ChipError(
                f"npu {self.name}: multiply_lanes is {self.multiply_lanes}; the array has "
                f"{self.rows} rows"
            )

    @property
    def accumulator_bits(self) -> int:
        """Of a lane of ACC."""
        return 48 if self.multiplier == "dual" else 32

    @property
    def vectors_per_cycle(self) -> int:
        """Vectors that a load moves in a cycle."""
        return max(1, self.load_bits // (8 * self.columns))


_RANGES = {  # least and most of every number, by the fields of the instructions
    "rows": (1, 64),
    "columns": (1, 64),
    "multiply_lanes": (1, 64),
    "map_vectors": (0, 1 << 16),
    "input_vectors": (2, 1 << 12),
    "weight_words": (2, 1 << 12),
    "entries": (2, 1 << 12),
    "parameter_words": (2, 1 << 10),
    "micro_ops": (2, 1 << 10),
    "instructions": (0, 1 << 16),
    "headers": (0, 1 << 10),
    "load_bits": (8, 1 << 12),
    "filters": (0, 64),
    "queue_places": (1, 64),
    "token_bits": (1, 16),
    "payload_bits": (8, 512),
    "loop_overhead": (0, 16),
}

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
"""Shapes by name."""
