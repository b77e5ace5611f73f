"""Walk the instructions of a program in order, with units, cycles, and register values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import Asked, Taken, WordOrder
from chipsim.npu.cycles import UNITS
from chipsim.npu.records import FIELDS, KINDS, Op, Program
from chipsim.npu.timing import cycles_of, matrix_cycles, moved_bits, stores_pairs


class Followed(NamedTuple):
    """An instruction.

    at : its number
    fields : by name
    cycles : cycles without stalls
    words : weight words that it requests from the host, or that its products read
    base : base address of stores
    high : distance of the high bytes that it stores, 0 for none
    moved : bits that it moves from or to external memory
    """

    at: int
    op: str
    kind: str
    fields: Mapping[str, int]
    unit: int
    cycles: int
    words: Asked | Taken | None
    base: int
    high: int
    moved: int


class Registers:
    """Registers that a program sets while it runs; the next frame starts with their last values."""

    def __init__(self, program: Program, shape: NpuShape) -> None:
        self.program, self.shape = program, shape
        maps = program.maps
        self._order = WordOrder(
            shape, program.micro_ops[:, 2], lambda at, count: maps[at : at + count].tobytes()
        )
        self._store = self._high = 0

    @property
    def state(self) -> tuple[object, ...]:
        """All values; a frame that starts with the same ones runs the same instructions."""
        return self._store, self._high, self._order.state

    def follow(self, begin: int = 0) -> Iterator[Followed]:
        """Yield the instructions of a frame up to END.

        begin : the first instruction to yield; earlier ones only set registers
        """
        program, shape = self.program, self.shape
        headers = program.headers.tolist()
        for at in range(len(program.op)):
            op, kind, f = fields_by_name(program, at)
            words = self._order.follow(op, kind, f)
            if kind == "BASE" and f["space"] == 1:
                self._store = f["value"]
            if kind == "DIST" and f["queue"] == UNITS.index("STORE"):
                self._high = f["src"]
            if at < begin:
                continue
            unit = _unit_of(op, f)
            each = [matrix_cycles(f, shape)] * f["uops"] if op == "GEMM" else []
            pairs = op == "STORE" and stores_pairs(kind, f, self._high, shape)
            cycles = cycles_of(op, kind, f, each, shape, headers, pairs)
            high = self._high if pairs else 0
            moved = moved_bits(op, kind, f, shape, pairs)
            yield Followed(at, op, kind, f, unit, cycles, words, self._store, high, moved)
            if kind == "END":
                return


def units_of(program: Program) -> NDArray[np.int64]:
    """Return the unit of each instruction, shape (instructions,)."""
    rows = (fields_by_name(program, at) for at in range(len(program.op)))
    return np.array([_unit_of(op, fields) for op, _, fields in rows], np.int64)


def _unit_of(op: str, fields: Mapping[str, int]) -> int:
    if op == "CTRL":
        return fields.get("queue", 0)
    return UNITS.index({"RQ": "ALU"}.get(op, op))


def fields_by_name(program: Program, at: int) -> tuple[str, str, dict[str, int]]:
    """Return op, kind, and fields of an instruction."""
    op, kind = int(program.op[at]), int(program.kind[at])
    names = FIELDS[op, kind]
    values = program.fields[at, : len(names)].tolist()
    return Op(op).name, KINDS[Op(op)][kind], dict(zip(names, values, strict=True))
