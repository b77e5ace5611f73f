"""When each instruction of several cores starts and ends, without the delays of a mesh.

What a core stores to another one, and the tokens of its streams, arrive there when the instruction
that sends them ends. Within a core all is as `chipsim.npu.cycles` has it. Events are worked off in
order of time: at each cycle first what ends, then fetch, then the units that can start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.npu.arrivals import Arriving, Asked, HostLink, HostWords, Taken, WordOrder
from chipsim.npu.cycles import UNITS
from chipsim.npu.records import FIELDS, KINDS, STREAMS, Op, Program
from chipsim.npu.timing import cycles_of, matrix_cycles, stores_pairs

Place = tuple[int, int]
CAUSES = ("fetch", *(f"token of {unit}" for unit in UNITS), "stream", "weights", "no more work")
"""What a unit that does not work waits for."""
FETCH, TOKEN, STREAM, WEIGHTS, DONE = 0, 1, 5, 6, 7
SHOWN = 6  # waits in a message
_ENDS, _WAKES = 0, 1  # kinds of events, in the order in which those of a cycle are worked off


class Part(NamedTuple):
    """An instruction as the units see it.

    takes : stream and count that it waits for, else None
    gives : number of a core, stream and count that it adds when it ends, else None
    words : weight words that it asks the host for, or that its products wait for
    """

    unit: int
    wait: int
    signal: int
    cycles: int
    takes: tuple[int, int] | None = None
    gives: tuple[int, int, int] | None = None
    words: Asked | Taken | None = None


class CoreTimes(NamedTuple):
    """Cycles of one core.

    start, end : int64, shape (instructions up to END,)
    busy : cycles that each unit works, int64, shape (4,)
    waits : cycles that each unit does not, by cause, int64, shape (4, len(CAUSES))
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    waits: NDArray[np.int64]


class ChipTimes(NamedTuple):
    """cycles : until the last unit of all cores is idle"""

    cycles: int
    cores: dict[Place, CoreTimes]

    def order(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of cores, and of their instructions, in the order in which these end."""
        rows = [
            (int(end), int(times.start[at]), core, at)
            for core, times in enumerate(self.cores.values())
            for at, end in enumerate(times.end)
            if end >= 0
        ]
        found = np.array(sorted(rows), np.int64).reshape(-1, 4)
        return np.ascontiguousarray(found[:, 2]), np.ascontiguousarray(found[:, 3])


def parts_of(
    program: Program, shape: NpuShape, number: Mapping[Place, int], where: str, begin: int = 0
) -> list[Part]:
    """The instructions of a core up to its END.

    number : of each core; where : the core, for errors; begin : of a function, the number of its
    first instruction
    """
    parts = []
    order = WordOrder(
        shape, program.micro_ops[:, 2], lambda at, count: _vectors(program, at, count)
    )
    headers = program.headers.tolist()
    behind = 0  # distance of the high bytes of results, which go as vectors of their own
    for at, (op, kind) in enumerate(zip(program.op.tolist(), program.kind.tolist(), strict=True)):
        names = FIELDS[op, kind]
        f = dict(zip(names, program.fields[at, : len(names)].tolist(), strict=True))
        word, name = Op(op).name, KINDS[Op(op)][kind]
        words = order.follow(word, name, f)
        if at < begin:
            continue
        unit = {Op.LOAD: 0, Op.GEMM: 1, Op.ALU: 2, Op.RQ: 2, Op.STORE: 3}.get(Op(op))
        if unit is None:
            unit = f.get("queue", 0)
        if (word, name) == ("CTRL", "DIST") and unit == 3:
            behind = f["src"]
        each = [matrix_cycles(f, shape)] * f["uops"] if word == "GEMM" else []
        pairs = word == "STORE" and stores_pairs(name, f, behind, shape)
        takes, gives = None, None
        if name == "WAIT":
            takes = f["stream"], f["count"]
        elif name in ("SEND", "REMOTE"):
            to = number.get((f["x"], f["y"]))
            if to is None:
                raise ChipError(
                    f"{where}: instruction {at} ({word}.{name}): core ({f['x']}, {f['y']}) has no "
                    "program"
                )
            count = f.get("count", 0)
            if name == "REMOTE":
                count = f["c_size"] * f["y_size"] * f["x_size"] * (1 + 3 * f["up"]) * (1 + pairs)
            gives = to, f["stream"], count
        cycles = cycles_of(word, name, f, each, shape, headers, pairs)
        wait, signal = int(program.wait[at]), int(program.signal[at])
        parts.append(Part(unit, wait, signal, cycles, takes, gives, words))
        if name == "END":
            break
    return parts


def _vectors(program: Program, first: int, count: int) -> bytes:
    return program.maps[first : first + count].tobytes()


@dataclass(slots=True)
class _Core:
    """A core at work; queues hold (instruction, cycle of its dispatch)."""

    name: str
    parts: list[Part]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    busy: NDArray[np.int64]
    waits: NDArray[np.int64]
    streams: list[int]
    at: int = 0  # the next one to fetch
    fetched: int = -1  # cycle of the last one
    queues: list[deque[tuple[int, int]]] = field(default_factory=lambda: [deque() for _ in UNITS])
    free: list[int] = field(default_factory=lambda: [0] * len(UNITS))  # since which cycle
    works: list[bool] = field(default_factory=lambda: [False] * len(UNITS))
    waiting: list[int] = field(default_factory=list)  # instructions that wait for streams
    tokens: dict[tuple[int, int], deque[int]] = field(default_factory=dict)  # cycles of arrival
    arriving: Arriving | None = None  # the last weight words that it asked for


def run_chip(
    shape: NpuShape,
    programs: Mapping[Place, Program],
    credits: Mapping[Place, ArrayLike] | None = None,
    host: HostLink | None = None,
    begin: int = 0,
) -> ChipTimes:
    """One frame of all cores.

    credits : what the streams of a core have counted before, shape (STREAMS,); 0 if not named
    host : how weight words come; begin : the number of the first instruction, of a function

    Raises `ChipError` that says which units wait for what if none can go on, and if more tokens
    wait than a counter holds.
    """
    number = {place: at for at, place in enumerate(programs)}
    given = {place: np.asarray(counts).tolist() for place, counts in (credits or {}).items()}
    cores = []
    for place, program in programs.items():
        name = f"core ({place[0]}, {place[1]})"
        parts = parts_of(program, shape, number, name, begin)
        count = len(parts)
        cores.append(
            _Core(
                name,
                parts,
                np.full(count, -1, np.int64),
                np.full(count, -1, np.int64),
                np.zeros(len(UNITS), np.int64),
                np.zeros((len(UNITS), len(CAUSES)), np.int64),
                list(given.get(place, [0] * STREAMS)),
            )
        )
    cycles = _work(cores, shape, HostWords(shape, host))
    for core in cores:
        core.waits[:, DONE] += cycles - np.array(core.free)
    return ChipTimes(
        cycles,
        {
            place: CoreTimes(core.start, core.end, core.busy, core.waits)
            for place, core in zip(programs, cores, strict=True)
        },
    )


def _work(cores: list[_Core], shape: NpuShape, host: HostWords) -> int:
    """All events; returns the cycle of the last one."""
    events: list[tuple[int, int, int, int]] = []  # cycle, kind, core, instruction
    for at in range(len(cores)):
        heappush(events, (0, _WAKES, at, 0))
    last = 0
    while events:
        now, kind, number, at = heappop(events)
        core = cores[number]
        if kind == _ENDS:
            last = now
            woken = _finish(cores, number, at, now, shape)
            for other in woken:
                heappush(events, (now, _WAKES, other, 0))
            continue
        while events and events[0] == (now, _WAKES, number, 0):
            heappop(events)
        again = _fetch(core, now, shape)
        for one in _start(core, now, host):
            heappush(events, (int(core.end[one]), _ENDS, number, one))
            again = True
        if again:
            heappush(events, (now + 1, _WAKES, number, 0))
    if any(core.at < len(core.parts) or any(core.queues) or core.waiting for core in cores):
        raise ChipError(f"deadlock: {_say_waits(cores)}")
    return last


def _finish(cores: list[_Core], number: int, at: int, now: int, shape: NpuShape) -> set[int]:
    """An instruction ends: its unit is free, its tokens and counts are there. Returns the numbers
    of cores that may go on."""
    core, part = cores[number], cores[number].parts[at]
    core.works[part.unit], core.free[part.unit] = False, now
    for other in range(len(UNITS)):
        if part.signal >> other & 1:
            waiting = core.tokens.setdefault((part.unit, other), deque())
            waiting.append(now)
            if len(waiting) >= 1 << shape.token_bits:
                raise ChipError(
                    f"{core.name}: {len(waiting)} tokens of {UNITS[part.unit]} wait for "
                    f"{UNITS[other]}, whose counter holds {(1 << shape.token_bits) - 1}"
                )
    if part.gives is None:
        return {number}
    to, stream, count = part.gives
    cores[to].streams[stream] += count
    return {number, to}


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
    """Start what can start; returns the instructions whose end is known now."""
    known = []
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
        core.works[unit] = True
        core.start[at] = now
        core.busy[unit] += part.cycles
        if part.takes is None:
            late = _wait(core, part, now, host)
            core.waits[unit, WEIGHTS] += late
            core.end[at] = now + part.cycles + late
            known.append(at)
        else:
            core.waiting.append(at)
    for at in list(core.waiting):
        part = core.parts[at]
        assert part.takes is not None
        stream, count = part.takes
        if core.streams[stream] >= count:
            core.streams[stream] -= count
            core.waiting.remove(at)
            core.end[at] = now + part.cycles
            core.waits[part.unit, STREAM] += now - core.start[at]
            known.append(at)
    return known


def _wait(core: _Core, part: Part, now: int, host: HostWords) -> int:
    """Cycles that products wait for their weights; an instruction that asks for some waits not."""
    if isinstance(part.words, Asked):
        core.arriving = host.ask(part.words, now)
    if not isinstance(part.words, Taken) or core.arriving is None:
        return 0
    try:
        return core.arriving.wait(part.words, now)
    except ChipError as error:
        raise ChipError(f"{core.name}: {error}") from None


def _say_waits(cores: list[_Core]) -> str:
    """Which units wait for what; the first few."""
    found = []
    for core in cores:
        for at in core.waiting:
            name, (stream, count) = UNITS[core.parts[at].unit], core.parts[at].takes or (0, 0)
            found.append(
                f"{core.name}: {name} waits at instruction {at} for {count:,} of stream {stream}, "
                f"which has counted {core.streams[stream]:,}"
            )
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
                    f"{core.name}: {UNITS[unit]} waits at instruction {at} for a token of "
                    f"{' and '.join(lacking)}"
                )
    more = f"; and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more
