"""External sort of connections: input in any order, output in blocks of consecutive vertices.

Edges are collected in a buffer. A separate thread divides a full buffer by owner into buckets and
stores it as a run of compact records (`runs`) while the next buffer fills. At the end all threads
gather ranges of blocks from their buckets in all runs, sort them in cache and merge them. Each
connection is written once and read once, for any network size.
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

from storage.budget import require_room
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

BYTES_PER_ENTRY = 64  # bytes per connection while its block is sorted, merged and encoded
SORTED_BYTES = 16  # bytes per connection at least: a key and a weight
LEAST_MEMORY = 64 << 20  # bytes that a block may need even above the budget
BYTES_PER_EDGE = (
    48  # bytes per edge in a buffer and while it becomes a run, without 8 bytes of weight
)
PART_BYTES = 24 << 20  # bytes per part of some hundred thousand edges being generated
LARGEST_BUFFER = 1 << 22  # edges
SMALLEST_BUFFER = 512
RANGE_ENTRIES = 1 << 17  # approximate minimum of a range of small blocks
READ_ENTRIES = 1 << 12  # read from each run at a time if there are many runs
MAX_TOTAL = 2.0**62

Part = TypeVar("Part")
Result = TypeVar("Result")


class MadeRuns(NamedTuple):
    """Runs of a sorter shared with other processes.

    path : of the file that holds them
    bounds : ndarray[int64], shape (buckets + 1,), first owner of each bucket, and all owners
    loads : ndarray[int64], shape (buckets + 1,), entries before each bucket, and all of them
    total : sum of the weights of all entries, before rounding to units
    """

    path: Path
    bounds: NDArray[np.int64]
    loads: NDArray[np.int64]
    total: float


def check_total(total: float, unit: float) -> None:
    """Raise `BadInputError` if sums of weights may exceed 62 bits."""
    if total / unit >= MAX_TOTAL:
        raise BadInputError("the sum of all weights, at both ends, exceeds 2^62; scale them down")


class _Allowance:
    """Memory budget shared by several threads; a request above the total gets the total."""

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
    """Collects connections of a graph and returns them as `Block`s, with repeated ones added.

    vertices : number of vertices
    folder : for runs
    memory : bytes for the sort: up to half for buffers, and later for the ranges of blocks in
        progress; three eighths for runs
    threads : number of threads that build runs, besides the caller; with 1 the caller does
    signed : whether weights may be negative, see `weights.WeightSorter`
    shared : name prefix of a file of all runs in the folder, if other processes will read them
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
        self._block_memory = max(memory, LEAST_MEMORY)
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
        """Number of connections added so far."""
        self._flush()
        return self._entries

    def leave(self) -> MadeRuns:
        """Share the runs with other processes; no more connections can be added."""
        self._flush()
        loads = np.zeros(self._store.buckets + 1, np.int64)
        for run in self._store.runs:
            loads += run.starts
        path = leave_runs(self._store.runs, self._file)
        return MadeRuns(path, self._bounds(range(self._store.buckets)), loads, self._total)

    def _bounds(self, buckets: range) -> NDArray[np.int64]:
        """Return the first owner of each bucket, and the end of the last one."""
        bounds = np.arange(buckets.start, buckets.stop + 1) << self._store.shift
        return np.minimum(bounds, self.vertices)

    def read_from(self, paths: Sequence[Path], first: int, last: int) -> None:
        """Read the runs of other processes, restricted to vertices `first` .. `last`-1."""
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
        self._filling.add(owner, other, weight, IN if incoming else OUT)

    def add_edges(
        self,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        weight: NDArray[np.integer] | NDArray[np.floating],
        undirected: bool,
    ) -> None:
        """Add edges at both ends, like two calls of `add`."""
        self._filling.add(source, target, weight, UNDIRECTED if undirected else DIRECTED)

    def add_made(
        self,
        parts: Iterable[Part],
        work: Callable[[Part], tuple[Edges, Result]],
        undirected: bool,
    ) -> Iterator[Result]:
        """Add the edges of all parts, the first result of `work`, at both ends.

        `work` runs on all threads, which also build runs from its edges. Yields the second result
        of `work`, in the order of the parts.
        """
        mode = UNDIRECTED if undirected else DIRECTED
        made: list[tuple[Run, int, float]] = []
        idle: list[Filling] = []  # pool of buffers, one per active thread

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
        """Convert the edges of the buffer to a run."""
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
        """Yield blocks of `block_size` vertices in order, each with the rounding of its weights.

        Weights are rounded to multiples of `unit` before repeated connections are added. Can be
        called once; raises `BadInputError` if the sum of the graph's weights exceeds 62 bits.
        """
        return self.map_blocks(lambda block, rounding: (block, rounding), block_size, unit)

    def map_blocks(
        self,
        work: Callable[[Block, Rounding], Result],
        block_size: int,
        unit: float = 1.0,
        vertices: range | None = None,
    ) -> Iterator[Result]:
        """Yield ``work(block, rounding)`` for all `blocks` in order, computed by all threads.

        vertices : range of the wanted blocks; None: all
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
        """Yield the results of ``work(first, last, entries)`` for ranges of blocks, in order.

        entry_bytes : working memory per entry
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
        """Yield ranges of whole blocks: first vertex, last + 1, and estimated entries.

        Raises `MemoryShortError` if a block alone needs more than the memory.
        """
        store, first, end = self._store, vertices.start, vertices.stop
        if first >= end:
            return
        buckets = store.buckets_of(first, end)
        bounds = self._bounds(buckets)
        load = bounds / 4  # a vertex without connections also occupies space in a block
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
            if upto - before > most:  # inside a bucket, assume equal vertices
                last = int(np.interp(before + most, load, bounds))
                last = max(first + (last - first) // block_size * block_size, first + block_size)
                last = min(last, end)
                upto = float(np.interp(last, bounds, load))
            entries = int(upto - before) + 1
            what = f"a block of {entries:,} connections of neurons {first} to {last - 1}"
            require_room(what, SORTED_BYTES * entries, self._block_memory)
            yield first, last, entries
            first, before = last, upto

    def close(self) -> None:
        """Drop all runs; their file is deleted."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pending.clear()
        self._filling.forget()
        self._store.close()
        self._file.close()
