"""Graphs in memory in compressed sparse row (CSR) form: neighbours in one array, row by row.

Kernels receive a `Chunk` or a `Csr` as one argument: a named tuple, which they unpack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.arrays import Int32, Int64
from storage.graph import Block


class Chunk(NamedTuple):
    """Rows of the vertices first .. first + indptr.size - 2 of a graph.

    indptr : ndarray[int64], start of each row in `ids`; ids : ndarray[int32], neighbours
    weights : ndarray[int32], the entries of a row add up to less than 2^31; int64 in the blocks
        that `classic` reads
    """

    first: int
    indptr: Int64
    ids: Int32
    weights: NDArray[Any]

    @property
    def vertices(self) -> int:
        return self.indptr.size - 1


def chunk_of(block: Block) -> Chunk:
    """Return a block as a chunk of the undirected graph, with 64-bit weights."""
    return Chunk(block.first, *block.undirected())


class Csr(NamedTuple):
    """A whole graph for bisection.

    indptr : ndarray[int64], shape (n + 1,); ids, weights : ndarray[int32]
    sizes : ndarray[int64], shape (n,), capacity that each vertex uses
    bias : ndarray[int64], shape (n,), extra cost of each vertex on side 1 compared with side 0,
        independent of the other vertices
    """

    indptr: Int64
    ids: Int32
    weights: Int32
    sizes: Int64
    bias: Int64


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Part of a graph in memory: neighbour lists, sizes, and the id of each vertex in the whole.

    indptr : ndarray[int64], shape (n + 1,); ids : ndarray[int32]; weights : ndarray[int64]
    sizes, members : ndarray[int64], shape (n,)
    grain : for sums of sampled connections: the weight that a light sampled connection counts as
    """

    indptr: Int64
    ids: Int32
    weights: Int64
    sizes: Int64
    members: Int64
    grain: int = 1

    @property
    def size(self) -> int:
        return int(self.sizes.sum())

    def halves(self, side: NDArray[np.uint8]) -> Iterator[Subgraph]:
        """Yield the subgraph where `side` is 1, then the one where it is 0."""
        owner = np.repeat(np.arange(side.size), np.diff(self.indptr))
        for wanted in (1, 0):
            kept = np.flatnonzero(side == wanted)
            local = np.empty(side.size, np.int32)
            local[kept] = np.arange(kept.size)
            inner = (side[owner] == wanted) & (side[self.ids] == wanted)
            lengths = np.bincount(local[owner[inner]], minlength=kept.size)
            indptr = np.append(0, np.cumsum(lengths))
            yield Subgraph(
                indptr,
                local[self.ids[inner]],
                self.weights[inner],
                self.sizes[kept],
                self.members[kept],
            )
