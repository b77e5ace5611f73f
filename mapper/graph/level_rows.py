"""Contraction on workers: the rows of the graph of clusters stay on workers.

The owner of rows of a graph sends their sampled connections through the shared folder
(`mapper.executors.sections`) to the owner of the cluster. The rows have the same bytes as in a
single process (`mapper.graph.contracted_rows`), and are read like rows of the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from threading import BoundedSemaphore
from typing import NamedTuple

import numpy as np

from mapper.executors.sections import Sections, SendTask, ends_of, read_pairs
from mapper.executors.shard import Shard, State
from mapper.executors.worker_interface import WorkerShardExecutor
from mapper.graph.contracted_rows import heaviest_row, sample_pairs, shifted
from mapper.graph.csr import Chunk
from mapper.graph.rows import Rows
from mapper.graph.sampled_contraction import row_shift
from mapper.monitoring.callbacks import Advance, ignore
from mapper.planning.worker_plan import MADE_BYTES
from storage.arrays import Int32, Int64
from storage.graph import choose_block_size
from storage.scratch.packed import Lists, UnitCache
from storage.scratch.scratch import Scratch

NAME = "level"  # name in the scratch of a worker


class LevelSource(NamedTuple):
    """Rows of clusters built from run files; see `RowSource`.

    block_size : clusters per chunk
    entries : number of entries per unit in the files, shape (units,); a unit is read as a whole:
        whole sections and whole chunks
    shift : of the weights, see `row_shift`; memory : bytes per worker for units
    """

    sections: Sections
    block_size: int
    entries: Int64
    shift: int
    memory: int

    @property
    def exchanged(self) -> bool:
        return True

    @property
    def chunks(self) -> int:
        return -(-self.sections.vertices // self.block_size)

    @property
    def together(self) -> int:
        """Chunks per unit."""
        return max(1, (1 << self.sections.bits) // self.block_size)

    def open(self, scratch: Scratch) -> MadeRows:
        return MadeRows(self, scratch)


class MadeRows(Rows):
    """Rows that are built on first read and then kept in scratch.

    Their sizes are in the state of the executor.
    """

    def __init__(self, source: LevelSource, scratch: Scratch) -> None:
        self._source, self.block_size = source, source.block_size
        self._sizes = np.broadcast_to(np.int64(0), (source.sections.vertices,))  # uses no memory
        self.entries = int(source.entries.sum())
        self._cache = UnitCache(scratch, NAME, source.chunks, source.together, self._made)
        largest = max(1, MADE_BYTES * int(source.entries.max(initial=0)))
        self._turn = BoundedSemaphore(max(1, source.memory // largest))

    def read(self, index: int) -> Chunk:
        chunk = Chunk(index * self.block_size, *self._cache.read(index))
        return shifted(chunk, self._source.shift)

    def _made(self, unit: int) -> Iterator[Lists]:
        """Yield the chunks of a unit."""
        sections, size, _, _, _ = self._source
        entries = int(self._source.entries[unit])
        vertices = self._source.together * size
        low, high = unit * vertices, min((unit + 1) * vertices, sections.vertices)
        with self._turn:
            last = -(-high >> sections.bits)
            keys, weights = read_pairs(sections, low >> sections.bits, last, entries)
            own, ids = ends_of(keys)
            del keys
            start = np.searchsorted(own, np.arange(low, high + 1))
            del own
            for first in range(0, high - low, size):
                indptr = start[first : first + size + 1]
                at = slice(indptr[0], indptr[-1])
                yield indptr - indptr[0], ids[at], weights[at]


class LevelRows(Rows):
    """Rows owned by workers; the driver has only their lengths."""

    def __init__(self, executor: WorkerShardExecutor, source: LevelSource, sizes: Int64) -> None:
        """Let workers build the rows."""
        self.executor: WorkerShardExecutor = executor
        self._sizes, self.block_size = sizes, source.block_size
        self._degrees = np.empty(sizes.size, np.int32)
        self._heaviest = self.heaviest_row = 0
        for one in executor.each(measured, range(self.chunks)):
            self._degrees[one.first : one.first + one.degrees.size] = one.degrees
            self._heaviest = max(self._heaviest, one.heaviest)
            self.heaviest_row = max(self.heaviest_row, one.heaviest_row)
        self.entries = int(self._degrees.sum(dtype=np.int64))

    def degrees(self) -> Int32:
        return self._degrees

    def read(self, index: int) -> Chunk:
        (chunk,) = self.executor.each(whole, [index])
        return chunk


class Measured(NamedTuple):
    """Row lengths of a chunk, its largest weight, and the largest sum of a row."""

    first: int
    degrees: Int32
    heaviest: int
    heaviest_row: int


def measured(_: Shard, chunk: Chunk) -> Measured:
    """Return the data of a chunk that the driver keeps."""
    degrees = np.diff(chunk.indptr).astype(np.int32)
    heaviest = int(chunk.weights.max(initial=0))
    return Measured(chunk.first, degrees, heaviest, heaviest_row(chunk.indptr, chunk.weights))


def whole(_: Shard, chunk: Chunk) -> Chunk:
    """Return the chunk unchanged."""
    return chunk


@contextmanager
def contract_on_workers(
    rows: Rows,
    executor: WorkerShardExecutor,
    cluster: Int32,
    sizes: Int64,
    sample: tuple[int, int],
    expected: int,
    advance: Advance = ignore,
) -> Iterator[LevelRows]:
    """Yield the graph of clusters on the workers of `rows`, from a sample; deleted on exit.

    cluster : ndarray[int32], shape (vertices,); sizes : of the clusters
    sample : threshold and seed, see `mapper.graph.sampled_contraction`
    expected : approximate entries of the sample
    """
    executor.begin(State(cluster))
    sections = executor.sections(sizes.size, min(expected, rows.entries))
    try:
        every = range(sections.senders)
        task = SendTask(sections, (), sample_pairs, sample)
        entries = executor.send(task, every, advance)
        block_size = choose_block_size(sizes.size, int(entries.sum()))
        step = max(1, -(-block_size >> sections.bits))  # sections per unit
        units = np.add.reduceat(entries, np.arange(0, entries.size, step))
        with ExitStack() as held:

            def made(shift: int) -> LevelRows:
                source = LevelSource(sections, block_size, units, shift, executor.memory)
                above = executor.above(
                    source, source.chunks, int(entries.sum()), source.together,
                    lambda shards: executor.send(task, shards),
                )  # fmt: skip
                return LevelRows(held.enter_context(closing(above)), source, sizes)

            found = made(0)
            if shift := row_shift(found.heaviest_row):  # rare: only for row sums of 2^30 and more
                held.close()
                found = made(shift)
            yield found
    finally:
        sections.remove()
