"""What the programs of several cores send to each other, from their bytes alone.

Streams balance: in a frame each counts as much as is taken of it. What is sent lies in maps of the
core that gets it, which writes nothing there itself; and it is sent behind a wait for a credit that
that core gives when it has read those vectors for the last time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hw.npu.isa import UNITS
from mapper.compiler.memory.touches import Cells, Instruction
from mapper.errors import CheckFailedError

Place = tuple[int, int]
LOAD, STORE = UNITS.index("LOAD"), UNITS.index("STORE")


class Traded(NamedTuple):
    """A program, and what its core gets besides.

    brought : vectors that the host sends, in order, by stream, shape (count, slots)
    maps : vectors of all maps that lie there
    where : its file, for errors
    """

    program: list[Instruction]
    brought: Mapping[int, Cells]
    maps: Cells
    where: str


class Sending(NamedTuple):
    """Vectors that a core sends, in order, shape (count, slots); waited : streams whose credits it
    has taken before."""

    source: Place
    cells: list[Cells]
    waited: frozenset[int]


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
    for (place, stream), sending in sent.items():
        _require_credit(cores, place, stream, sending)
    for place, core in cores.items():
        _require_host_credits(core)
        _require_own(place, core, sent)
    return {
        place: dict(core.brought)
        | {stream: np.concatenate(one.cells) for (to, stream), one in sent.items() if to == place}
        for place, core in cores.items()
    }


def _what(core: Traded, one: Instruction) -> str:
    return f"{core.where}: instruction {one.number} ({one.name})"


def _sent(cores: Mapping[Place, Traded]) -> dict[tuple[Place, int], Sending]:
    """What goes to each stream of each core."""
    found: dict[tuple[Place, int], Sending] = {}
    for place, core in cores.items():
        waited: set[int] = set()
        for one in core.program:
            f = one.fields
            if one.name == "CTRL.WAIT" and one.unit == STORE:
                waited.add(f["stream"])
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
            sending = found.setdefault(key, Sending(place, [], frozenset(waited)))
            if sending.source != place:
                raise CheckFailedError(
                    f"{_what(core, one)}: stream {key[1]} of core {key[0]} counts what core "
                    f"{sending.source} sends, too"
                )
            if sending.cells and sending.cells[0].shape[1] != one.sends.shape[1]:
                raise CheckFailedError(f"{_what(core, one)}: has other slots than stores before it")
            sending.cells.append(one.sends)
    return found


def _require_balance(place: Place, core: Traded, counted: Mapping[tuple[Place, int], int]) -> None:
    taken: dict[int, int] = {}
    for one in core.program:
        if one.name == "CTRL.WAIT":
            stream = one.fields["stream"]
            taken[stream] = taken.get(stream, 0) + one.fields["count"]
    streams = {stream for to, stream in counted if to == place} | set(taken)
    for stream in sorted(streams):
        gets, takes = counted.get((place, stream), 0), taken.get(stream, 0)
        if gets != takes:
            raise CheckFailedError(
                f"{core.where}: stream {stream} counts {gets:,} in a frame, and {takes:,} are taken"
            )


def _require_credit(
    cores: Mapping[Place, Traded], place: Place, stream: int, sending: Sending
) -> None:
    """Raise unless a credit comes, behind the last load of what is sent, and is waited for."""
    core, cells = cores[place], np.unique(np.concatenate(sending.cells))
    last = _last_load(core.program, cells)
    given = [
        one
        for one in core.program
        if one.name == "CTRL.SEND"
        and not one.fields["host"]
        and (one.fields["x"], one.fields["y"]) == sending.source
        and one.fields["stream"] in sending.waited
    ]
    if not any(one.unit == LOAD and one.number > last for one in given):
        raise CheckFailedError(
            f"{core.where}: core {sending.source} writes what stream {stream} counts without a "
            f"credit that is given behind instruction {last}, the last one that reads it"
        )


def _require_host_credits(core: Traded) -> None:
    for stream, cells in core.brought.items():
        last = _last_load(core.program, cells)
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


def _last_load(program: Sequence[Instruction], cells: Cells) -> int:
    """The number of the last instruction that reads some of these vectors."""
    last = -1
    for one in program:
        for memory, places in one.reads:
            if memory == "FM" and places.size and np.isin(places, cells).any():
                last = one.number
    return last


def _require_own(place: Place, core: Traded, sent: Mapping[tuple[Place, int], Sending]) -> None:
    """Raise if a core writes where others do, or if two of them write at one place."""
    writers: list[tuple[str, Cells]] = [
        (f"stream {stream}", np.concatenate(one.cells))
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
