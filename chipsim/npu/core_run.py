"""Cycle-accurate run of a core on its own: start and end of each instruction, stalls of the units.

Events are processed in time order: in each cycle first ends, then fetch, then the units that can
start. Weights arrive over a separate channel, without a mesh. `chipsim.npu.mesh.run` simulates
cores that exchange data; both give the same times for a core that sends nothing.
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
from chipsim.npu.cycles import CAUSES, DONE, FETCH, TOKEN, UNITS, WEIGHTS
from chipsim.npu.followed import Registers
from chipsim.npu.records import Program

_ENDS, _WAKES = 0, 1  # event kinds, in processing order within a cycle


class UnitInstruction(NamedTuple):
    """An instruction as the units see it.

    words : weight words that it requests from the host, or that its products read
    """

    unit: int
    wait: int
    signal: int
    cycles: int
    words: Asked | Taken | None = None


class CoreTimes(NamedTuple):
    """Cycles of a frame.

    cycles : cycles until the last unit is idle
    start, end : int64, shape (instructions up to END,)
    busy : busy cycles of each unit, int64, shape (4,)
    waits : idle cycles of each unit by cause, int64, shape (4, len(CAUSES))
    """

    cycles: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    waits: NDArray[np.int64]

    def order(self) -> NDArray[np.int64]:
        """Return the instruction numbers in the order of their ends."""
        return np.lexsort((self.start, self.end))


def parts_of(program: Program, shape: NpuShape, begin: int = 0) -> list[UnitInstruction]:
    """Return the instructions of a core up to its END.

    begin : number of the first instruction, for a function

    Raises `ChipError` if an instruction communicates with another core.
    """
    parts = []
    for one in Registers(program, shape).follow(begin):
        if one.kind in ("WAIT", "SEND", "REMOTE"):
            raise ChipError(
                f"instruction {one.at} ({one.op}.{one.kind}) communicates with another core; "
                "the core runs alone"
            )
        wait, signal = int(program.wait[one.at]), int(program.signal[one.at])
        parts.append(UnitInstruction(one.unit, wait, signal, one.cycles, one.words))
    return parts


@dataclass(slots=True)
class _Core:
    """A running core; queues hold (instruction, cycle of its dispatch)."""

    parts: list[UnitInstruction]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    waits: NDArray[np.int64]
    at: int = 0  # next instruction to fetch
    fetched: int = -1  # cycle of the last fetch
    queues: list[deque[tuple[int, int]]] = field(default_factory=lambda: [deque() for _ in UNITS])
    free: list[int] = field(default_factory=lambda: [0] * len(UNITS))  # since which cycle
    works: list[bool] = field(default_factory=lambda: [False] * len(UNITS))
    tokens: dict[tuple[int, int], deque[int]] = field(default_factory=dict)  # cycles of arrival
    arriving: Arriving | None = None  # last requested weight words


def run_core(
    shape: NpuShape, program: Program, host: HostLink | None = None, begin: int = 0
) -> CoreTimes:
    """Run one frame.

    host : timing of weights from the host
    begin : number of the first instruction, for a function

    Raises `ChipError` naming the waiting units at a deadlock, and if a token counter overflows.
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
    """Process all events; return the cycle of the last one."""
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
    """End an instruction: free its unit and deliver its tokens."""
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
    """Dispatch the next instruction if its queue has room; return True if dispatched."""
    if core.at >= len(core.parts) or now <= core.fetched:
        return False
    queue = core.queues[core.parts[core.at].unit]
    if len(queue) >= shape.queue_places:
        return False
    queue.append((core.at, now))
    core.at, core.fetched = core.at + 1, now
    return True


def _start(core: _Core, now: int, host: HostWords) -> list[int]:
    """Start all instructions that can start; return them."""
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


def _wait(core: _Core, part: UnitInstruction, now: int, host: HostWords) -> int:
    """Return the stall of products for their weights in cycles; a request does not stall."""
    if isinstance(part.words, Asked):
        core.arriving = host.ask(part.words, now)
    if not isinstance(part.words, Taken) or core.arriving is None:
        return 0
    return core.arriving.wait(part.words, now)


def _say_waits(core: _Core) -> str:
    """Return a text on the waiting units and the tokens that they lack."""
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
