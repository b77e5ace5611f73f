"""When each instruction of a core starts and ends: fetch, four queues, and tokens between units.

An instruction is dispatched to the queue of its unit, one a cycle, in order, as soon as that has a
place. A unit starts an instruction when the one before has ended, it was dispatched a cycle before,
and the units that it waits for have given their tokens. Nothing depends on data, so one frame says
it for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError

UNITS = ("LOAD", "GEMM", "ALU", "STORE")


class Timed(NamedTuple):
    """An instruction as the units see it: its unit, masks of tokens, and cycles."""

    unit: int
    wait: int
    signal: int
    cycles: int


class Timeline(NamedTuple):
    """Cycles of one frame on a core.

    start, end : int64, shape (instructions,); in `end` the next one of its unit may start
    busy : cycles that each unit works, int64, shape (4,)
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]

    @property
    def cycles(self) -> int:
        """From the first fetch until all units are idle."""
        return int(self.end.max(initial=0))


def run_queues(program: list[Timed], shape: NpuShape) -> Timeline:
    """The timeline of a frame; raises `ChipError` if a unit waits for a token that never comes."""
    start = np.zeros(len(program), np.int64)
    end = np.zeros(len(program), np.int64)
    busy = np.zeros(len(UNITS), np.int64)
    queue: list[list[int]] = [[] for _ in UNITS]  # starts of the instructions of each unit
    free = [0] * len(UNITS)
    tokens: dict[tuple[int, int], list[int]] = {}  # cycles from which they count
    taken: dict[tuple[int, int], int] = {}
    fetched = -1
    for number, one in enumerate(program):
        fetched += 1
        waiting = queue[one.unit]
        if len(waiting) >= shape.queue_places:
            fetched = max(fetched, waiting[-shape.queue_places] + 1)
        begin = max(free[one.unit], fetched + 1)
        for other in range(len(UNITS)):
            if one.wait >> other & 1:
                given = tokens.get((other, one.unit), [])
                count = taken.get((other, one.unit), 0)
                if count >= len(given):
                    raise ChipError(
                        f"deadlock: instruction {number} of {UNITS[one.unit]} waits for a token "
                        f"of {UNITS[other]} that no earlier instruction gives"
                    )
                begin = max(begin, given[count])
                taken[other, one.unit] = count + 1
        start[number], end[number] = begin, begin + one.cycles
        free[one.unit] = begin + one.cycles
        busy[one.unit] += one.cycles
        waiting.append(begin)
        for other in range(len(UNITS)):
            if one.signal >> other & 1:
                tokens.setdefault((one.unit, other), []).append(begin + one.cycles)
    _require_counters(program, start, tokens, shape)
    return Timeline(start, end, busy)


def _require_counters(
    program: list[Timed], start: NDArray[np.int64], tokens: dict[tuple[int, int], list[int]],
    shape: NpuShape,
) -> None:  # fmt: skip
    """Raise `ChipError` if more tokens wait for a unit than its counter holds."""
    most = (1 << shape.token_bits) - 1
    for (unit, other), given in tokens.items():
        takes = [int(t) for t, one in zip(start, program, strict=True)
                 if one.unit == other and one.wait >> unit & 1]  # fmt: skip
        gives = np.sort(np.array(given))
        waiting = np.arange(1, gives.size + 1) - np.searchsorted(np.sort(takes), gives, "left")
        if waiting.size and int(waiting.max()) > most:
            raise ChipError(
                f"{int(waiting.max())} tokens of {UNITS[unit]} wait for {UNITS[other]}, whose "
                f"counter holds {most}"
            )
