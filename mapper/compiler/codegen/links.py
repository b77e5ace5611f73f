"""What cores of a chip send to each other: where results go, streams that count them, and credits.

A store to another core names a stream of that core, one for each core that sends there, which
counts the vectors. A load there waits until those that it reads have come: they come in the order
in which they are stored. When a core has read a region for the last time in a frame, it gives each
core that writes there a credit; a region of one slot is freed in bands of rows, with a credit each,
so that the next frame comes into the rows that this one has left. All credits from one core to
another have one stream, and come in the order in which their bands are read for the last time. Of T
a frame, a band of s slots that is the one with number p has been left once f T + p - s T of them
have come, in frame f; so many are taken before something is written there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa import UNITS, Instruction, form_of
from mapper.compiler.codegen.steps import Step
from mapper.compiler.memory.planner import Region
from mapper.compiler.schedule.inputs import Span
from mapper.errors import DoesNotFitError

Place = tuple[int, int]
MOST_COUNT = next(f.most for f in form_of("CTRL", "WAIT").fields if f.name == "count")


Kind = Literal["LOCAL", "REMOTE", "HOST"]
KINDS: tuple[Kind, ...] = ("LOCAL", "REMOTE", "HOST")


class Target(NamedTuple):
    """Where a part of a result goes.

    kind : to a map of this core, of another one, or to the host
    region : where all of the result would lie there; rows, blocks : which part of it goes there
    core : the other core, or the node of the host's port
    stream : that counts it there; credit : stream of this core that counts its credits
    """

    kind: Kind
    region: Region
    rows: Span
    blocks: Span
    core: Place = (0, 0)
    stream: int = 0
    credit: int = 0


class Credit(NamedTuple):
    """Given when a region, or a band of it, has been read for the last time in a frame.

    to : the core that writes there, or the node of the host's port; stream : of that core, or of
        this one if it is the host
    first, stop : vectors of the region, or the band; slots : frames that it holds
    """

    to: Place
    host: bool
    stream: int
    first: int
    stop: int
    slots: int


class Brought(NamedTuple):
    """What the host sends into a region: a stream that counts it, and its vectors, in order.

    slots : see `Region`; runs : first vectors, how many follow each, and the row of the map that
        they are of
    """

    stream: int
    slots: int
    runs: tuple[tuple[int, int, int], ...]

    @property
    def cells(self) -> NDArray[np.int64]:
        runs = [np.arange(first, first + count) for first, count, _ in self.runs]
        return np.concatenate([np.zeros(0, np.int64), *runs])


@dataclass(frozen=True, slots=True)
class Links:
    """Of a core.

    counts : of its streams before the first frame, by stream; known when its program is linked
    """

    credits: tuple[Credit, ...] = ()
    brought: tuple[Brought, ...] = ()
    counts: Mapping[int, int] = field(default_factory=dict)

    @property
    def comes(self) -> dict[int, NDArray[np.int64]]:
        """What the host sends, by stream."""
        return {one.stream: one.cells for one in self.brought}


NO_LINKS = Links()


def links_to_json(links: Links) -> dict[str, Any]:
    """As plain lists and numbers."""
    return {
        "credits": [[*one.to, int(one.host), *one[2:]] for one in links.credits],
        "brought": [
            [one.stream, one.slots, [list(run) for run in one.runs]] for one in links.brought
        ],
    }


def links_from_json(data: Mapping[str, Any]) -> Links:
    """Undoes `links_to_json`; raises `TypeError` or `ValueError` if it is something else."""
    given = []
    for x, y, host, *rest in data["credits"]:
        stream, first, stop, slots = map(int, rest)
        given.append(Credit((int(x), int(y)), bool(host), stream, first, stop, slots))
    brought = [
        Brought(int(stream), int(slots), tuple((int(a), int(b), int(c)) for a, b, c in runs))
        for stream, slots, runs in data["brought"]
    ]
    return Links(tuple(given), tuple(brought))


class Sent(NamedTuple):
    """Vectors that a step sends, in order; credit : stream that counts the credits for them."""

    core: Place
    stream: int
    credit: int
    cells: NDArray[np.int64]


def sent_to(place: Place, cores: Iterable[Sequence[Step]]) -> dict[int, NDArray[np.int64]]:
    """What comes to a core, by stream, in the order in which it does. cores : steps of all"""
    found: dict[int, list[NDArray[np.int64]]] = {}
    for steps in cores:
        for step in steps:
            if step.sent is not None and step.sent.core == place:
                found.setdefault(step.sent.stream, []).append(step.sent.cells)
    return {stream: np.concatenate(cells) for stream, cells in found.items()}


def freed_for(
    place: Place, cores: Iterable[tuple[Sequence[Step], Links]]
) -> dict[int, list[Credit]]:
    """The credits that others give a core, by stream, in their order. cores : all of them"""
    found: dict[int, list[Credit]] = {}
    for steps, links in cores:
        for _, one in _given(steps, links.credits):
            if one.to == place and not one.host:
                found.setdefault(one.stream, []).append(one)
    return found


class Others(NamedTuple):
    """What a core gets, by stream: vectors, in the order in which they come, and credits."""

    comes: Mapping[int, NDArray[np.int64]]
    freed: Mapping[int, Sequence[Credit]]


def linked(
    steps: Sequence[Step], links: Links, others: Others, vectors: int
) -> tuple[list[Step], Links]:
    """The steps of a core with waits for what comes, and for credits, and with credits given; and
    its links with the credits that it has before the first frame.

    vectors : of the feature memory
    The last step is END.
    """
    comes = others.comes
    arrival = {stream: np.zeros(vectors, np.int64) for stream in comes}
    for stream, cells in comes.items():
        arrival[stream][cells] = np.arange(1, cells.size + 1)
    taken = dict.fromkeys(comes, 0)
    given: dict[int, list[Credit]] = {}
    for number, one in _given(steps, links.credits):
        given.setdefault(number, []).append(one)
    asked, counts = _asked(steps, others.freed)
    found: list[Step] = []
    for number, step in enumerate(steps):
        if step is steps[-1]:
            for stream, cells in comes.items():
                found += _waits("LOAD", stream, cells.size - taken[stream], step)
            found += [_gives(one, step) for one in given.get(number, [])]
        elif step.unit == "LOAD":
            read = [some for memory, some in step.reads if memory == "FM" and some.size]
            for stream in comes if read else ():
                need = max(int(arrival[stream][some].max()) for some in read)
                found += _waits("LOAD", stream, need - taken[stream], step)
                taken[stream] = max(taken[stream], need)
        if step.sent is not None:
            found += _waits("STORE", step.sent.credit, asked.get(number, 0), step)
        found.append(step)
        if step is not steps[-1]:
            found += [_gives(one, step) for one in given.get(number, [])]
    return found, replace(links, counts=counts)


def _asked(
    steps: Sequence[Step], freed: Mapping[int, Sequence[Credit]]
) -> tuple[dict[int, int], dict[int, int]]:
    """The credits that steps wait for, by the number of the step, and those that there are before
    the first frame, by stream: as few as let it wait for no frame that is not its own."""
    asked: dict[int, int] = {}
    counts: dict[int, int] = {}
    for stream, credits_ in freed.items():
        total = len(credits_)
        order = sorted(range(total), key=lambda at: credits_[at].first)
        firsts = np.array([credits_[at].first for at in order])
        left = np.array([at + 1 - credits_[at].slots * total for at in order])
        most: list[tuple[int, int]] = []  # steps, and what they need at least
        for number, step in enumerate(steps):
            if step.sent is None or step.sent.credit != stream or not step.sent.cells.size:
                continue
            bands = np.unique(np.searchsorted(firsts, step.sent.cells, "right") - 1)
            need = int(left[bands].max())
            most.append((number, max(need, most[-1][1]) if most else need))
        if not most:
            continue
        counts[stream] = total - most[-1][1]
        before = most[-1][1] - total  # so that all of a frame are taken in it
        for number, need in most:
            if need > before:
                asked[number] = need - before
            before = max(before, need)
    return asked, counts


def _given(steps: Sequence[Step], credits_: Sequence[Credit]) -> list[tuple[int, Credit]]:
    """Credits in the order in which they are given, and behind which step; before the last step if
    nothing is read."""
    spans = {(one.first, one.stop): len(steps) - 1 for one in credits_}
    for number, step in enumerate(steps):
        for memory, cells in step.reads:
            if memory != "FM" or not cells.size:
                continue
            low, high = int(cells.min()), int(cells.max())
            for first, stop in spans:
                if low < stop and high >= first:
                    inside = (cells >= first) & (cells < stop)
                    if inside.any():
                        spans[first, stop] = number
    found = [(spans[one.first, one.stop], one) for one in credits_]
    return sorted(found, key=lambda pair: pair[0])


def _waits(queue: str, stream: int, count: int, step: Step) -> list[Step]:
    made = []
    while count > 0:
        some = min(count, MOST_COUNT)
        made.append(_control(queue, "WAIT", {"stream": stream, "count": some}, step))
        count -= some
    return made


def _gives(one: Credit, step: Step) -> Step:
    fields = {"stream": one.stream, "count": 1, "x": one.to[0], "y": one.to[1]}
    return _control("LOAD", "SEND", fields | ({"host": 1} if one.host else {}), step)


def _control(queue: str, kind: str, fields: dict[str, int], step: Step) -> Step:
    made = Instruction("CTRL", kind, fields={"queue": UNITS.index(queue), **fields})
    return Step(queue, made, step.macro, [], [], step.tile)


def require_streams(place: Place, count: int, most: int) -> None:
    if count > most:
        raise DoesNotFitError(
            f"core ({place[0]}, {place[1]}): {count} streams needed for what other cores send and "
            f"for credits, a core has {most}; take more cores, or larger ones"
        )
