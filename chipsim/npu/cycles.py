"""Start and end of each instruction of a core: fetch, four queues, and tokens between units.

Instructions are dispatched to the queues of their units in order, one per cycle, as soon as the
queue has room. A unit starts an instruction at least one cycle after its dispatch, when the
previous instruction has ended and the tokens it waits for have arrived. Timing is independent of
data, so one frame represents all.
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
CAUSES = (
    "fetch", *(f"token of {unit}" for unit in UNITS),
    "stream", "credit", "router", "weights", "bank", "no more work",
)  # fmt: skip
"""Causes of stalls of units. Stream: data of another core; credit: a consumer has not freed its
slot; router: the mesh does not accept the flit; bank: a store's bank is receiving, or the path to
external memory is in use."""
FETCH, TOKEN = 0, 1
STREAM, CREDIT, ROUTER, WEIGHTS, BANK, DONE = range(TOKEN + len(UNITS), len(CAUSES))


class Timed(NamedTuple):
    """An instruction as the units see it: its unit, token masks, and cycles.

    moved : bits transferred to or from external memory
    words : weight words that it requests (these arrive in the background), or that its products
        read
    """

    unit: int
    wait: int
    signal: int
    cycles: int
    moved: int = 0
    words: Asked | Taken | None = None


class Timeline(NamedTuple):
    """Cycles of one frame on a core.

    start, end : int64, shape (instructions,); the unit may start the next instruction at `end`
    busy : busy cycles of each unit, int64, shape (4,)
    late : cycles that an instruction stalls for weights, int64, shape (instructions,); not included
        in `busy`
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    late: NDArray[np.int64]

    @property
    def cycles(self) -> int:
        """Cycles from the first fetch until all units are idle."""
        return int(self.end.max(initial=0))


def run_queues(program: list[Timed], shape: NpuShape, host: HostLink | None = None) -> Timeline:
    """Return the timeline of a frame; raises `ChipError` if a token that is waited for never comes.

    Among the units that could start an instruction, the earliest one starts, so accesses to
    external memory happen in the order of the requests.
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
    """Dispatched instructions that have not started, and the tokens between units.

    tokens : cycles from which tokens are valid, by producing and consuming unit
    """

    def __init__(self, program: list[Timed], shape: NpuShape) -> None:
        self.program, self.places = program, shape.queue_places
        self.tokens: dict[tuple[int, int], list[int]] = {}
        self._taken: dict[tuple[int, int], int] = {}
        self._waiting: list[deque[tuple[int, int]]] = [
            deque() for _ in UNITS
        ]  # with the cycle of dispatch
        self._starts: list[list[int]] = [[] for _ in UNITS]
        self._dispatched = [0] * len(UNITS)
        self._next = 0
        self._fetched = -1

    def next(self, free: list[int]) -> tuple[int, int]:
        """Return cycle and number of the earliest instruction that can start; `free` : per unit"""
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
                f"token of {UNITS[other]} that no earlier instruction sends"
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
        """Dispatch while queues have room; a place is free a cycle after its instruction starts."""
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
        """Return a unit whose token an instruction still waits for, or None."""
        one = self.program[number]
        for other in range(len(UNITS)):
            if one.wait >> other & 1:
                given = len(self.tokens.get((other, one.unit), ()))
                if given <= self._taken.get((other, one.unit), 0):
                    return other
        return None

    def _given(self, number: int) -> int:
        """Return the cycle from which all tokens of an instruction are valid."""
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
    """Channel to external memory: a number of bits per cycle, first come, first served.

    Weight words of a core with its own feature memory come from the host instead.
    """

    def __init__(self, shape: NpuShape, host: HostLink | None) -> None:
        self._bits = shape.load_bits
        self._host = HostWords(shape, host)
        self._free = 0
        self._arriving: Arriving | None = None  # last requested weight words

    def end(self, one: Timed, begin: int) -> int:
        """Return the end of an instruction that starts in a cycle; its unit is busy until then."""
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
        """Return the stall of products that start in a cycle; 0 if no word was requested."""
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
