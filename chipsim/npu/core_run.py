"""When each instruction of a core that runs alone starts and ends, and what its units wait for.

Events are worked off in order of time: at each cycle first what ends, then fetch, then the units
that can start. Weights come by a way of their own, without a mesh. Cores that send each other maps
are run by `chipsim.npu.mesh_run`; both give the same times of a core that sends nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.npu.arrivals import Arriving, Asked, HostLink, HostWords, Taken
from chipsim.npu.causes import CAUSES, DONE, FETCH, TOKEN, WEIGHTS
from chipsim.npu.cycles import UNITS
from chipsim.npu.followed import Registers
from chipsim.npu.records import Program

_ENDS, _WAKES = 0, 1  # kinds of events, in the order in which those of a cycle are worked off


class Part(NamedTuple):
    """An instruction as the units see it. words : weight words that it asks the host for, or that
    its products wait for"""

    unit: int
    wait: int
    signal: int
    cycles: int
    words: Asked | Taken | None = None


class CoreTimes(NamedTuple):
    """Cycles of a frame.

    cycles : until the last unit is idle
    start, end : int64, shape (instructions up to END,)
    busy : cycles that each unit works, int64, shape (4,)
    waits : cycles that each unit does not, by cause, int64, shape (4, len(CAUSES))
    """

    cycles: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    waits: NDArray[np.int64]

    def order(self) -> NDArray[np.int64]:
        """Numbers of instructions in the order in which they end."""
        return np.lexsort((self.start, self.end))


def parts_of(program: Program, shape: NpuShape, begin: int = 0) -> list[Part]:
    """The instructions of a core up to its END.

    begin : of a function, the number of its first instruction

    Raises `ChipError` if one has to do with another core.
    """
    parts = []
    for one in Registers(program, shape).follow(begin):
        if one.kind in ("WAIT", "SEND", "REMOTE"):
            raise ChipError(
                f"instruction {one.at} ({one.op}.{one.kind}) has to do with another core; the core "
                "runs alone"
            )
        wait, signal = int(program.wait[one.at]), int(program.signal[one.at])
        parts.append(Part(one.unit, wait, signal, one.cycles, one.words))
    return parts


@dataclass(slots=True)
class _Core:
    """A core at work; queues hold (instruction, cycle of its dispatch)."""

    parts: list[Part]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    waits: NDArray[np.int64]
    at: int = 0  # the next one to fetch
    fetched: int = -1  # cycle of the last one
    queues: list[deque[tuple[int, int]]] = field(default_factory=lambda: [deque() for _ in UNITS])
    free: list[int] = field(default_factory=lambda: [0] * len(UNITS))  # since which cycle
    works: list[bool] = field(default_factory=lambda: [False] * len(UNITS))
    tokens: dict[tuple[int, int], deque[int]] = field(default_factory=dict)  # cycles of arrival
    arriving: Arriving | None = None  # the last weight words that it asked for


def run_core(
    shape: NpuShape, program: Program, host: HostLink | None = None, begin: int = 0
) -> CoreTimes:
    """One frame.

    host : how weight words come; begin : the number of the first instruction, of a function

    Raises `ChipError` that says which units wait for what if none can go on, and if more tokens
    wait than a counter holds.
    """
    parts = parts_of(program, shape, begin)
    core = _Core(
        parts,
        np.full(len(parts), -1, np.int64),
        np.full(len(parts), -1, np.int64),
        np.zeros(len(UNITS), np.int64),
        np.zeros((len(UNITS), len(CAUSES)), np.int64),
    )
    cycles = _work(core, shape, HostWords(shape, host))
    core.waits[:, DONE] += cycles - np.array(core.free)
    return CoreTimes(cycles, core.start, core.end, core.busy, core.waits)


def _work(core: _Core, shape: NpuShape, host: HostWords) -> int:
    """All events; returns the cycle of the last one."""
    events: list[tuple[int, int, int]] = [(0, _WAKES, 0)]  # cycle, kind, instruction
    last = 0
    while events:
        now, kind, at = heappop(events)
        if kind == _ENDS:
            last = now
            _finish(core, at, now, shape)
            heappush(events, (now, _WAKES, 0))
            continue
        while events and events[0] == (now, _WAKES, 0):
            heappop(events)
        again = _fetch(core, now, shape)
        for one in _start(core, now, host):
            heappush(events, (int(core.end[one]), _ENDS, one))
            again = True
        if again:
            heappush(events, (now + 1, _WAKES, 0))
    if core.at < len(core.parts) or any(core.queues):
        raise ChipError(f"deadlock: {_say_waits(core)}")
    return last


def _finish(core: _Core, at: int, now: int, shape: NpuShape) -> None:
    """An instruction ends: its unit is free, its tokens are there."""
    part = core.parts[at]
    core.works[part.unit], core.free[part.unit] = False, now
    for other in range(len(UNITS)):
        if part.signal >> other & 1:
            waiting = core.tokens.setdefault((part.unit, other), deque())
            waiting.append(now)
            if len(waiting) >= 1 << shape.token_bits:
                raise ChipError(
                    f"{len(waiting)} tokens of {UNITS[part.unit]} wait for {UNITS[other]}, whose "
                    f"counter holds {(1 << shape.token_bits) - 1}"
                )


def _fetch(core: _Core, now: int, shape: NpuShape) -> bool:
    """Dispatch the next instruction, if its queue has a place; whether it did."""
    if core.at >= len(core.parts) or now <= core.fetched:
        return False
    queue = core.queues[core.parts[core.at].unit]
    if len(queue) >= shape.queue_places:
        return False
    queue.append((core.at, now))
    core.at, core.fetched = core.at + 1, now
    return True


def _start(core: _Core, now: int, host: HostWords) -> list[int]:
    """Start what can start; returns the instructions that do."""
    started = []
    for unit, queue in enumerate(core.queues):
        if core.works[unit] or not queue or queue[0][1] >= now:
            continue
        at, dispatched = queue[0]
        part = core.parts[at]
        taken = [(u, core.tokens.get((u, unit))) for u in range(len(UNITS)) if part.wait >> u & 1]
        if not all(given for _, given in taken):
            continue
        queue.popleft()
        idle, ready = core.free[unit], dispatched + 1
        core.waits[unit, FETCH] += max(0, ready - idle)
        if taken:
            came, whose = max((given.popleft(), u) for u, given in taken if given)
            core.waits[unit, TOKEN + whose] += max(0, came - max(idle, ready))
        late = _wait(core, part, now, host)
        core.works[unit] = True
        core.busy[unit] += part.cycles
        core.waits[unit, WEIGHTS] += late
        core.start[at], core.end[at] = now, now + part.cycles + late
        started.append(at)
    return started


def _wait(core: _Core, part: Part, now: int, host: HostWords) -> int:
    """Cycles that products wait for their weights; an instruction that asks for some waits not."""
    if isinstance(part.words, Asked):
        core.arriving = host.ask(part.words, now)
    if not isinstance(part.words, Taken) or core.arriving is None:
        return 0
    return core.arriving.wait(part.words, now)


def _say_waits(core: _Core) -> str:
    """Which units wait for what."""
    found = []
    for unit, queue in enumerate(core.queues):
        if core.works[unit] or not queue:
            continue
        at = queue[0][0]
        lacking = [
            UNITS[other]
            for other in range(len(UNITS))
            if core.parts[at].wait >> other & 1 and not core.tokens.get((other, unit))
        ]
        if lacking:
            found.append(
                f"{UNITS[unit]} waits at instruction {at} for a token of {' and '.join(lacking)}"
            )
    return "; ".join(found)
