"""Traffic between the cores of a chip: destinations of results, streams and credits.

A store to another core names a stream of that core, one per sending core, which counts the vectors.
A load there waits until the vectors that it reads have arrived; they arrive in the order in which
they are stored. When a core has read a region for the last time in a frame, it sends a credit to
each core that writes there. A region with one slot is freed in bands of rows, one credit per band,
so that the next frame can overwrite rows that are no longer needed. All credits from one core to
another use one stream and arrive in the order in which their bands are read for the last time. With
T credits per frame, band number p with s slots is free for frame f once f T + p - s T credits have
arrived; the sender waits for that number before it writes there.
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
    """

    to: Place
    host: bool
    stream: int
    first: int
    stop: int
    slots: int


class Brought(NamedTuple):
    """Vectors that the host sends into a region, counted by a stream.

    slots : see `Region`
    runs : first vector, number of vectors, and row of the feature map, in order
    function : the host sends them before this function; programs do not depend on it
    """

    stream: int
    slots: int
    runs: tuple[tuple[int, int, int], ...]
    function: int = 0

    @property
    def cells(self) -> NDArray[np.int64]:
        runs = [np.arange(first, first + count) for first, count, _ in self.runs]
        return np.concatenate([np.zeros(0, np.int64), *runs])


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
        "credits": [[*one.to, int(one.host), *one[2:]] for one in links.credits],
        "brought": [
            [one.stream, one.slots, [list(run) for run in one.runs]] for one in links.brought
        ],
    }


def links_from_json(data: Mapping[str, Any]) -> CoreLinks:
    """Return links from plain lists; raises `TypeError` or `ValueError` if the data is invalid."""
    given = []
    for x, y, host, *rest in data["credits"]:
        stream, first, stop, slots = map(int, rest)
        given.append(Credit((int(x), int(y)), bool(host), stream, first, stop, slots))
    brought = [
        Brought(int(stream), int(slots), tuple((int(a), int(b), int(c)) for a, b, c in runs))
        for stream, slots, runs in data["brought"]
    ]
    return CoreLinks(tuple(given), tuple(brought))


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
    arrival = {stream: np.zeros(vectors, np.int64) for stream in comes}
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
            fm = [one.cells for one in step.reads if one.memory == "FM"]
            read = [some for some in fm if some.size]
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
    """Return the number of credits that each step waits for, and the initial count of each stream:
    the smallest for which no step waits for a credit of another frame."""
    asked: dict[int, int] = {}
    counts: dict[int, int] = {}
    for stream, credits_ in freed.items():
        total = len(credits_)
        order = sorted(range(total), key=lambda at: credits_[at].first)
        firsts = np.array([credits_[at].first for at in order])
        left = np.array([at + 1 - credits_[at].slots * total for at in order])
        most: list[tuple[int, int]] = []  # step, and the credits that it needs
        for number, step in enumerate(steps):
            if step.sent is None or step.sent.credit != stream or not step.sent.cells.size:
                continue
            bands = np.searchsorted(firsts, step.sent.cells, "right") - 1
            need = int(left[bands].max())
            most.append((number, max(need, most[-1][1]) if most else need))
        if not most:
            continue
        counts[stream] = total - most[-1][1]
        before = most[-1][1] - total  # all credits of a frame are consumed in the frame
        for number, need in most:
            if need > before:
                asked[number] = need - before
            before = max(before, need)
    return asked, counts


def given(steps: Sequence[Step], credits_: Sequence[Credit]) -> Given:
    """Return the credits in the order in which they are sent, with the index of the step that
    frees them; the last step if the region is not read."""
    spans = {(one.first, one.stop): len(steps) - 1 for one in credits_}
    for number, step in enumerate(steps):
        for touch in step.reads:
            if touch.memory != "FM" or not touch.cells.size:
                continue
            cells = touch.cells
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


def require_streams(place: Place, count: int, most: int) -> None:
    if count > most:
        raise DoesNotFitError(
            f"core ({place[0]}, {place[1]}): {count} streams needed for data and credits of other "
            f"cores, a core has {most}; use more or larger cores"
        )
