"""The folder that the driver and all workers see, through which rows go from one to another.

Of each shard and batch who has the shard writes one run file (`storage.scratch.run_file`), with a
section for each range of labels; who is the home of a range reads its sections of all files. One
that is not there, or is not what it should be, is written again by who has the shard by then.
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

from mapper.distributed.exchange import Exchange, RowBuffer, Sorted, finish_all
from mapper.distributed.executor import LocalShardExecutor
from mapper.distributed.sent import received, to_send
from mapper.distributed.shard import Shard, State, Work
from mapper.distributed.workers import require_seen
from mapper.errors import RESUME, ResumableError, UsageError
from mapper.runtime.callbacks import Advance, ignore
from mapper.runtime.threads import ThreadTeam
from storage.closing import Closing
from storage.scratch.run_file import RunName, UnusableError, pack_frame, read_section, write_run

if TYPE_CHECKING:
    from mapper.graph.csr import Chunk

SEEN = "seen"  # a file with the tag: who reads it sees the folder


class SharedPlace(NamedTuple):
    """Where run files are; goes to workers.

    shown : the folder as messages name it; folder : of this run in there
    tag : of this attempt of the run, which no other has
    """

    shown: str
    folder: Path
    tag: str

    def require_seen(self) -> None:
        """Raise `UsageError` if this process, a worker, does not see it."""
        require_seen(self.folder / SEEN, self.shown, self.tag)

    def look_again(self) -> None:
        """Let a network file system see what others have written meanwhile."""
        with suppress(OSError):
            next(self.folder.iterdir(), None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """What the system says of a full folder, or one that is gone, ends a run to be resumed."""
        try:
            yield
        except OSError as error:
            raise ResumableError(
                f"{self.shown}: cannot write on {socket.gethostname()}: "
                f"{error.strerror or error}; make room there, and {RESUME}"
            ) from error


class SharedFolder(Closing):
    """The driver's side of it: made before anything starts, and removed at the end."""

    def __init__(self, given: Path | None, work: Path) -> None:
        """given : of --shared, and must be there; None for `work`, the folder of the run itself.

        Raises `UsageError` if nothing can be written there.
        """
        shown = f"--shared {given or work}" + ("" if given else " (by default)")
        # One that was killed has left its own: it has the same name when the run is resumed.
        name = zlib.crc32(f"{socket.gethostname()} {work.absolute()}".encode())
        folder = (given or work).absolute() / f"mapper-exchange-{name:08x}"
        self.place = SharedPlace(shown, folder, uuid4().hex)
        self._next = count()
        shutil.rmtree(folder, ignore_errors=True)
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
        """Another batch, of these ranges of labels."""
        return Batch(self.place, self.number(), tuple(ranges))

    def number(self) -> int:
        """Of run files that are written together; no others have it."""
        return next(self._next)

    def close(self) -> None:
        shutil.rmtree(self.place.folder, ignore_errors=True)


class Batch(NamedTuple):
    """Ranges of labels, one behind the other, whose rows go through the folder at a time."""

    place: SharedPlace
    number: int
    ranges: tuple[tuple[int, int], ...]

    def name(self, shard: int) -> RunName:
        """The run file of a shard."""
        return RunName(self.place.folder, self.place.tag, self.number, shard)

    def remove(self, shards: int) -> None:
        """Leave no run files of so many shards."""
        for shard in range(shards):
            with suppress(OSError):
                self.name(shard).path.unlink(missing_ok=True)


class Home(NamedTuple):
    """A range of a batch, for who finishes it.

    which : of the ranges; most : of its labels, see `Exchange`; given : to finish each, packed
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
    """Shards whose run files are to be written again."""

    shards: list[int]


def write_shards(
    executor: LocalShardExecutor,
    batch: Batch,
    shards: Sequence[tuple[int, Sequence[int]]],
    sort: Work[Sorted],
    arguments: tuple[Any, ...],
    advance: Advance = ignore,
) -> int:
    """Write the run files of some shards; returns their bytes.

    shards : the number of each, and its chunks

    Raises `ResumableError` if the folder is full, or gone.
    """
    chunks = [chunk for _, mine in shards for chunk in mine]
    found = executor.each(pack_chunk, chunks, batch.ranges, sort, arguments, advance=advance)
    written = 0
    for number, mine in shards:
        sections: list[list[bytes]] = [[] for _ in batch.ranges]
        for _ in mine:
            for index, frame in next(found):
                sections[index].append(frame)
        with batch.place.writing():
            written += write_run(batch.name(number), sections)
    for _ in found:  # which hears that all were taken
        raise AssertionError("a result for each chunk")
    return written


def pack_chunk(
    shard: Shard,
    chunk: Chunk,
    ranges: Sequence[tuple[int, int]],
    sort: Work[Sorted],
    arguments: tuple[Any, ...],
) -> list[tuple[int, bytes]]:
    """What a chunk has for each range that it has anything for: the range's place, and a frame."""
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


class Finish(NamedTuple):
    """What is done where labels are at home; see `Exchange`."""

    work: Callable[..., Any]
    near: bool
    light: bool

    def of_home(
        self, team: ThreadTeam, state: State, batch: Batch, shards: int, home: Home
    ) -> list[Any] | Missing:
        """Results of the labels of a range, each packed; or what is missing for them.

        shards : how many have written a run file each
        """
        low, high = batch.ranges[home.which]
        vertices = np.flatnonzero((state.part >= low) & (state.part < high))
        labels = state.part[vertices]
        places = np.argsort(labels, kind="stable").astype(np.int32)
        start = np.searchsorted(labels[places], np.arange(low, high + 1))
        del labels
        buffer = RowBuffer(vertices.size, int(home.most.sum()), self.near, self.light)
        batch.place.look_again()

        def read(shard: int) -> list[Sorted] | None:
            try:
                found = read_section(batch.name(shard), len(batch.ranges), home.which)
                return [self._narrow(*frame) for frame in found]
            except UnusableError:
                return None

        missing: list[int] = []
        for low_shard in range(0, shards, team.threads):  # no more of them in memory at a time
            some = range(low_shard, min(low_shard + team.threads, shards))
            for shard, frames in zip(some, team.map(read, some), strict=True):
                if frames is None:
                    missing.append(shard)
                elif not missing:
                    for rows in frames:
                        buffer.put(rows)
        if missing:
            return Missing(missing)
        assert buffer.vertices == vertices.size, "rows of all vertices have come"

        def finish(label: int) -> Any:
            own = places[start[label - low] : start[label - low + 1]]
            given = received(home.given[label - low])
            return to_send(self.work(label, lambda: buffer.rows(own), *given))

        return list(finish_all(team, range(low, high), home.most, finish))

    def _narrow(
        self, indptr: NDArray[np.int64], ids: NDArray[np.int32], weights: NDArray[np.int32]
    ) -> Sorted:
        return Sorted(
            np.diff(indptr).astype(np.int32),
            ids.astype(np.uint16 if self.near else np.int32, copy=False),
            weights.astype(np.uint8 if self.light else np.int32, copy=False),
        )
