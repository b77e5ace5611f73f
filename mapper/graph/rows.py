"""Graphs as read by the deep multilevel method: rows of neighbours, chunk by chunk.

A chunk is a range of consecutive vertices with their rows. One class holds all rows in memory, the
others read them from disk; every pass over a graph is written once, for both.

Kernels that visit all connections slice each row and use unsigned ids. This spares numba the check
for negative indices, which otherwise takes half of their time (a pass of k-way refinement: 12.6 ns
per connection before, 5.5 ns after).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Self

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam
from mapper.executors.executor import LocalShardExecutor, ShardExecutor
from mapper.executors.worker_interface import WorkerShardExecutor
from mapper.graph.csr import Chunk
from mapper.monitoring.callbacks import Advance
from storage.arrays import Int32, Int64
from storage.graph import Graph
from storage.scratch.directions import directions_of
from storage.scratch.packed import PackedBlock, PackedRows, pack_block, write_packed
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile

# entries per chunk in memory: few enough to share among threads, enough to pay off
CHUNK_ENTRIES = 1 << 16
LEAST_CHUNKS = 32  # with fewer, too many moves of a round would not see each other, see `kway`
ROW_LIMIT = np.int64(2**31 - 1)  # upper bound of the sum of the weights of a row
COPY = "level-0"  # name in scratch
MEAN_BITS = 8  # bits that the mean weight keeps when weights are shifted


class Rows(ABC):
    """A symmetric graph with sized vertices and int32 weights.

    entries : number of entries of all rows; approximate for a sampled graph
    block_size : vertices per chunk, except for the last
    at_hand : whether all are in memory
    executor : runs passes over them; None for the thread team of a pass
    """

    entries: int
    block_size: int
    at_hand: bool = False
    executor: WorkerShardExecutor | None = None
    _sizes: Int64
    _heaviest: int = int(ROW_LIMIT)

    @property
    def sizes(self) -> Int64:
        """Capacity that each vertex uses, shape (vertices,)."""
        return self._sizes

    def with_sizes(self, sizes: Int64) -> Self:
        """Return the same connections with other vertex sizes, without copying."""
        other = copy(self)
        other._sizes = sizes
        return other

    @property
    def heaviest(self) -> int:
        """Upper bound of the weights."""
        return self._heaviest

    @property
    def vertices(self) -> int:
        return self._sizes.size

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.vertices // self.block_size)

    def degrees(self) -> Int32:
        """Return the length of each row, shape (vertices,)."""
        found = np.empty(self.vertices, np.int32)
        for index in range(self.chunks):
            chunk = self.read(index)
            found[chunk.first : chunk.first + chunk.vertices] = np.diff(chunk.indptr)
        return found

    @abstractmethod
    def read(self, index: int) -> Chunk:
        """Return chunk `index`; may be called by several threads concurrently."""


def executor_of(rows: Rows, team: ThreadTeam) -> ShardExecutor:
    """Return the executor of these rows, or one on the threads of a team."""
    return rows.executor or LocalShardExecutor(rows, team)


class HeldRows(Rows):
    """All rows in memory: 8 bytes per entry."""

    at_hand = True

    def __init__(self, indptr: Int64, ids: Int32, weights: Int32, sizes: Int64) -> None:
        self.indptr = indptr
        self.ids = ids
        self.weights = weights
        self._sizes = sizes
        self.entries = ids.size
        count = max(LEAST_CHUNKS, -(-self.entries // CHUNK_ENTRIES))
        self.block_size = max(1, -(-sizes.size // count))

    def degrees(self) -> Int32:
        return np.diff(self.indptr).astype(np.int32)

    @property
    def heaviest(self) -> int:
        return int(self.weights.max(initial=0))

    @property
    def whole(self) -> Chunk:
        """All rows as one chunk."""
        return Chunk(0, self.indptr, self.ids, self.weights)

    def read(self, index: int) -> Chunk:
        first = index * self.block_size
        last = min(first + self.block_size, self.vertices)
        return Chunk(first, self.indptr[first : last + 1], self.ids, self.weights)


@njit(cache=True, nogil=True)
def _narrow(indptr, weights, shift, limit, out):
    """Divide weights by `2^shift`, at least 1 if above 0; a row sums to at most `limit`.

    Returns whether all weights are unchanged.
    """
    same = True
    for v in range(indptr.size - 1):
        most = limit // max(1, indptr[v + 1] - indptr[v])
        for e in range(indptr[v], indptr[v + 1]):
            w = weights[e]
            if w > 0:
                w = min(max(w >> shift, 1), most)
            out[e] = w
            same &= out[e] == weights[e]
    return same


class StreamedRows(Rows):
    """Rows of a graph on disk, read and decoded chunk by chunk."""

    def __init__(self, graph: Graph, sizes: Int64, shift: int) -> None:
        """shift : weights are divided by 2^shift, see `weight_shift`."""
        self._graph = graph
        self._shift = shift
        self._sizes = sizes
        self.entries, self.block_size = graph.connections, graph.block_size

    def read(self, index: int) -> Chunk:
        first, _ = self._graph.block_bounds(index)
        indptr, ids, weights = self._graph.read_undirected(index)
        narrow = np.empty(ids.size, np.int32)
        _narrow(indptr, weights, self._shift, ROW_LIMIT, narrow)
        return Chunk(first, indptr, ids, narrow)

    def packed(self, index: int) -> PackedBlock:
        """Return chunk `index` packed, with directions if it is stored with the same weights."""
        if not isinstance(self._graph, NetworkFile):
            return pack_block(index, self.read(index)[1:])
        (indptr, ids, weights), shares = self._graph.read_shares(index)
        narrow = np.empty(ids.size, np.int32)
        same = _narrow(indptr, weights, self._shift, ROW_LIMIT, narrow)
        return pack_block(
            index, (indptr, ids, narrow), directions_of(narrow, shares) if same else None
        )


class CopiedRows(Rows):
    """Rows in scratch, in a form that is cheap to read repeatedly."""

    def __init__(self, packed: PackedRows, sizes: Int64) -> None:
        self._packed = packed
        self._sizes, self._heaviest = sizes, packed.heaviest
        self.entries, self.block_size = packed.entries, packed.block_size

    def degrees(self) -> Int32:
        return self._packed.degrees()

    def read(self, index: int) -> Chunk:
        return Chunk(index * self.block_size, *self._packed.read(index))


def copied(rows: StreamedRows, scratch: Scratch, team: ThreadTeam, advance: Advance) -> CopiedRows:
    """Copy the rows to scratch, or open an existing copy."""

    try:
        packed = PackedRows(scratch, COPY)
    except KeyError:
        packed = write_packed(
            scratch, COPY, rows.vertices, rows.block_size, rows.packed, team.threads, advance
        )
    return CopiedRows(packed, rows.sizes)


def directed_copy(scratch: Scratch | None) -> PackedRows | None:
    """Return the copy of a network in scratch if its outgoing connections can be read from it."""
    try:
        packed = None if scratch is None else PackedRows(scratch, COPY)
    except KeyError:
        return None
    return packed if packed is not None and packed.directed else None


def weight_shift(total_weight: int, connections: int) -> int:
    """Return the right shift of weights after which their mean keeps about eight bits.

    Networks of whole spikes have small weights and are not changed. Quantised real weights have a
    mean of 20 bits or more, of which a partitioner needs few.
    """
    mean = max(1, total_weight // max(1, connections))
    return max(0, mean.bit_length() - MEAN_BITS)


def hold(rows: Rows, team: ThreadTeam, advance: Advance) -> HeldRows:
    """Load all rows of a graph into memory."""
    indptr = np.zeros(rows.vertices + 1, np.int64)
    ids, weights = np.empty(rows.entries, np.int32), np.empty(rows.entries, np.int32)
    at = 0
    for chunk in team.stream(rows.read, range(rows.chunks)):
        low, high = int(chunk.indptr[0]), int(chunk.indptr[-1])
        stop = at + high - low
        if stop > ids.size:  # the size of a sample is only approximate
            for array in (ids, weights):
                array.resize(max(stop, array.size + array.size // 8), refcheck=False)
        places = slice(chunk.first + 1, chunk.first + 1 + chunk.vertices)
        indptr[places] = chunk.indptr[1:] - low + at
        ids[at:stop], weights[at:stop] = chunk.ids[low:high], chunk.weights[low:high]
        at = stop
        advance(high - low)
    # a pair with connections in both directions is one entry per row, so there may be fewer than
    # expected
    ids.resize(at, refcheck=False)
    weights.resize(at, refcheck=False)
    return HeldRows(indptr, ids, weights, rows.sizes)
