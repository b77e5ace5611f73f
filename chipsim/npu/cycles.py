"""When each instruction of a core starts and ends: fetch, four queues, and tokens between units.

An instruction is dispatched to the queue of its unit, one a cycle, in order, as soon as that has a
place. A unit starts an instruction when the one before has ended, it was dispatched a cycle before,
and the units that it waits for have given their tokens. Nothing depends on data, so one frame says
it for all.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.npu.arrivals import Arriving, Asked, HostLink, HostWords, Taken

UNITS = ("LOAD", "GEMM", "ALU", "STORE")


class Timed(NamedTuple):
    """An instruction as the units see it: its unit, masks of tokens, and cycles.

    moved : bits that it moves to or from external memory
    words : weight words that it asks for, which come while others work, or that its products wait
        for
    """

    unit: int
    wait: int
    signal: int
    cycles: int
    moved: int = 0
    words: Asked | Taken | None = None


class Timeline(NamedTuple):
    """Cycles of one frame on a core.

    start, end : int64, shape (instructions,); in `end` the next one of its unit may start
    busy : cycles that each unit works, int64, shape (4,)
    late : cycles of them in which an instruction waits for weights, int64, shape (instructions,);
        they are not in `busy`
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    late: NDArray[np.int64]

    @property
    def cycles(self) -> int:
        """From the first fetch until all units are idle."""
        return int(self.end.max(initial=0))


def run_queues(program: list[Timed], shape: NpuShape, host: HostLink | None = None) -> Timeline:
    """The timeline of a frame; raises `ChipError` if a unit waits for a token that never comes.

    Of the units that could start an instruction, the one that can first does; so the way to
    external memory is taken in the order in which it is asked for.
    """
    start = np.zeros(len(program), np.int64)
    end = np.zeros(len(program), np.int64)
    late = np.zeros(len(program), np.int64)
    busy = np.zeros(len(UNITS), np.int64)
    queues = _Queues(program, shape)
    memory = _External(shape, host)
    free = [0] * len(UNITS)
    for _ in program:
        begin, number = queues.next(free)
        one = program[number]
        until = memory.end(one, begin)
        if isinstance(one.words, Taken):
            late[number] = memory.wait(one.words, begin)
            until += int(late[number])
        start[number], end[number] = begin, until
        free[one.unit] = until
        busy[one.unit] += until - begin - int(late[number])
        queues.started(number, begin, until)
    _require_counters(program, start, queues.tokens, shape)
    return Timeline(start, end, busy, late)


class _Queues:
    """The instructions that are dispatched and have not started, and the tokens between units.

    tokens : cycles from which they count, by unit that gives and unit that takes them
    """

    def __init__(self, program: list[Timed], shape: NpuShape) -> None:
        self.program, self.places = program, shape.queue_places
        self.tokens: dict[tuple[int, int], list[int]] = {}
        self._taken: dict[tuple[int, int], int] = {}
        self._waiting: list[deque[tuple[int, int]]] = [deque() for _ in UNITS]  # and since when
        self._starts: list[list[int]] = [[] for _ in UNITS]
        self._dispatched = [0] * len(UNITS)
        self._next = 0
        self._fetched = -1

    def next(self, free: list[int]) -> tuple[int, int]:
        """The cycle and number of the instruction that can start first; `free` : of each unit."""
        self._dispatch()
        found = [
            (max(free[unit], waiting[0][1], self._given(waiting[0][0])), waiting[0][0])
            for unit, waiting in enumerate(self._waiting)
            if waiting and self._missing(waiting[0][0]) is None
        ]
        if not found:
            number = min(waiting[0][0] for waiting in self._waiting if waiting)
            other = self._missing(number)
            assert other is not None
            raise ChipError(
                f"deadlock: instruction {number} of {UNITS[self.program[number].unit]} waits for a "
                f"token of {UNITS[other]} that no earlier instruction gives"
            )
        return min(found)

    def started(self, number: int, begin: int, end: int) -> None:
        one = self.program[number]
        self._waiting[one.unit].popleft()
        self._starts[one.unit].append(begin)
        for other in range(len(UNITS)):
            if one.wait >> other & 1:
                self._taken[other, one.unit] = self._taken.get((other, one.unit), 0) + 1
            if one.signal >> other & 1:
                self.tokens.setdefault((one.unit, other), []).append(end)

    def _dispatch(self) -> None:
        """As many as have a place; it is free a cycle after its instruction started."""
        while self._next < len(self.program):
            unit = self.program[self._next].unit
            before = self._dispatched[unit] - self.places
            starts = self._starts[unit]
            if before >= len(starts):
                return
            self._fetched = max(self._fetched + 1, starts[before] + 1 if before >= 0 else 0)
            self._waiting[unit].append((self._next, self._fetched + 1))
            self._dispatched[unit] += 1
            self._next += 1

    def _missing(self, number: int) -> int | None:
        """A unit that has not given a token that an instruction waits for."""
        one = self.program[number]
        for other in range(len(UNITS)):
            if one.wait >> other & 1:
                given = len(self.tokens.get((other, one.unit), ()))
                if given <= self._taken.get((other, one.unit), 0):
                    return other
        return None

    def _given(self, number: int) -> int:
        """The cycle from which all tokens of an instruction count."""
        one = self.program[number]
        return max(
            (
                self.tokens[other, one.unit][self._taken.get((other, one.unit), 0)]
                for other in range(len(UNITS))
                if one.wait >> other & 1
            ),
            default=0,
        )


class _External:
    """The way to external memory: a number of bits a cycle, first come, first served. Weight words
    of a core with its own maps come from the host instead."""

    def __init__(self, shape: NpuShape, host: HostLink | None) -> None:
        self._bits = shape.load_bits
        self._host = HostWords(shape, host)
        self._free = 0
        self._arriving: Arriving | None = None  # the last weight words that were asked for

    def end(self, one: Timed, begin: int) -> int:
        """When an instruction ends that starts in a cycle; its unit is busy until then."""
        if not one.moved:
            if isinstance(one.words, Asked):
                self._arriving = self._host.ask(one.words, begin)
            return begin + one.cycles
        at = max(begin, self._free)
        self._free = at + -(-one.moved // self._bits)
        if isinstance(one.words, Asked):
            each = Fraction(self._free - at, max(1, one.words.words))
            self._arriving = Arriving(one.words, at, each)
            return begin + one.cycles
        return max(at + one.cycles, self._free)

    def wait(self, taken: Taken, begin: int) -> int:
        """Cycles by which products that start in a cycle end later; none if no word is asked
        for."""
        return self._arriving.wait(taken, begin) if self._arriving else 0


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
