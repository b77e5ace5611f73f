"""Graph interface of all passes: blocks of consecutive vertices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.parallel import map_ordered

MAX_VERTICES = 2**31 - 1  # ids are int32, and a sort key holds two ids and a flag


@njit(cache=True, nogil=True)
def _merge_directions(indptr, ids, weights, out_indptr, out_ids, out_weights):
    """Add adjacent entries with the same id (outgoing and incoming connection of a pair)."""
    at = 0
    out_indptr[0] = 0
    for v in range(indptr.size - 1):
        start = at
        for e in range(indptr[v], indptr[v + 1]):
            if at > start and out_ids[at - 1] == ids[e]:
                out_weights[at - 1] += weights[e]
            else:
                out_ids[at] = ids[e]
                out_weights[at] = weights[e]
                at += 1
        out_indptr[v + 1] = at
    return at


@njit(cache=True, nogil=True)
def _select_outgoing(indptr, ids, weights, incoming, out_indptr, out_ids, out_weights):
    at = 0
    out_indptr[0] = 0
    for v in range(indptr.size - 1):
        for e in range(indptr[v], indptr[v + 1]):
            if not incoming[e]:
                out_ids[at] = ids[e]
                out_weights[at] = weights[e]
                at += 1
        out_indptr[v + 1] = at
    return at


Csr = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Block:
    """The connection lists of consecutive vertices.

    first : id of the first vertex
    indptr : ndarray[int64], shape (vertices + 1,), offset of each list
    ids : ndarray[int32], shape (connections,), other end; increasing within a vertex
    weights : ndarray[int64], shape (connections,), in the graph's weight unit
    incoming : ndarray[uint8], shape (connections,), 1 where the other end is the source
    sizes : ndarray[int64], shape (connections,), repeated connections merged into each entry;
        None if all are 1
    """

    first: int
    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    weights: NDArray[np.int64]
    incoming: NDArray[np.uint8]
    sizes: NDArray[np.int64] | None = None

    @property
    def vertices(self) -> int:
        return self.indptr.size - 1

    @property
    def connections(self) -> int:
        return self.ids.size

    def undirected(self) -> Csr:
        """Return neighbour lists for partitioning: both directions of a pair added."""
        return self._filtered(_merge_directions, self.indptr, self.ids, self.weights)

    def outgoing(self) -> Csr:
        """Return lists of targets. In an undirected graph an edge is outgoing at both ends."""
        if not self.incoming.any():
            return self.indptr, self.ids, self.weights
        return self._filtered(_select_outgoing, self.indptr, self.ids, self.weights, self.incoming)

    def _filtered(self, kernel, *arrays) -> Csr:  # type: ignore[no-untyped-def]
        indptr = np.empty_like(self.indptr)
        ids = np.empty_like(self.ids)
        weights = np.empty_like(self.weights)
        used = kernel(*arrays, indptr, ids, weights)
        return indptr, ids[:used], weights[:used]


class BlockArrays(NamedTuple):
    """Output arrays of a kernel that builds a `Block`."""

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    weights: NDArray[np.int64]
    incoming: NDArray[np.uint8]
    sizes: NDArray[np.int64]

    @classmethod
    def empty(cls, vertices: int, connections: int) -> BlockArrays:
        """Allocate arrays for at most `connections` connections."""
        return cls(
            np.empty(vertices + 1, np.int64),
            np.empty(connections, np.int32),
            np.empty(connections, np.int64),
            np.empty(connections, np.uint8),
            np.empty(connections, np.int64),
        )

    def block(self, first: int, used: int, sized: bool) -> Block:
        """Return a block of vertices from `first`, with the first `used` connections.

        sized : use `sizes`; otherwise all sizes are 1
        """
        return Block(
            first,
            self.indptr,
            self.ids[:used],
            self.weights[:used],
            self.incoming[:used],
            self.sizes[:used] if sized else None,
        )


class Graph(ABC):
    """A graph with sized vertices that is read block by block.

    Block i holds vertices i*block_size .. min((i+1)*block_size, vertices) - 1, so the block of a
    vertex is found by division. `read_block` is safe to call from several threads.
    """

    vertices: int
    connections: int  # entries in all lists: a synapse counts at both of its ends
    block_size: int
    undirected: bool

    @property
    def block_count(self) -> int:
        return -(-self.vertices // self.block_size)

    def block_bounds(self, index: int) -> tuple[int, int]:
        """Return the first vertex of block `index`, and the first vertex after it."""
        if not 0 <= index < self.block_count:
            raise IndexError(f"block {index} of {self.block_count}")
        first = index * self.block_size
        return first, min(first + self.block_size, self.vertices)

    @abstractmethod
    def vertex_sizes(self) -> NDArray[np.int64]:
        """Return the capacity that each vertex uses, shape (vertices,)."""

    @abstractmethod
    def read_block(self, index: int) -> Block:
        """Return block `index`; raise `CorruptError` if its bytes are damaged."""

    def read_undirected(self, index: int) -> Csr:
        """Return ``read_block(index).undirected()``; subclasses may override it to be faster."""
        return self.read_block(index).undirected()

    def read_outgoing(self, index: int) -> Csr:
        """Return ``read_block(index).outgoing()``; subclasses may override it to be faster."""
        return self.read_block(index).outgoing()

    def undirected_blocks(
        self, order: Sequence[int] | None = None, threads: int = 1
    ) -> Iterator[tuple[int, Csr]]:
        """Yield first vertex and neighbour lists of blocks; parameters as in `blocks`."""
        wanted = range(self.block_count) if order is None else order
        read = map_ordered(self.read_undirected, wanted, threads)
        for index, lists in zip(wanted, read, strict=True):
            yield index * self.block_size, lists

    def blocks(self, order: Sequence[int] | None = None, threads: int = 1) -> Iterator[Block]:
        """Yield blocks in the given order (default: by id), prefetched by `threads` threads."""
        wanted = range(self.block_count) if order is None else order
        return map_ordered(self.read_block, wanted, threads)


def choose_block_size(vertices: int, connections: int, target: int = 1 << 18) -> int:
    """Return vertices per block for about `target` connections: a power of two, or all vertices.

    2^18 connections are about 1 MB of records: large enough to amortise per-block costs, small
    enough that several blocks in flight per thread stay far below any realistic memory limit.
    """
    if vertices <= 0:
        return 1
    wanted = max(1, target * vertices // max(connections, 1))
    wanted = min(wanted, 1 << 16, vertices)
    return 1 << max(0, wanted.bit_length() - 1) if wanted < vertices else vertices
