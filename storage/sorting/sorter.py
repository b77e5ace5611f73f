"""External sort of connections: in any order in, in blocks of consecutive vertices out.

Edges collect in a buffer. A full one is divided by owner into buckets and becomes a run of compact
records (`runs`), by a thread of its own while the next buffer fills. At the end ranges of blocks
are gathered from their buckets in all runs, sorted in cache and merged, by all threads at once.
Each connection is written once and read once, whatever the network's size.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import BadInputError
from storage.graph import MAX_VERTICES, Block
from storage.parallel import map_ordered
from storage.quantise import Rounding
from storage.sorting.filling import Edges, Filling
from storage.sorting.ranges import range_blocks
from storage.sorting.records import RecordFile
from storage.sorting.runs import DIRECTED, IN, OUT, UNDIRECTED, Buffer, Run, RunStore
from storage.sorting.shared import leave_runs, read_runs

BYTES_PER_ENTRY = 64  # of a connection while its block is sorted, merged and encoded
BYTES_PER_EDGE = 48  # of an edge in a buffer and while it becomes a run, weights of 8 bytes apart
PART_BYTES = 24 << 20  # of some hundred thousand edges while they are made
LARGEST_BUFFER = 1 << 22  # edges
SMALLEST_BUFFER = 512
RANGE_ENTRIES = 1 << 17  # a range of blocks is at least about that large, where blocks are small
READ_ENTRIES = 1 << 12  # of each run that are read at a time, where there are many runs
MAX_TOTAL = 2.0**62

Part = TypeVar("Part")
Result = TypeVar("Result")


class MadeRuns(NamedTuple):
    """Runs that a sorter has left to others.

    path : of the file that has them
    bounds : ndarray[int64], shape (buckets + 1,), first owner of each bucket, and all owners
    loads : ndarray[int64], shape (buckets + 1,), entries before each bucket, and all of them
    total : sum of the weights of all entries, before they become whole units
    """

    path: Path
    bounds: NDArray[np.int64]
    loads: NDArray[np.int64]
    total: float


def check_total(total: float, unit: float) -> None:
    """Raise `BadInputError` if sums of weights may need more than 62 bits."""
    if total / unit >= MAX_TOTAL:
        raise BadInputError("the sum of all weights, at both ends, is beyond 2^62; scale them down")


class _Allowance:
    """Bytes that several threads may use together; one that needs more than all gets all."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._condition = threading.Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        size = min(size, self._size)
        with self._condition:
            self._condition.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._condition:
                self._left += size
                self._condition.notify_all()


class ConnectionSorter(Closing):
    """Collects connections of a graph and gives them back as `Block`s, repeated ones added up.

    vertices : number of vertices
    folder : where runs are put while they are needed
    memory : bytes that the sort may use: up to half for buffers, and then for the ranges of
        blocks at work; three eighths for runs
    threads : that make runs, besides the caller's; with 1 the caller makes them
    signed : whether weights may be below 0, see `weights.WeightSorter`
    shared : what a file of all runs begins with, in the folder, if others are to read them
    """

    def __init__(
        self,
        vertices: int,
        folder: Path,
        memory: int = 256 << 20,
        threads: int = 1,
        signed: bool = False,
        shared: str = "",
    ) -> None:
        if vertices > MAX_VERTICES:
            raise BadInputError(f"{vertices} vertices: at most {MAX_VERTICES} are supported")
        self.vertices = vertices
        self._threads = threads
        buffers = 2 * threads + 1 if threads > 1 else 2
        edges = memory // 2 // (BYTES_PER_EDGE * buffers)
        self._capacity = max(SMALLEST_BUFFER, min(edges, LARGEST_BUFFER))
        self._at_work = max(memory * 3 // 8, 1 << 16)
        self._file = RecordFile(folder, shared)
        kept = 0 if shared else memory * 3 // 8
        self._store = RunStore(vertices, kept, signed, self._file)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._pending: deque[Future[tuple[Run, int, float]]] = deque()
        self._filling = Filling(self._capacity, self._submit)
        self._entries = 0
        self._total = 0.0

    @property
    def entries(self) -> int:
        """Connections added so far."""
        self._flush()
        return self._entries

    def leave(self) -> MadeRuns:
        """Let others read the runs of a sorter that is shared, and add no more."""
        self._flush()
        loads = np.zeros(self._store.buckets + 1, np.int64)
        for run in self._store.runs:
            loads += run.starts
        path = leave_runs(self._store.runs, self._file)
        return MadeRuns(path, self._bounds(range(self._store.buckets)), loads, self._total)

    def _bounds(self, buckets: range) -> NDArray[np.int64]:
        """First owner of each of some buckets, and the end of the last one."""
        bounds = np.arange(buckets.start, buckets.stop + 1) << self._store.shift
        return np.minimum(bounds, self.vertices)

    def read_from(self, paths: Sequence[Path], first: int, last: int) -> None:
        """Take the runs that others have left, as far as vertices `first` .. `last`-1 go."""
        self._store.runs += read_runs(
            paths, self._store.buckets, self._store.buckets_of(first, last)
        )

    def add(
        self,
        owner: NDArray[np.integer],
        other: NDArray[np.integer],
        incoming: int,
        weight: NDArray[np.integer] | NDArray[np.floating],
    ) -> None:
        """Add entries to the lists of `owner`. All arrays have the shape (entries,).

        incoming : 1 if `other` is the source of the connection, else 0
        weight : not negative; all integer, or float64 to be quantised in `blocks`
        """
        self._add(owner, other, weight, IN if incoming else OUT)

    def add_edges(
        self,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        weight: NDArray[np.integer] | NDArray[np.floating],
        undirected: bool,
    ) -> None:
        """Add edges at both of their ends: as `add` for either of them, in one go."""
        self._add(source, target, weight, UNDIRECTED if undirected else DIRECTED)

    def _add(
        self,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        weight: NDArray[np.integer] | NDArray[np.floating],
        mode: int,
    ) -> None:
        self._filling.add(source, target, weight, mode)

    def add_made(
        self,
        parts: Iterable[Part],
        work: Callable[[Part], tuple[Edges, Result]],
        undirected: bool,
    ) -> Iterator[Result]:
        """Add the edges of all parts, at both of their ends: the first of what `work` gives.

        `work` is called by as many threads as there are, which make runs of its edges, too.
        Yields the second of what it gives, in the order of the parts.
        """
        mode = UNDIRECTED if undirected else DIRECTED
        made: list[tuple[Run, int, float]] = []
        idle: list[Filling] = []  # each thread takes one and puts it back

        def fill(part: Part) -> Result:
            edges, result = work(part)
            try:
                filling = idle.pop()
            except IndexError:
                filling = Filling(
                    self._capacity, lambda full: made.append(self._store.make(full)), again=True
                )
            filling.add(*edges, mode)
            idle.append(filling)
            return result

        threads = max(1, min(self._threads, self._at_work // PART_BYTES))
        yield from map_ordered(fill, parts, threads)
        for _ in map_ordered(Filling.flush, idle, threads):
            pass
        for each in made:
            self._take(each)

    def _submit(self, buffer: Buffer) -> None:
        """Let the edges of the buffer become a run."""
        if self._pool is None:
            self._take(self._store.make(buffer))
            return
        self._pending.append(self._pool.submit(self._store.make, buffer))
        if len(self._pending) > self._threads:
            self._take(self._pending.popleft().result())

    def _take(self, made: tuple[Run, int, float]) -> None:
        run, entries, total = made
        self._store.runs.append(run)
        self._entries += entries
        self._total += total

    def _flush(self) -> None:
        self._filling.flush()
        while self._pending:
            self._take(self._pending.popleft().result())

    def blocks(self, block_size: int, unit: float = 1.0) -> Iterator[tuple[Block, Rounding]]:
        """Blocks of `block_size` vertices in order, each with errors of its weights.

        Weights become whole numbers of `unit` before repeated connections add up. Can be called
        once; raises `BadInputError` if the weights of the graph do not fit 62 bits together.
        """
        return self.map_blocks(lambda block, rounding: (block, rounding), block_size, unit)

    def map_blocks(
        self,
        work: Callable[[Block, Rounding], Result],
        block_size: int,
        unit: float = 1.0,
        vertices: range | None = None,
    ) -> Iterator[Result]:
        """``work(block, rounding)`` of all `blocks`, in order, computed by the sorter's threads.

        vertices : those of some of the blocks, if not of all
        """
        self._flush()
        check_total(self._total, unit)

        def done(first: int, last: int, entries: int) -> list[Result]:
            return [
                work(*item)
                for item in range_blocks(self._store, first, last, block_size, unit, entries)
            ]

        yield from self._map_ranges(done, block_size, BYTES_PER_ENTRY, vertices)

    def _map_ranges(
        self,
        work: Callable[[int, int, int], list[Result]],
        block_size: int,
        entry_bytes: int,
        vertices: range | None = None,
    ) -> Iterator[Result]:
        """What ``work(first, last, entries)`` makes of ranges of whole blocks, in order.

        entry_bytes : that an entry takes while it is worked at
        """
        self._flush()
        allowance = _Allowance(self._at_work)

        def done(span: tuple[int, int, int]) -> list[Result]:
            with allowance.of(span[2] * entry_bytes):
                return work(*span)

        ranges = self._ranges(block_size, range(self.vertices) if vertices is None else vertices)
        for results in map_ordered(done, ranges, self._threads):
            yield from results

    def _ranges(self, block_size: int, vertices: range) -> Iterator[tuple[int, int, int]]:
        """Ranges of whole blocks: first vertex, last + 1, and about how many entries."""
        store, first, end = self._store, vertices.start, vertices.stop
        if first >= end:
            return
        buckets = store.buckets_of(first, end)
        bounds = self._bounds(buckets)
        load = bounds / 4  # a vertex without connections has its place in a block, too
        for run in store.runs:
            load += run.starts[buckets.start - run.first : buckets.stop + 1 - run.first]
        most = self._at_work // BYTES_PER_ENTRY // max(1, self._threads)
        wanted = min(max(RANGE_ENTRIES, len(store.runs) * READ_ENTRIES), most)
        before = float(np.interp(first, bounds, load))
        while first < end:
            bucket = int(np.searchsorted(load, before + wanted, side="left"))
            following = (first >> store.shift) - buckets.start + 1
            last = int(bounds[min(max(bucket, following), len(buckets))])
            last = min(first - (first - last) // block_size * block_size, end)
            upto = float(np.interp(last, bounds, load))
            if upto - before > most:  # a part of a bucket: as if its vertices were all alike
                last = int(np.interp(before + most, load, bounds))
                last = max(first + (last - first) // block_size * block_size, first + block_size)
                last = min(last, end)
                upto = float(np.interp(last, bounds, load))
            yield first, last, int(upto - before) + 1
            first, before = last, upto

    def close(self) -> None:
        """Forget everything; the runs on disk go with their file."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pending.clear()
        self._filling.forget()
        self._store.close()
        self._file.close()
