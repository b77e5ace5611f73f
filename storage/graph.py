"""The interface through which every pass reads a graph: blocks of consecutive vertices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.parallel import map_ordered

MAX_VERTICES = 2**31 - 1  # ids are int32 in memory, and two of them and a flag fit a sort key


@njit(cache=True, nogil=True)
def _merge_directions(indptr, ids, weights, out_indptr, out_ids, out_weights):
    """Add up neighbouring entries with the same id (out- and incoming connection of a pair)."""
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
    indptr : ndarray[int64], shape (vertices + 1,), where each list starts
    ids : ndarray[int32], shape (connections,), other end; increasing within a vertex
    weights : ndarray[int64], shape (connections,), in the graph's weight unit
    incoming : ndarray[uint8], shape (connections,), 1 where the other end is the source
    sizes : ndarray[int64], shape (connections,), repeated connections that each entry stands for;
        None when all are 1
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
        """Neighbour lists as partitioning sees them: both directions of a pair added."""
        return self._filtered(_merge_directions, self.indptr, self.ids, self.weights)

    def outgoing(self) -> Csr:
        """BlockArrays of targets. In an undirected graph every edge is outgoing at both ends."""
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
    """Arrays of a `Block` to be filled by a kernel."""

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    weights: NDArray[np.int64]
    incoming: NDArray[np.uint8]
    sizes: NDArray[np.int64]

    @classmethod
    def empty(cls, vertices: int, connections: int) -> BlockArrays:
        """For so many connections at most."""
        return cls(
            np.empty(vertices + 1, np.int64),
            np.empty(connections, np.int32),
            np.empty(connections, np.int64),
            np.empty(connections, np.uint8),
            np.empty(connections, np.int64),
        )

    def block(self, first: int, used: int, sized: bool) -> Block:
        """Of the vertices from `first` on, with the connections that were filled.

        sized : whether `sizes` counts, or all are 1
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

    Block i holds vertices i*block_size .. min((i+1)*block_size, vertices) - 1, so that the block
    of a vertex is found by division. `read_block` may be called from several threads at once.
    """

    vertices: int
    connections: int  # entries in all lists: a synapse counts at both of its ends
    block_size: int
    undirected: bool

    @property
    def block_count(self) -> int:
        return -(-self.vertices // self.block_size)

    def block_bounds(self, index: int) -> tuple[int, int]:
        """First vertex of block `index`, and the first behind it."""
        if not 0 <= index < self.block_count:
            raise IndexError(f"block {index} of {self.block_count}")
        first = index * self.block_size
        return first, min(first + self.block_size, self.vertices)

    @abstractmethod
    def vertex_sizes(self) -> NDArray[np.int64]:
        """Capacity that each vertex uses, shape (vertices,)."""

    @abstractmethod
    def read_block(self, index: int) -> Block:
        """Block `index`; raises `CorruptError` if its bytes are damaged."""

    def read_undirected(self, index: int) -> Csr:
        """``read_block(index).undirected()``, by a shorter way where a graph has one."""
        return self.read_block(index).undirected()

    def read_outgoing(self, index: int) -> Csr:
        """``read_block(index).outgoing()``, by a shorter way where a graph has one."""
        return self.read_block(index).outgoing()

    def undirected_blocks(
        self, order: Sequence[int] | None = None, threads: int = 1
    ) -> Iterator[tuple[int, Csr]]:
        """First vertex and neighbour lists of blocks, as `blocks` gives them."""
        wanted = range(self.block_count) if order is None else order
        read = map_ordered(self.read_undirected, wanted, threads)
        for index, lists in zip(wanted, read, strict=True):
            yield index * self.block_size, lists

    def blocks(self, order: Sequence[int] | None = None, threads: int = 1) -> Iterator[Block]:
        """Blocks in the given order (default: by id), decoded ahead by `threads` threads."""
        wanted = range(self.block_count) if order is None else order
        return map_ordered(self.read_block, wanted, threads)


def choose_block_size(vertices: int, connections: int, target: int = 1 << 18) -> int:
    """Vertices a block so that it holds about `target` connections: a power of two, or all of them.

    2^18 connections are about 1 MB of records: large enough that per-block costs vanish, small
    enough that a handful in flight on every thread stays far below any sensible memory limit.
    """
    if vertices <= 0:
        return 1
    wanted = max(1, target * vertices // max(connections, 1))
    wanted = min(wanted, 1 << 16, vertices)
    return 1 << max(0, wanted.bit_length() - 1) if wanted < vertices else vertices
