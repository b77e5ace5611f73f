"""Search for vectors that a sender may overwrite before they are read, event by event."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.table import UNITS
from mapper.compiler.artifacts.checks.touches import Instruction, instructions_of
from mapper.compiler.artifacts.manifest import CompiledFolder

Place = tuple[int, int]
LOAD, STORE = UNITS.index("LOAD"), UNITS.index("STORE")
FRAMES = 3


class Written(NamedTuple):
    """Vectors that are written at once in a frame.

    addresses : addresses in each slot; credits : consumed in the frame until then, by stream
    """

    addresses: NDArray[np.int64]
    credits: dict[int, int]


class Sender(NamedTuple):
    """Vectors of a stream. first, total : credits before the first frame and per frame"""

    source: Place | None
    writes: list[Written]
    first: dict[int, int]
    total: dict[int, int]


class Receiver:
    """Loads of a core in order: times are positions in `FRAMES` frames."""

    def __init__(self, program: list[Instruction]) -> None:
        self.sends: dict[tuple[Place | None, int], list[int]] = defaultdict(list)
        self.arrivals: dict[int, list[int]] = defaultdict(list)
        self.reads: dict[int, list[int]] = defaultdict(list)
        loads = [one for one in program if one.unit == LOAD] * FRAMES
        for time, one in enumerate(loads):
            f = one.fields
            if one.name == "CTRL.SEND":
                key = None if f["host"] else (f["x"], f["y"])
                self.sends[key, f["stream"]] += [time] * f["count"]
            elif one.name == "CTRL.WAIT":
                self.arrivals[f["stream"]] += [time] * f["count"]
            for memory, cells in one.reads:
                for cell in cells.tolist() if memory == "FM" else ():
                    self.reads[cell].append(time)

    def last_read(self, address: int, begin: int, end: int) -> int:
        """Return the time of the last read from one time to another; -1 if there is none."""
        times = self.reads[address]
        at = bisect_left(times, end) - 1
        return times[at] if at >= 0 and times[at] >= begin else -1


def overwrites(folder: CompiledFolder) -> bool:
    """Return whether a vector in a region of one slot may be overwritten before its last read."""
    programs = {
        place: list(instructions_of(image, folder.shape, str(place)))
        for place, image in folder.images.items()
    }
    receivers = {place: Receiver(program) for place, program in programs.items()}
    return any(
        _is_early(receivers[place], stream, sender)
        for place, stream, sender in (*_cores(folder, programs), *_host(folder))
    )


def _is_early(receiver: Receiver, stream: int, sender: Sender) -> bool:
    arrivals, number = receiver.arrivals[stream], 0
    previous: dict[int, int] = {}
    for frame in range(FRAMES):
        for write in sender.writes:
            allowed = -1
            for credit, count in write.credits.items():
                needed = frame * sender.total[credit] + count - sender.first[credit]
                if needed > 0:
                    allowed = max(allowed, receiver.sends[sender.source, credit][needed - 1])
            for address in write.addresses.tolist():
                if address in previous:
                    begin, end = arrivals[previous[address]], arrivals[number]
                    if receiver.last_read(address, begin, end) > allowed:
                        return True
                previous[address] = number
                number += 1
    return False


def _cores(
    folder: CompiledFolder, programs: dict[Place, list[Instruction]]
) -> Iterator[tuple[Place, int, Sender]]:
    """Yield the streams between cores to regions of one slot: receiver, stream, sender."""
    counts = {(one["x"], one["y"]): dict(one["streams"]) for one in folder.manifest["cores"]}
    for source, program in programs.items():
        waits = [one for one in program if one.name == "CTRL.WAIT" and one.unit == STORE]
        total: dict[int, int] = defaultdict(int)
        for one in waits:
            total[one.fields["stream"]] += one.fields["count"]
        consumed = dict.fromkeys(total, 0)
        found: dict[tuple[Place, int], list[Written]] = defaultdict(list)
        for one in program:
            if one.name == "CTRL.WAIT" and one.unit == STORE:
                consumed[one.fields["stream"]] += one.fields["count"]
            elif one.name == "STORE.REMOTE":
                place = one.fields["x"], one.fields["y"]
                found[place, one.fields["stream"]].append(Written(one.sends, {}))
                written = found[place, one.fields["stream"]][-1]
                written.credits.update(consumed)
        for (place, stream), writes in found.items():
            if all(one.addresses.shape[1] == 1 for one in writes):
                first = {credit: counts[source].get(credit, 0) for credit in total}
                known = _from(programs[place], source, total)
                flat = [
                    Written(one.addresses[:, 0], {at: one.credits[at] for at in known})
                    for one in writes
                ]
                yield place, stream, Sender(source, flat, first, total)


def _from(program: list[Instruction], source: Place, streams: dict[int, int]) -> list[int]:
    """Return the streams of credits that a receiver sends to a core."""
    found = {
        one.fields["stream"]
        for one in program
        if one.name == "CTRL.SEND" and not one.fields["host"]
        if (one.fields["x"], one.fields["y"]) == source
    }
    return sorted(found & set(streams))


def _host(folder: CompiledFolder) -> Iterator[tuple[Place, int, Sender]]:
    """Yield the streams of the host to rings."""
    for core in folder.manifest["cores"]:
        for one in core["brought"]:
            if "waits" not in one:
                continue
            consumed = np.cumsum(one["waits"]).tolist()
            stream = one["stream"]
            writes = [
                Written(np.arange(first, first + count), {stream: credits})
                for (first, count, _), credits in zip(one["runs"], consumed, strict=True)
            ]
            sender = Sender(None, writes, {stream: one["credits"]}, {stream: consumed[-1]})
            yield (core["x"], core["y"]), stream, sender
