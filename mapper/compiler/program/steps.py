"""Instructions with the memory cells that they access, and the tokens that keep them in order.

Each unit runs its instructions in order; units run in parallel. An instruction that reads data of
another unit, or overwrites data that another unit still has to read, waits for a token from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.table import UNITS, Instruction, form_of

UNIT_OF = {"LOAD": 0, "GEMM": 1, "ALU": 2, "RQ": 2, "STORE": 3}


def unit_of(one: Instruction) -> int:
    """Return the index of the unit that runs an instruction."""
    return UNIT_OF.get(one.op, one.fields.get("queue", 0))


def control(queue: str, kind: str, **fields: int) -> Instruction:
    """Return an instruction in the queue of a unit that controls the program."""
    return Instruction("CTRL", kind, fields={"queue": UNITS.index(queue), **fields})


@cache
def most_of(op: str, kind: str) -> Mapping[str, int]:
    """Return the largest value of each field of an instruction."""
    return MappingProxyType({field.name: field.most for field in form_of(op, kind).fields})


Cells = NDArray[np.int64] | Callable[[], NDArray[np.int64]]
"""Cells of a memory, or a function that lists them: code whose cycles are counted needs no list."""


class Touch:
    """Cells of a memory that an instruction reads or writes: vectors, or entries."""

    __slots__ = ("_cells", "memory")

    def __init__(self, memory: str, cells: Cells) -> None:
        self.memory, self._cells = memory, cells

    @property
    def cells(self) -> NDArray[np.int64]:
        if callable(self._cells):
            self._cells = self._cells()
        return self._cells

    def __iter__(self) -> Iterator[Any]:
        """Yield the memory and the cells."""
        yield self.memory
        yield self.cells


class SentVectors:
    """Vectors that a step sends to another core, in order.

    stream : of that core, which counts them; credit : stream that counts their credits
    cells : their numbers there, see `Region.number`
    """

    __slots__ = ("_touch", "core", "credit", "stream")

    def __init__(self, core: tuple[int, int], stream: int, credit: int, cells: Cells) -> None:
        self.core, self.stream, self.credit = core, stream, credit
        self._touch = Touch("FM", cells)

    @property
    def cells(self) -> NDArray[np.int64]:
        return self._touch.cells


@dataclass(slots=True)
class Step:
    """An instruction of a unit.

    macro, tile : indices of its macro node, and of its tile in the program
    sent : vectors that it sends to another core
    numbers : numbers of the vectors that it loads from a ring, see `Region.number`
    """

    unit: str
    instruction: Instruction
    macro: int
    reads: list[Touch] = field(default_factory=list)
    writes: list[Touch] = field(default_factory=list)
    tile: int = 0
    sent: SentVectors | None = None
    numbers: NDArray[np.int64] | None = None

    @property
    def loaded(self) -> list[NDArray[np.int64]]:
        """Numbers of the vectors of feature maps that it reads."""
        if self.numbers is not None:
            return [self.numbers] if self.numbers.size else []
        fm = [one.cells for one in self.reads if one.memory == "FM"]
        return [cells for cells in fm if cells.size]


def with_tokens(steps: list[Step], sizes: dict[str, int]) -> list[Instruction]:
    """Return the instructions with the fewest waits and signals that keep the order.

    sizes : cells of each memory
    A step depends on the last step of each other unit that wrote the cells it reads, or that read
    or wrote the cells it writes. It waits unless that step is known to be done: from earlier waits
    of the unit, and from the waits of the steps it waited for (vector clocks).
    """
    count = len(UNITS)
    wrote = {name: np.full((count, size), -1, np.int64) for name, size in sizes.items()}
    read = {name: np.full((count, size), -1, np.int64) for name, size in sizes.items()}
    known = [np.full(count, -1, np.int64) for _ in UNITS]  # steps that each unit knows to be done
    clocks: list[list[NDArray[np.int64]]] = [[] for _ in UNITS]  # `known` after each step
    places: list[list[int]] = [[] for _ in UNITS]  # step indices of each unit
    waits, signals = [0] * len(steps), [0] * len(steps)
    for number, step in enumerate(steps):
        unit = UNITS.index(step.unit)
        needs = np.full(count, -1, np.int64)
        for memory, cells in step.reads:
            if cells.size:
                np.maximum(needs, wrote[memory][:, cells].max(1), out=needs)
        for memory, cells in step.writes:
            if cells.size:
                np.maximum(needs, wrote[memory][:, cells].max(1), out=needs)
                np.maximum(needs, read[memory][:, cells].max(1), out=needs)
        # latest first: its own waits may cover the others
        open_ones = [other for other in range(count) if other != unit]
        for other in sorted(open_ones, key=lambda u: -places[u][needs[u]] if needs[u] >= 0 else 1):
            at = int(needs[other])
            if at <= known[unit][other]:
                continue
            waits[number] |= 1 << other
            signals[places[other][at]] |= 1 << unit
            np.maximum(known[unit], clocks[other][at], out=known[unit])
        here = len(places[unit])
        known[unit][unit] = here
        clocks[unit].append(known[unit].copy())
        places[unit].append(number)
        for memory, cells in step.reads:
            read[memory][unit, cells] = here
        for memory, cells in step.writes:
            wrote[memory][unit, cells] = here
    return [
        step.instruction._replace(wait=waits[number], signal=signals[number])
        for number, step in enumerate(steps)
    ]
