"""Shared folder, seen by the driver and all workers, through which rows are exchanged.

For each shard and batch, the shard's owner writes one run file (`storage.scratch.run_file`) with a
section for each range of labels. The home of a range reads its sections of all files. If a file is
missing or damaged, the current owner of the shard writes it again.
"""

from __future__ import annotations

import shutil
import socket
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam
from mapper.errors import RESUME, ResumableError, UsageError
from mapper.executors.exchange import Exchange, RowBuffer, Sorted, finish_all
from mapper.executors.executor import LocalShardExecutor
from mapper.executors.sent import received, to_send
from mapper.executors.shard import Shard, State, Work
from mapper.monitoring.callbacks import Advance
from storage.closing import Closing
from storage.scratch.run_file import RunName, UnusableError, pack_frame, read_section, write_run

if TYPE_CHECKING:
    from mapper.graph.csr import Chunk

SEEN = "seen"  # file with the tag, to check that a process sees the folder


def require_seen(path: Path, shown: str = "", content: str | None = None) -> None:
    """Raise `UsageError` if this process, a worker, does not see a file.

    shown : name of the file in the message; content : expected text, to detect another file
    """
    try:
        seen = path.exists() if content is None else path.read_text() == content
    except OSError:
        seen = False
    if not seen:
        raise UsageError(
            f"{shown or path}: the worker on {socket.gethostname()} does not see it; use a path "
            "that all workers see"
        )


class SharedPlace(NamedTuple):
    """Location of run files; picklable.

    shown : name of the folder in messages; folder : subfolder of this run
    tag : unique to this attempt of the run
    """

    shown: str
    folder: Path
    tag: str

    def require_seen(self) -> None:
        """Raise `UsageError` if this process, a worker, does not see the folder."""
        require_seen(self.folder / SEEN, self.shown, self.tag)

    def look_again(self) -> None:
        """List the folder, so that a network file system refreshes its cache."""
        with suppress(OSError):
            next(self.folder.iterdir(), None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn write errors (folder full or missing) into `ResumableError`."""
        try:
            yield
        except OSError as error:
            raise ResumableError(
                f"{self.shown}: cannot write on {socket.gethostname()}: "
                f"{error.strerror or error}; make room there, and {RESUME}"
            ) from error


def folder_of_run(kind: str, given: Path | None, work: Path) -> Path:
    """Return the path of a folder of a run, after the removal of one left by a killed run.

    given : existing folder of --shared; None for `work`, the folder of the run
    """
    # the name is the same when the run is resumed
    name = zlib.crc32(f"{socket.gethostname()} {work.absolute()}".encode())
    folder = (given or work).absolute() / f"mapper-{kind}-{name:08x}"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


class SharedFolder(Closing):
    """The driver's handle: creates the folder before the first exchange, removes it at the end."""

    def __init__(self, given: Path | None, work: Path) -> None:
        """given : existing folder of --shared; None for `work`, the folder of the run.

        Raises `UsageError` if it is not writable.
        """
        shown = f"--shared {given or work}" + ("" if given else " (by default)")
        folder = folder_of_run("exchange", given, work)
        self.place = SharedPlace(shown, folder, uuid4().hex)
        self._next = count()
        try:
            folder.mkdir(parents=given is None)
            (folder / SEEN).write_text(self.place.tag)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"{shown}: cannot write: {reason}; give a folder that this command and all "
                "workers can write to"
            ) from error

    def batch(self, ranges: Sequence[tuple[int, int]]) -> Batch:
        """Return a new batch of these ranges of labels."""
        return Batch(self.place, self.number(), tuple(ranges))

    def number(self) -> int:
        """Return a new batch number."""
        return next(self._next)

    def close(self) -> None:
        shutil.rmtree(self.place.folder, ignore_errors=True)


class Batch(NamedTuple):
    """Contiguous ranges of labels whose rows are exchanged together."""

    place: SharedPlace
    number: int
    ranges: tuple[tuple[int, int], ...]

    def name(self, shard: int) -> RunName:
        """Return the name of the run file of a shard."""
        return RunName(self.place.folder, self.place.tag, self.number, shard)

    def remove(self, shards: int) -> None:
        """Delete the run files of shards 0 .. shards-1."""
        for shard in range(shards):
            with suppress(OSError):
                self.name(shard).path.unlink(missing_ok=True)


class Home(NamedTuple):
    """A range of a batch, with the arguments for finishing it.

    which : index of the range; most : bounds of its labels, see `Exchange`; given : packed
        arguments of `finish` for each label
    """

    which: int
    most: NDArray[np.int64]
    given: list[Any]

    @classmethod
    def of(cls, exchange: Exchange, batch: Batch, index: int) -> Home:
        low, high = batch.ranges[index]
        given = [to_send(exchange.given(label)) for label in range(low, high)]
        return cls(index, exchange.most[low:high], given)


class Missing(NamedTuple):
    """Shards whose run files must be written again."""

    shards: list[int]


class WriteTask(NamedTuple):
    """Run files of some shards, in an exchange; see `Exchange`.

    shards : number of each, and its chunks
    """

    batch: Batch
    shards: Sequence[tuple[int, Sequence[int]]]
    sort: Work[Sorted]
    arguments: tuple[Any, ...]

    def answer(self, executor: LocalShardExecutor, advance: Advance) -> int:
        """Write the files; return their bytes.

        Raises `ResumableError` if the folder is full or missing.
        """
        batch, chunks = self.batch, [chunk for _, mine in self.shards for chunk in mine]
        found = executor.each(
            pack_chunk, chunks, batch.ranges, self.sort, self.arguments, advance=advance
        )
        written = 0
        for number, mine in self.shards:
            sections: list[list[bytes]] = [[] for _ in batch.ranges]
            for _ in mine:
                for index, frame in next(found):
                    sections[index].append(frame)
            with batch.place.writing():
                written += write_run(batch.name(number), sections)
        for _ in found:  # lets the generator finish
            raise AssertionError("more results than chunks")
        return written


def pack_chunk(
    shard: Shard,
    chunk: Chunk,
    ranges: Sequence[tuple[int, int]],
    sort: Work[Sorted],
    arguments: tuple[Any, ...],
) -> list[tuple[int, bytes]]:
    """Pack the rows of a chunk for each range that has any; return (range index, frame) pairs."""
    labels = shard.state.part[chunk.first : chunk.first + chunk.vertices]
    edges = [low for low, _ in ranges] + [ranges[-1][1]]
    home = np.searchsorted(edges, labels, side="right") - 1
    frames = []
    for index in np.unique(home[(home >= 0) & (home < len(ranges))]).tolist():
        rows = sort(shard, chunk, *ranges[index], *arguments)
        indptr = np.append(0, np.cumsum(rows.used[home == index], dtype=np.int64))
        ids, weights = (one.astype(np.int32, copy=False) for one in (rows.ids, rows.weights))
        frames.append((index, pack_frame(indptr, ids, weights)))
    return frames


class FinishTask(NamedTuple):
    """Finishing of labels at their homes; see `Exchange`.

    shards : number of shards that have written a run file each
    """

    batch: Batch
    shards: int
    work: Callable[..., Any]
    near: bool
    light: bool
    homes: Sequence[Home]

    def answer(self, executor: LocalShardExecutor, _: Advance) -> list[list[Any] | Missing]:
        """Return the packed result of each label of each range, or the missing shards."""
        return [self._of_home(executor.team, executor.shard.state, home) for home in self.homes]

    def _of_home(self, team: ThreadTeam, state: State, home: Home) -> list[Any] | Missing:
        low, high = self.batch.ranges[home.which]
        vertices = np.flatnonzero((state.part >= low) & (state.part < high))
        labels = state.part[vertices]
        places = np.argsort(labels, kind="stable").astype(np.int32)
        start = np.searchsorted(labels[places], np.arange(low, high + 1))
        del labels
        buffer = RowBuffer(vertices.size, int(home.most.sum()), self.near, self.light)
        missing = self._read(team, home.which, buffer)
        if missing:
            return Missing(missing)
        assert buffer.vertices == vertices.size, "rows of some vertices are missing"

        def finish(label: int) -> Any:
            own = places[start[label - low] : start[label - low + 1]]
            given = received(home.given[label - low])
            return to_send(self.work(label, lambda: buffer.rows(own), *given))

        return list(finish_all(team, range(low, high), home.most, finish))

    def _read(self, team: ThreadTeam, which: int, buffer: RowBuffer) -> list[int]:
        """Read the sections of a range into a buffer; return the missing shards."""
        batch = self.batch
        batch.place.look_again()

        def read(shard: int) -> list[Sorted] | None:
            try:
                found = read_section(batch.name(shard), len(batch.ranges), which)
                return [self._narrow(*frame) for frame in found]
            except UnusableError:
                return None

        missing: list[int] = []
        for low in range(0, self.shards, team.threads):  # bounds the number of sections in memory
            some = range(low, min(low + team.threads, self.shards))
            for shard, frames in zip(some, team.map(read, some), strict=True):
                if frames is None:
                    missing.append(shard)
                elif not missing:
                    for rows in frames:
                        buffer.put(rows)
        return missing

    def _narrow(
        self, indptr: NDArray[np.int64], ids: NDArray[np.int32], weights: NDArray[np.int32]
    ) -> Sorted:
        return Sorted(
            np.diff(indptr).astype(np.int32),
            ids.astype(np.uint16 if self.near else np.int32, copy=False),
            weights.astype(np.uint8 if self.light else np.int32, copy=False),
        )
