"""Checks of the traffic between the programs of several cores, from their bytes alone.

Streams balance: in a frame each stream counts as many vectors as are waited for. Vectors are sent
into feature maps of the receiving core, which does not write there itself. The sender waits for the
credit that the receiver sends after its last load of the overwritten vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.table import UNITS
from mapper.compiler.artifacts.checks.touches import Cells, Instruction
from mapper.errors import CheckFailedError

Place = tuple[int, int]
LOAD, STORE = UNITS.index("LOAD"), UNITS.index("STORE")


class Traded(NamedTuple):
    """A program with its core's external data.

    brought : vectors that the host sends, in order, by stream, shape (count, slots)
    maps : vectors of all feature maps of the core
    counts : initial count of each stream, before the first frame
    where : file name for errors
    """

    program: list[Instruction]
    brought: Mapping[int, Cells]
    maps: Cells
    counts: Mapping[int, int]
    where: str


class Sending(NamedTuple):
    """Vectors that a core sends, in order, shape (count, slots) each.

    waited : credits of this frame consumed before each of them, by stream
    """

    source: Place
    cells: list[Cells]
    waited: list[dict[int, int]]


def check_exchange(cores: Mapping[Place, Traded]) -> dict[Place, dict[int, Cells]]:
    """Check the traffic; return the vectors that arrive at each core, by stream, in order.

    Raises `CheckFailedError` with the instruction or the stream.
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
    """Concatenate vectors, with two columns if some have two slots."""
    slots = max(some.shape[1] for some in cells)
    return np.concatenate([np.broadcast_to(some, (len(some), slots)) for some in cells])


def _what(core: Traded, one: Instruction) -> str:
    return f"{core.where}: instruction {one.number} ({one.name})"


def _sent(cores: Mapping[Place, Traded]) -> dict[tuple[Place, int], Sending]:
    """Return the vectors sent to each stream of each core."""
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
                    f"{_what(core, one)}: writes FM[{outside[0]}] of core {key[0]}, which is not "
                    "in a feature map there"
                )
            sending = found.setdefault(key, Sending(place, [], []))
            if sending.source != place:
                raise CheckFailedError(
                    f"{_what(core, one)}: stream {key[1]} of core {key[0]} already counts vectors "
                    f"of core {sending.source}"
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
                    f"{_what(core, one)}: {UNITS[one.unit]} waits for stream {stream}, but so does "
                    f"{UNITS[queues[stream]]}"
                )
            taken[stream] = taken.get(stream, 0) + one.fields["count"]
    streams = {stream for to, stream in counted if to == place} | set(taken)
    for stream in sorted(streams):
        gets, takes = counted.get((place, stream), 0), taken.get(stream, 0)
        if gets != takes:
            raise CheckFailedError(
                f"{core.where}: stream {stream} counts {gets:,} per frame, {takes:,} are consumed"
            )


def _require_credits(
    cores: Mapping[Place, Traded], last: NDArray[np.int64], to: tuple[Place, int], sending: Sending
) -> None:
    """Raise unless each vector is sent after the credit for its last read.

    With T credits per frame, an initial count C, and s slots, a sender that has consumed w credits
    in a frame holds credit number s T + w - C, counted from the frame that used this slot before.
    With C below T the first frame would not end.
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
                f"{core.where}: core {sending.source} writes vectors of stream {to[1]} without a "
                f"credit sent after instruction {latest}, the last one that reads them"
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
                f"{core.where}: stream {stream} of the host must have exactly one credit, sent "
                f"after instruction {last}, the last one that reads its vectors"
            )


def _last_loads(core: Traded) -> NDArray[np.int64]:
    """Return the number of the last instruction that reads each vector; -1 if none does."""
    most = max(int(cells.max(initial=0)) for cells in (core.maps, *core.brought.values()))
    found = np.full(1 + most, -1)
    for one in core.program:
        for memory, places in one.reads:
            if memory == "FM":
                found[places[places < found.size]] = one.number
    return found


def _require_own(place: Place, core: Traded, sent: Mapping[tuple[Place, int], Sending]) -> None:
    """Raise if a core writes vectors that it receives, or if two senders write the same vector."""
    writers: list[tuple[str, Cells]] = [
        (f"stream {stream}", np.concatenate([some.ravel() for some in one.cells]))
        for (to, stream), one in sent.items()
        if to == place
    ]
    writers += [(f"host stream {stream}", cells) for stream, cells in core.brought.items()]
    seen = np.zeros(0, np.int64)
    for name, cells in writers:
        cells = cells.ravel()
        both = np.intersect1d(cells, seen)
        if both.size or np.unique(cells).size < cells.size:
            raise CheckFailedError(f"{core.where}: {name} counts vectors that others also write")
        seen = np.concatenate([seen, cells])
    for one in core.program:
        for memory, cells in one.writes:
            if memory == "FM" and np.isin(cells, seen).any():
                raise CheckFailedError(f"{_what(core, one)}: writes vectors that are received")
