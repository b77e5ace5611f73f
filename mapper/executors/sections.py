"""Exchange of connections between workers when a graph is contracted.

The owner of each shard writes one run file (`storage.scratch.run_file`) into the shared folder,
with a section for each range of 2^bits vertices of the coarser graph. The owner of such a range
reads its sections of all files and adds up equal connections. The rows depend neither on the
writers nor on the order of connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.executors.executor import LocalShardExecutor
from mapper.executors.sent import to_send
from mapper.executors.shard import Work
from mapper.executors.shared import SharedPlace
from mapper.monitoring.callbacks import Advance
from mapper.planning.worker_plan import MADE_BYTES, SORTED_CONNECTIONS
from storage.scratch.run_file import RunName, UnusableError, pack_frame, read_section, write_run

FRAME = 4096  # target number of connections per shard and section; fewer are slower to pack
RANGES = 4  # least number of sections per worker, for load balance
MOST_WEIGHT = 2**31 - 1  # largest weight of a connection

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


class MissingError(Exception):
    """Run files are missing or damaged; shards : that wrote them."""

    def __init__(self, shards: list[int]) -> None:
        super().__init__(shards)
        self.shards = shards


class Pairs(NamedTuple):
    """Connections, each listed once: low < high."""

    low: Int32
    high: Int32
    weights: Int32


class Sections(NamedTuple):
    """Run files of all shards of a graph, for the rows of the coarser graph; picklable.

    place : shared folder; number : batch number
    senders : number of shards; vertices : of the coarser graph; bits : log2 of the vertices per
        section
    """

    place: SharedPlace
    number: int
    senders: int
    vertices: int
    bits: int

    @property
    def per_file(self) -> int:
        """Number of sections per file."""
        return max(1, -(-self.vertices >> self.bits))

    def name(self, sender: int) -> RunName:
        """Return the name of the run file of a shard."""
        return RunName(self.place.folder, self.place.tag, self.number, sender)

    def remove(self) -> None:
        """Delete all files."""
        for sender in range(self.senders):
            with suppress(OSError):
                self.name(sender).path.unlink(missing_ok=True)


def section_bits(vertices: int, entries: int, senders: int, workers: int, memory: int) -> int:
    """Return log2 of the number of vertices per section.

    vertices, entries : approximate size of the coarser graph; memory : bytes per worker for a
        section
    """
    wanted = max(
        RANGES * workers, entries // (senders * FRAME), -(-MADE_BYTES * entries // max(1, memory))
    )
    return max(0, (vertices // wanted).bit_length() - 1)


class SendTask(NamedTuple):
    """Run files of some shards, with the connections that `work` returns for their chunks.

    shards : number of each, and its chunks
    """

    sections: Sections
    shards: Sequence[tuple[int, Sequence[int]]]
    work: Work[Pairs]
    arguments: tuple[Any, ...]

    def answer(self, executor: LocalShardExecutor, advance: Advance) -> Any:
        """Write the files; return their bytes and the connections per section (packed).

        A connection counts at both ends. Raises `ResumableError` if the folder is full or missing.
        """
        sections = self.sections

        def packed(some: list[Pairs]) -> SectionPiece | None:
            return pack_pairs(some, sections) if some else None

        written, counts = 0, np.zeros(sections.per_file, np.int64)
        of_pieces = executor.team.stream(packed, self._pieces(executor, advance))
        for number, _ in self.shards:
            frames: list[list[bytes]] = [[] for _ in range(sections.per_file)]
            for piece in of_pieces:
                if piece is None:
                    break
                counts += piece.counts
                for index, frame in piece.frames:
                    frames[index].append(frame)
            with sections.place.writing():
                written += write_run(sections.name(number), frames)
        for _ in of_pieces:
            raise AssertionError("pieces are left after the last shard")
        return to_send((written, counts))

    def _pieces(self, executor: LocalShardExecutor, advance: Advance) -> Iterator[list[Pairs]]:
        """Yield the connections of some chunks at a time; an empty list ends a shard."""
        chunks = [chunk for _, mine in self.shards for chunk in mine]
        found = executor.each(self.work, chunks, *self.arguments, advance=advance)
        for _, mine in self.shards:
            some: list[Pairs] = []
            for _ in mine:
                some.append(next(found))
                if sum(2 * one.low.size for one in some) >= SORTED_CONNECTIONS:
                    yield some
                    some = []
            if some:
                yield some
            yield []
        for _ in found:  # lets the generator finish
            raise AssertionError("more results than chunks")


class SectionPiece(NamedTuple):
    """Packed connections of some chunks: number and frame of each section that has any.

    counts : connections per section, shape (sections,)
    """

    frames: list[tuple[int, bytes]]
    counts: Int64


def pack_pairs(pairs: Sequence[Pairs], sections: Sections) -> SectionPiece:
    """Pack connections at both ends, with equal ones added up.

    A frame is a list of lists: first the vertices that have connections, ascending, then the
    neighbours of each of them.
    """
    low, high, weights = (np.concatenate(field) for field in zip(*pairs, strict=True))
    keys = np.concatenate([_keys(low, high), _keys(high, low)])
    counts = np.bincount(keys >> (32 + sections.bits), minlength=sections.per_file)
    keys, weights = add_up(keys, np.concatenate([weights, weights]))
    vertices, ids = ends_of(keys)
    frames = []
    start = _starts(vertices >> sections.bits)
    for first, last in pairwise([*start.tolist(), vertices.size]):
        own = vertices[first:last]
        lists = _starts(own)
        indptr = np.concatenate([[0], lists.size + np.append(lists, own.size)])
        zeros = np.zeros(lists.size, np.int32)
        frame = pack_frame(
            indptr,
            np.concatenate([own[lists], ids[first:last]]),
            np.concatenate([zeros, weights[first:last]]),
        )
        frames.append((int(own[0]) >> sections.bits, frame))
    return SectionPiece(frames, counts)


def read_pairs(sections: Sections, first: int, last: int, entries: int) -> tuple[Int64, Int32]:
    """Read the connections of the sections first .. last-1 of all files; add up equal ones.

    entries : upper bound of the number of connections
    Returns keys, ascending (vertex times 2^32 plus neighbour), and weights. Raises `MissingError`
    if files are missing or damaged.
    """
    keys, weights = np.empty(entries, np.int64), np.empty(entries, np.int32)
    at, missing = 0, []
    sections.place.look_again()
    for sender in range(sections.senders):
        try:
            for indptr, ids, some in read_section(
                sections.name(sender), sections.per_file, first, last - first
            ):
                lists = int(indptr[1])  # the first list has the vertices of the others
                end = at + ids.size - lists
                own = np.repeat(ids[:lists], np.diff(indptr[1:]))
                keys[at:end], weights[at:end] = _keys(own, ids[lists:]), some[lists:]
                at = end
        except UnusableError:
            missing.append(sender)
    if missing:
        raise MissingError(missing)
    return add_up(keys[:at], weights[:at])


def add_up(keys: Int64, weights: Int32) -> tuple[Int64, Int32]:
    """Return the unique keys, ascending, with their weights added up (saturated at 2^31 - 1)."""
    order = np.argsort(keys)
    keys, weights = keys[order], weights[order]
    del order
    first = _starts(keys)
    if first.size == 0:
        return keys, weights
    sums = np.add.reduceat(weights.astype(np.int64), first)
    return keys[first], np.minimum(sums, MOST_WEIGHT).astype(np.int32)


def ends_of(keys: Int64) -> tuple[Int32, Int32]:
    """Return the vertex and the neighbour of each key."""
    return (keys >> 32).astype(np.int32), keys.astype(np.int32)


def _keys(vertices: Int32, others: Int32) -> Int64:
    keys: Int64 = vertices.astype(np.int64) << 32 | others
    return keys


def _starts(values: NDArray[Any]) -> Int64:
    """Return the places where a run of equal values begins."""
    found: Int64 = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: values.size])
    return found
