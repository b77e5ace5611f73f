"""What the programs of several cores send to each other, from their bytes alone.

Streams balance: in a frame each counts as much as is taken of it. What is sent lies in maps of the
core that gets it, which writes nothing there itself; and it is sent behind waits for so many
credits that that core has given the one behind its last load of those vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa import UNITS
from mapper.compiler.memory.touches import Cells, Instruction
from mapper.errors import CheckFailedError

Place = tuple[int, int]
LOAD, STORE = UNITS.index("LOAD"), UNITS.index("STORE")


class Traded(NamedTuple):
    """A program, and what its core gets besides.

    brought : vectors that the host sends, in order, by stream, shape (count, slots)
    maps : vectors of all maps that lie there
    counts : of streams before the first frame
    where : its file, for errors
    """

    program: list[Instruction]
    brought: Mapping[int, Cells]
    maps: Cells
    counts: Mapping[int, int]
    where: str


class Sending(NamedTuple):
    """Vectors that a core sends, in order, shape (count, slots) each.

    waited : for each of them, the credits that it has taken in this frame before, by stream
    """

    source: Place
    cells: list[Cells]
    waited: list[dict[int, int]]


def check_exchange(cores: Mapping[Place, Traded]) -> dict[Place, dict[int, Cells]]:
    """What comes to each core, by stream, in the order in which it does.

    Raises `CheckFailedError` that names the instruction, or the stream.
    """
    sent = _sent(cores)
    counted: dict[tuple[Place, int], int] = {}
    for key, sending in sent.items():
        counted[key] = sum(len(cells) for cells in sending.cells)
    for place, core in cores.items():
        for stream, cells in core.brought.items():
            counted[place, stream] = counted.get((place, stream), 0) + len(cells)
        for one in core.program:
            f = one.fields
            if one.name == "CTRL.SEND" and not f["host"]:
                to = f["x"], f["y"]
                if to not in cores:
                    raise CheckFailedError(f"{_what(core, one)}: core {to} has no program")
                counted[to, f["stream"]] = counted.get((to, f["stream"]), 0) + f["count"]
    for place, core in cores.items():
        _require_balance(place, core, counted)
    last = {place: _last_loads(core) for place, core in cores.items()}
    for (place, stream), sending in sent.items():
        _require_credits(cores, last[place], (place, stream), sending)
    for place, core in cores.items():
        _require_host_credits(core, last[place])
        _require_own(place, core, sent)
    return {
        place: dict(core.brought)
        | {stream: _together(one.cells) for (to, stream), one in sent.items() if to == place}
        for place, core in cores.items()
    }


def _together(cells: Sequence[Cells]) -> Cells:
    """Vectors one behind the other, with both slots if some have two."""
    slots = max(some.shape[1] for some in cells)
    return np.concatenate([np.broadcast_to(some, (len(some), slots)) for some in cells])


def _what(core: Traded, one: Instruction) -> str:
    return f"{core.where}: instruction {one.number} ({one.name})"


def _sent(cores: Mapping[Place, Traded]) -> dict[tuple[Place, int], Sending]:
    """What goes to each stream of each core."""
    found: dict[tuple[Place, int], Sending] = {}
    for place, core in cores.items():
        waited: dict[int, int] = {}
        for one in core.program:
            f = one.fields
            if one.name == "CTRL.WAIT" and one.unit == STORE:
                waited[f["stream"]] = waited.get(f["stream"], 0) + f["count"]
            if one.name != "STORE.REMOTE":
                continue
            key = (f["x"], f["y"]), f["stream"]
            if key[0] not in cores:
                raise CheckFailedError(f"{_what(core, one)}: core {key[0]} has no program")
            outside = np.setdiff1d(one.sends, cores[key[0]].maps)
            if outside.size:
                raise CheckFailedError(
                    f"{_what(core, one)}: writes FM[{outside[0]}] of core {key[0]}, which is of no "
                    "map there"
                )
            sending = found.setdefault(key, Sending(place, [], []))
            if sending.source != place:
                raise CheckFailedError(
                    f"{_what(core, one)}: stream {key[1]} of core {key[0]} counts what core "
                    f"{sending.source} sends, too"
                )
            sending.cells.append(one.sends)
            sending.waited.append(dict(waited))
    return found


def _require_balance(place: Place, core: Traded, counted: Mapping[tuple[Place, int], int]) -> None:
    taken: dict[int, int] = {}
    queues: dict[int, int] = {}
    for one in core.program:
        if one.name == "CTRL.WAIT":
            stream = one.fields["stream"]
            if queues.setdefault(stream, one.unit) != one.unit:
                raise CheckFailedError(
                    f"{_what(core, one)}: {UNITS[one.unit]} waits for stream {stream}, which "
                    f"{UNITS[queues[stream]]} waits for, too"
                )
            taken[stream] = taken.get(stream, 0) + one.fields["count"]
    streams = {stream for to, stream in counted if to == place} | set(taken)
    for stream in sorted(streams):
        gets, takes = counted.get((place, stream), 0), taken.get(stream, 0)
        if gets != takes:
            raise CheckFailedError(
                f"{core.where}: stream {stream} counts {gets:,} in a frame, and {takes:,} are taken"
            )


def _require_credits(
    cores: Mapping[Place, Traded], last: NDArray[np.int64], to: tuple[Place, int], sending: Sending
) -> None:
    """Raise unless each vector is sent behind the credit that says it was read for the last time.

    With T credits a frame, C of them at the beginning, and s slots, the one with which w are taken
    in a frame is number s T + w - C of those that are given from the frame on that had this slot
    before. With C below T the first frame would not end.
    """
    core, source = cores[to[0]], cores[sending.source]
    given = {
        number: [
            (one.number, one.fields["count"])
            for one in core.program
            if one.name == "CTRL.SEND"
            and one.unit == LOAD
            and not one.fields["host"]
            and (one.fields["x"], one.fields["y"]) == sending.source
            and one.fields["stream"] == number
        ]
        for number in sorted({one for waited in sending.waited for one in waited})
    }
    for cells, waited in zip(sending.cells, sending.waited, strict=True):
        latest = int(last[cells].max(initial=-1))
        for number, sends in given.items():
            total, first = sum(count for _, count in sends), source.counts.get(number, 0)
            enough = cells.shape[1] * total + waited.get(number, 0) - first
            before = sum(count for at, count in sends if at < latest)
            if total and before < enough and first >= total:
                break
        else:
            raise CheckFailedError(
                f"{core.where}: core {sending.source} writes what stream {to[1]} counts without a "
                f"credit that is given behind instruction {latest}, the last one that reads it"
            )


def _require_host_credits(core: Traded, loads: NDArray[np.int64]) -> None:
    for stream, cells in core.brought.items():
        last = int(loads[cells].max(initial=-1))
        given = [
            one
            for one in core.program
            if one.name == "CTRL.SEND" and one.fields["host"] and one.fields["stream"] == stream
        ]
        if sum(one.fields["count"] for one in given) != 1 or any(
            one.unit != LOAD or one.number < last for one in given
        ):
            raise CheckFailedError(
                f"{core.where}: what the host sends, counted by stream {stream}, has not one "
                f"credit behind instruction {last}, the last one that reads it"
            )


def _last_loads(core: Traded) -> NDArray[np.int64]:
    """The number of the last instruction that reads a vector, by vector; -1 of none."""
    most = max(int(cells.max(initial=0)) for cells in (core.maps, *core.brought.values()))
    found = np.full(1 + most, -1)
    for one in core.program:
        for memory, places in one.reads:
            if memory == "FM":
                found[places[places < found.size]] = one.number
    return found


def _require_own(place: Place, core: Traded, sent: Mapping[tuple[Place, int], Sending]) -> None:
    """Raise if a core writes where others do, or if two of them write at one place."""
    writers: list[tuple[str, Cells]] = [
        (f"stream {stream}", np.concatenate([some.ravel() for some in one.cells]))
        for (to, stream), one in sent.items()
        if to == place
    ]
    writers += [(f"stream {stream}, of the host,", cells) for stream, cells in core.brought.items()]
    seen = np.zeros(0, np.int64)
    for name, cells in writers:
        cells = cells.ravel()
        both = np.intersect1d(cells, seen)
        if both.size or np.unique(cells).size < cells.size:
            raise CheckFailedError(f"{core.where}: {name} counts vectors that others write, too")
        seen = np.concatenate([seen, cells])
    for one in core.program:
        for memory, cells in one.writes:
            if memory == "FM" and np.isin(cells, seen).any():
                raise CheckFailedError(f"{_what(core, one)}: writes what comes from elsewhere")
