"""Checks of the traffic between the programs of several cores, from their bytes alone.

Streams balance: in a frame each stream counts as many vectors as are waited for. Vectors are sent
into feature maps of the receiving core, which does not write there itself. The sender waits for the
credit that the receiver sends after its last load of the overwritten vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.table import UNITS
from mapper.compiler.artifacts.checks.touches import Cells, Instruction
from mapper.errors import CheckFailedError

Place = tuple[int, int]
LOAD, STORE = UNITS.index("LOAD"), UNITS.index("STORE")


class Paced(NamedTuple):
    """Vectors that the host sends into a ring.

    starts : index of the first vector of each run
    waits : credits that each run consumes; credits : credits before the first frame
    """

    starts: Sequence[int]
    waits: Sequence[int]
    credits: int


class Traded(NamedTuple):
    """A program with its core's external data.

    brought : vectors that the host sends, in order, by stream, shape (count, slots)
    maps : vectors of all feature maps of the core
    counts : initial count of each stream, before the first frame
    where : file name for errors
    rings : whether some maps are in rings
    paced : credits for vectors that the host sends into rings, by stream
    """

    program: list[Instruction]
    brought: Mapping[int, Cells]
    maps: Cells
    counts: Mapping[int, int]
    where: str
    rings: bool = False
    paced: Mapping[int, Paced] = MappingProxyType({})


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
    for key, sending in sent.items():
        _require_credits(cores, key, sending)
    for place, core in cores.items():
        _require_host_credits(core)
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
    inside = {place: _mask(core) for place, core in cores.items()}
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
            mine = inside[key[0]]
            outside = one.sends[~mine[np.minimum(one.sends, mine.size - 1)]]
            if outside.size:
                raise CheckFailedError(
                    f"{_what(core, one)}: writes FM[{outside.min()}] of core {key[0]}, which is "
                    "not in a feature map there"
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


def _mask(core: Traded) -> NDArray[np.bool_]:
    """Return whether each vector is in a feature map; the last one and all later ones are not."""
    mask = np.zeros(2 + int(core.maps.max(initial=0)), bool)
    mask[core.maps] = True
    return mask


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
    cores: Mapping[Place, Traded], to: tuple[Place, int], sending: Sending
) -> None:
    """Raise unless each vector is sent after the credit for its last read."""
    core, source = cores[to[0]], cores[sending.source]
    streams = sorted({one for waited in sending.waited for one in waited})
    given = [
        Given(
            _sends(core, number, sending.source),
            source.counts.get(number, 0),
            [waited.get(number, 0) for waited in sending.waited],
        )
        for number in streams
    ]
    wrong = _not_free(core, to[1], sending.cells, given)
    if wrong is not None:
        raise CheckFailedError(
            f"{core.where}: core {sending.source} writes vectors of stream {to[1]} without a "
            f"credit sent after instruction {wrong}, the last one that reads them"
        )


class Given(NamedTuple):
    """Credits from a receiver to a sender.

    sends : number and count of each SEND of the receiver, in order
    first : credits before the first frame
    waited : credits of a frame that the sender has consumed before each write
    """

    sends: list[tuple[int, int]]
    first: int
    waited: list[int]


def _sends(core: Traded, stream: int, to: Place | None) -> list[tuple[int, int]]:
    """Return the credits of a stream that a core sends. to : the core they go to; None: the host"""
    found = []
    for one in core.program:
        if one.name == "CTRL.SEND" and one.unit == LOAD and one.fields["stream"] == stream:
            f = one.fields
            if (f["host"] and to is None) or (not f["host"] and (f["x"], f["y"]) == to):
                found.append((one.number, f["count"]))
    return found


def _not_free(
    core: Traded, stream: int, writes: Sequence[Cells], given: Sequence[Given]
) -> int | None:
    """Return the number of an instruction that may read a vector after it is overwritten; None if
    there is none.

    With T credits per frame and an initial count C, a sender that has consumed w credits in a frame
    has received all credits of earlier frames, and w - C credits of this frame; if that is
    negative, C - w credits of the previous frame may be missing. If a vector was written before in
    the same frame, the sender needs a credit of this frame. Otherwise it needs a credit of the
    frame that used this slot before, and C is at least T, because the first frame would not end.
    """
    whole = _together(writes)
    latest, again = _overwritten(core, stream, whole)
    stops = np.cumsum([len(cells) for cells in writes])
    for number, (stop, cells) in enumerate(zip(stops.tolist(), writes, strict=True)):
        span = slice(stop - len(cells), stop)
        for last, same in dict.fromkeys(
            zip(latest[span].tolist(), again[span].tolist(), strict=True)
        ):
            for one in given:
                total = sum(count for _, count in one.sends)
                lag = 0 if same else cells.shape[1]
                enough = lag * total + one.waited[number] - one.first
                before = sum(count for at, count in one.sends if at < last)
                if total and before < enough and (same or core.rings or one.first >= total):
                    break
            else:
                return int(last)
    return None


def _overwritten(core: Traded, stream: int, cells: Cells) -> tuple[Cells, NDArray[np.bool_]]:
    """Return, for each vector of a stream, the last instruction that reads the previous vector at
    its address, -1 if none does, and whether the previous vector is of the same frame.

    A load reads the vectors that its core has waited for, as no vector may arrive too early.
    """
    last = np.full(1 + max(int(core.maps.max(initial=0)), int(cells.max(initial=0))), -1)
    latest, again = np.full(len(cells), -1), np.zeros(len(cells), bool)
    came, order = np.zeros(last.size, bool), np.zeros(last.size, np.int64)
    at = 0
    for one in core.program:
        if one.name == "CTRL.WAIT" and one.fields["stream"] == stream and one.unit == LOAD:
            stop = min(at + one.fields["count"], len(cells))
            for some in _distinct(cells[at:stop], order):
                span = slice(at, at + len(some))
                again[span] = came[some].all(1)
                latest[span] = last[some].max(1)
                came[some] = True
                at += len(some)
        for memory, places in one.reads:
            if memory == "FM":
                last[places[places < last.size]] = one.number
    first = ~again
    latest[first] = last[cells[first]].max(1, initial=-1)
    return latest, again


def _distinct(cells: Cells, order: NDArray[np.int64]) -> Iterable[Cells]:
    """Return vectors that arrive during a wait: together, or one by one if some have the same
    address. order : a number for each address"""
    if not len(cells):
        return ()
    numbers = np.arange(len(cells))[:, None]
    order[cells] = numbers
    return [cells] if (order[cells] == numbers).all() else np.split(cells, len(cells))


def _require_host_credits(core: Traded) -> None:
    for stream, cells in core.brought.items():
        sends = _sends(core, stream, None)
        pace = core.paced.get(stream)
        if pace is not None:
            given = Given(sends, pace.credits, np.cumsum(pace.waits).tolist())
            if sum(count for _, count in sends) != sum(pace.waits):
                raise CheckFailedError(
                    f"{core.where}: stream {stream} of the host gives "
                    f"{sum(count for _, count in sends)} credits, {sum(pace.waits)} are consumed"
                )
            wrong = _not_free(core, stream, np.split(cells, pace.starts[1:]), [given])
            if wrong is not None:
                raise CheckFailedError(
                    f"{core.where}: the host writes vectors of stream {stream} without a credit "
                    f"sent after instruction {wrong}, the last one that reads them"
                )
            continue
        latest, _ = _overwritten(core, stream, cells)
        last = int(latest.max(initial=-1))
        if sum(count for _, count in sends) != 1 or any(at < last for at, _ in sends):
            raise CheckFailedError(
                f"{core.where}: stream {stream} of the host must have exactly one credit, sent "
                f"after instruction {last}, the last one that reads its vectors"
            )


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
        if both.size or (np.unique(cells).size < cells.size and not core.rings):
            raise CheckFailedError(f"{core.where}: {name} counts vectors that others also write")
        seen = np.unique(np.concatenate([seen, cells]))
    for one in core.program:
        for memory, cells in one.writes:
            if memory == "FM" and np.isin(cells, seen).any():
                raise CheckFailedError(f"{_what(core, one)}: writes vectors that are received")
