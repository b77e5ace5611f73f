"""Traffic between the cores of a chip: destinations of results, streams and credits.

A store to another core names a stream of that core, one per sending core, which counts the vectors.
A load there waits until the vectors that it reads have arrived; they arrive in the order in which
they are stored. When a core has read a region for the last time in a frame, it sends a credit to
each core that writes there. A region with one slot is freed in bands of rows, one credit per band,
so that the next frame can overwrite rows that are no longer needed. All credits from one core to
another use one stream and arrive in the order in which their bands are read for the last time. With
T credits per frame, band number p with s slots is free for frame f once f T + p - s T credits have
arrived; the sender waits for that number before it writes there.

A region that keeps only some columns is a ring. The vectors of all columns of the map have
different numbers, and bands are runs of columns. A column may be written when the previous column
at its place, of this frame or of the previous one, has been read for the last time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.memory.planner import Region
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.steps import Step, control, most_of
from mapper.errors import DoesNotFitError

Place = tuple[int, int]
MOST_COUNT = most_of("CTRL", "WAIT")["count"]


Kind = Literal["LOCAL", "REMOTE", "HOST"]
KINDS: tuple[Kind, ...] = ("LOCAL", "REMOTE", "HOST")


class Target(NamedTuple):
    """Destination of a part of a result.

    kind : feature map of this core, of another core, or the host
    region : region of the whole result at the destination; rows, blocks : part that is sent there
    core : the other core, or the node of the host's port
    stream : stream of the destination that counts the vectors
    credit : stream of this core that counts the destination's credits
    """

    kind: Kind
    region: Region
    rows: Span
    blocks: Span
    core: Place = (0, 0)
    stream: int = 0
    credit: int = 0


class Credit(NamedTuple):
    """A credit, sent when a region or a band of it has been read for the last time in a frame.

    to : core that writes the region, or the node of the host's port
    stream : stream of that core, or of this one for the host
    first, stop : vectors of the region or band; slots : frames that the region holds
    ring : vectors that a ring keeps; 0 for a whole map
    whole : numbers of the first vector and of the end of a ring
    """

    to: Place
    host: bool
    stream: int
    first: int
    stop: int
    slots: int
    ring: int = 0
    whole: tuple[int, int] = (0, 0)


class Brought(NamedTuple):
    """Vectors that the host sends into a region, counted by a stream.

    slots : see `Region`
    runs : first vector, number of vectors, and row of the feature map, in order; for a ring, column
        of the feature map instead
    function : the host sends them before this function; programs do not depend on it
    numbers : for a ring, number of the first vector of each run, see `Region.number`
    pixel, tall : for a ring, vectors per pixel, and numbers from a column to the next
    waits, credits : for a ring, credits of the core that the host consumes before each run, and
        that it has before the first frame; set when the program is linked
    """

    stream: int
    slots: int
    runs: tuple[tuple[int, int, int], ...]
    function: int = 0
    numbers: tuple[int, ...] = ()
    pixel: int = 1
    tall: int = 1
    waits: tuple[int, ...] = ()
    credits: int = 0

    @property
    def cells(self) -> NDArray[np.int64]:
        """The numbers of the vectors, in order."""
        return np.concatenate([np.zeros(0, np.int64), *self.parts()])

    def parts(self) -> list[NDArray[np.int64]]:
        """Return the numbers of the vectors of each run."""
        if not self.numbers:
            return [np.arange(first, first + count) for first, count, _ in self.runs]
        return [
            (
                at + np.arange(count // self.pixel)[:, None] * self.tall + np.arange(self.pixel)
            ).ravel()
            for at, (_, count, _) in zip(self.numbers, self.runs, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class CoreLinks:
    """The links of a core.

    counts : initial value of each stream before the first frame; set when its program is linked
    """

    credits: tuple[Credit, ...] = ()
    brought: tuple[Brought, ...] = ()
    counts: Mapping[int, int] = field(default_factory=dict)

    @property
    def comes(self) -> dict[int, NDArray[np.int64]]:
        """Vectors that the host sends, by stream."""
        return {one.stream: one.cells for one in self.brought}


NO_LINKS = CoreLinks()


def links_to_json(links: CoreLinks) -> dict[str, Any]:
    """Return links as plain lists and numbers."""
    return {
        "credits": [
            [*one.to, int(one.host), *one[2:6], *([one.ring, *one.whole] if one.ring else [])]
            for one in links.credits
        ],
        "brought": [
            [
                one.stream,
                one.slots,
                [list(run) for run in one.runs],
                *([list(one.numbers), one.pixel, one.tall] if one.numbers else []),
            ]
            for one in links.brought
        ],
    }


def links_from_json(data: Mapping[str, Any]) -> CoreLinks:
    """Return links from plain lists; raises `TypeError` or `ValueError` if the data is invalid."""
    given = []
    for x, y, host, *rest in data["credits"]:
        stream, first, stop, slots, *ring = map(int, rest)
        one = Credit((int(x), int(y)), bool(host), stream, first, stop, slots)
        given.append(one._replace(ring=ring[0], whole=(ring[1], ring[2])) if ring else one)
    brought = [
        Brought(
            int(stream), int(slots), tuple((int(a), int(b), int(c)) for a, b, c in runs),
            0, *_ring_of(more),
        )
        for stream, slots, runs, *more in data["brought"]
    ]  # fmt: skip
    return CoreLinks(tuple(given), tuple(brought))


def _ring_of(more: Sequence[Any]) -> tuple[tuple[int, ...], int, int]:
    if not more:
        return (), 1, 1
    numbers, pixel, tall = more
    return tuple(map(int, numbers)), int(pixel), int(tall)


def brought_in_turn(given: Given, links: CoreLinks) -> tuple[Brought, ...]:
    """Return the vectors of the host with the credits of rings that they wait for.

    given : credits that the core sends
    """
    found = []
    for one in links.brought:
        if one.numbers:
            freed = [each for _, each in given if each.host and each.stream == one.stream]
            waits, credits_ = _paced(one.parts(), freed)
            found.append(one._replace(waits=tuple(waits), credits=credits_))
        else:
            found.append(one)
    return tuple(found)


def sent(cores: Iterable[Sequence[Step]]) -> dict[Place, dict[int, NDArray[np.int64]]]:
    """Return the vectors that arrive at each core, by stream, in order; cores : steps of all"""
    found: dict[Place, dict[int, list[NDArray[np.int64]]]] = {}
    for steps in cores:
        for step in steps:
            if (one := step.sent) is not None:
                found.setdefault(one.core, {}).setdefault(one.stream, []).append(one.cells)
    return {
        place: {stream: np.concatenate(cells) for stream, cells in streams.items()}
        for place, streams in found.items()
    }


Given = list[tuple[int, Credit]]
"""Credits of a core in order, each with the index of the step that frees it."""


def freed_for(place: Place, cores: Iterable[Given]) -> dict[int, list[Credit]]:
    """Return the credits that other cores send to a core, by stream, in order; cores : all cores"""
    found: dict[int, list[Credit]] = {}
    for given in cores:
        for _, one in given:
            if one.to == place and not one.host:
                found.setdefault(one.stream, []).append(one)
    return found


def linked(
    steps: Sequence[Step], freed_here: Given, comes: Mapping[int, NDArray[np.int64]],
    freed: Mapping[int, Sequence[Credit]], vectors: int,
) -> tuple[list[Step], dict[int, int]]:  # fmt: skip
    """Insert the waits for vectors and credits, and the sending of credits, into the steps of a
    core. Return the steps, and the initial stream counts.

    freed_here : credits that the core sends
    comes, freed : vectors that the core receives, in order of arrival, and credits, by stream
    vectors : size of the feature memory
    The last step is END.
    """
    known = [*comes.values(), *(some for step in steps for some in step.loaded)]
    size = max([vectors, *(1 + int(cells.max(initial=-1)) for cells in known)])
    arrival = {stream: np.zeros(size, np.int64) for stream in comes}
    for stream, cells in comes.items():
        arrival[stream][cells] = np.arange(1, cells.size + 1)
    taken = dict.fromkeys(comes, 0)
    sends: dict[int, list[Credit]] = {}
    for number, one in freed_here:
        sends.setdefault(number, []).append(one)
    asked, counts = _asked(steps, freed)
    found: list[Step] = []
    for number, step in enumerate(steps):
        if step is steps[-1]:
            for stream, cells in comes.items():
                found += _waits("LOAD", stream, cells.size - taken[stream], step)
            found += [_gives(one, step) for one in sends.get(number, [])]
        elif step.unit == "LOAD":
            read = step.loaded
            for stream in comes if read else ():
                need = max(int(arrival[stream][some].max()) for some in read)
                found += _waits("LOAD", stream, need - taken[stream], step)
                taken[stream] = max(taken[stream], need)
        if step.sent is not None:
            found += _waits("STORE", step.sent.credit, asked.get(number, 0), step)
        found.append(step)
        if step is not steps[-1]:
            found += [_gives(one, step) for one in sends.get(number, [])]
    return found, counts


def _asked(
    steps: Sequence[Step], freed: Mapping[int, Sequence[Credit]]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the credits that each step waits for, and the initial count of each stream."""
    asked: dict[int, int] = {}
    counts: dict[int, int] = {}
    for stream, credits_ in freed.items():
        writes = [
            (number, step.sent.cells)
            for number, step in enumerate(steps)
            if step.sent is not None and step.sent.credit == stream and step.sent.cells.size
        ]
        if writes:
            waits, counts[stream] = _paced([cells for _, cells in writes], credits_)
            asked |= {number: one for (number, _), one in zip(writes, waits, strict=True) if one}
    return asked, counts


def _paced(
    writes: Sequence[NDArray[np.int64]], credits_: Sequence[Credit]
) -> tuple[list[int], int]:
    """Return the number of credits that each write of some vectors waits for, and the initial
    count: the smallest for which no write waits for a credit of another frame.

    credits_ : credits of the region, in the order in which they are given
    """
    total = len(credits_)
    places = sorted(range(total), key=lambda at: credits_[at].first)
    order, bands = np.array(places), [credits_[at] for at in places]
    firsts, rings, slots = (
        np.array([getattr(one, name) for one in bands]) for name in ("first", "ring", "slots")
    )
    wholes = np.array([one.whole for one in bands])
    needs: list[int] = []
    for numbers in writes:
        at = np.searchsorted(firsts, numbers, "right") - 1
        ring, (first, stop) = rings[at], wholes[at].T
        same = (ring > 0) & (numbers - ring >= first)  # its place had another column in this frame
        turns = (stop - 1 - numbers) // np.maximum(ring, 1)
        before = np.where(same, numbers - ring, numbers + turns * ring)
        band = np.searchsorted(firsts, before, "right") - 1
        needs.append(int((order[band] + 1 - np.where(same, 0, slots[band] * total)).max()))
    most = np.maximum.accumulate(needs)
    start = int(most[-1]) - total  # all credits of a frame are consumed in the frame
    return np.diff(np.maximum(most, start), prepend=start).tolist(), -start


def given(steps: Sequence[Step], credits_: Sequence[Credit]) -> Given:
    """Return the credits in the order in which they are sent, with the index of the step that
    frees them. If the region is not read, it is the last step; for a ring the first step, because
    later columns use the same places."""
    spans = {(one.first, one.stop): 0 if one.ring else len(steps) - 1 for one in credits_}
    for number, step in enumerate(steps):
        for cells in step.loaded:
            low, high = int(cells.min()), int(cells.max())
            for first, stop in spans:
                if low < stop and high >= first:
                    inside = (cells >= first) & (cells < stop)
                    if inside.any():
                        spans[first, stop] = number
    found = [(spans[one.first, one.stop], one) for one in credits_]
    return sorted(found, key=lambda pair: pair[0])


def _waits(queue: str, stream: int, count: int, step: Step) -> list[Step]:
    counts = [min(count - at, MOST_COUNT) for at in range(0, count, MOST_COUNT)]
    waits = [control(queue, "WAIT", stream=stream, count=some) for some in counts]
    return [Step(queue, one, step.macro, tile=step.tile) for one in waits]


def _gives(one: Credit, step: Step) -> Step:
    host = {"host": 1} if one.host else {}
    made = control("LOAD", "SEND", stream=one.stream, count=1, x=one.to[0], y=one.to[1], **host)
    return Step("LOAD", made, step.macro, tile=step.tile)


class Crowded(NamedTuple):
    """A core and those that it communicates with.

    streams : number of streams that it needs
    macros : its macro nodes, by index; partners : number of other cores, by index of their macro
        node
    """

    place: Place
    streams: int
    macros: Sequence[int]
    partners: Mapping[int, int]


class StreamsError(DoesNotFitError):
    """Cores communicate with too many others: layers next to each other have too many parts."""

    def __init__(self, text: str, crowded: Sequence[Crowded] = ()) -> None:
        super().__init__(text)
        self.crowded = crowded


def require_streams(cores: Iterable[Crowded], most: int) -> None:
    """Raise `StreamsError` if cores need more streams than they have."""
    crowded = [one for one in cores if one.streams > most]
    if crowded:
        (x, y), count, *_ = crowded[0]
        raise StreamsError(
            f"core ({x}, {y}): {count} streams needed for data and credits of other cores, a core "
            f"has {most}; use more or larger cores", crowded,
        )  # fmt: skip
