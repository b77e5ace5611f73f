"""Graph in memory: for tests, small graphs, and the passes that need one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.graph import Block, Graph, choose_block_size
from storage.quantise import Rounding
from storage.sorting.sorter import ConnectionSorter


class MemoryGraph(Graph):
    """All blocks of a graph in memory.

    sizes : ndarray[int64], shape (vertices,)
    block : one `Block` with all vertices
    """

    def __init__(
        self,
        sizes: NDArray[np.int64],
        block: Block,
        *,
        undirected: bool = False,
        block_size: int | None = None,
    ) -> None:
        self.vertices = block.vertices
        self.connections = block.connections
        self.undirected = undirected
        self.block_size = block_size or choose_block_size(self.vertices, self.connections)
        self._sizes = sizes
        self._all = block

    @classmethod
    def from_edges(
        cls,
        vertices: int,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        weight: NDArray[np.integer] | None = None,
        *,
        sizes: NDArray[np.integer] | None = None,
        undirected: bool = False,
        block_size: int | None = None,
    ) -> MemoryGraph:
        """Build from edge arrays in any order; repeated edges are added, self-loops dropped."""
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        if weight is None:
            weight = np.ones(source.size, np.int64)
        keep = source != target
        source, target, weight = source[keep], target[keep], np.asarray(weight, np.int64)[keep]
        with ConnectionSorter(vertices, Path(tempfile.gettempdir())) as sorter:
            sorter.add(source, target, 0, weight)
            sorter.add(target, source, 0 if undirected else 1, weight)
            ((block, _),) = list(sorter.blocks(max(vertices, 1))) or [(_empty_block(), Rounding())]
        if sizes is None:
            sizes = np.ones(vertices, np.int64)
        return cls(np.asarray(sizes, np.int64), block, undirected=undirected, block_size=block_size)

    def vertex_sizes(self) -> NDArray[np.int64]:
        return self._sizes

    def read_all(self) -> Block:
        """Return all vertices as one block."""
        return self._all

    def read_block(self, index: int) -> Block:
        first, last = self.block_bounds(index)
        begin, end = self._all.indptr[first], self._all.indptr[last]
        sizes = self._all.sizes
        return Block(
            first,
            self._all.indptr[first : last + 1] - begin,
            self._all.ids[begin:end],
            self._all.weights[begin:end],
            self._all.incoming[begin:end],
            None if sizes is None else sizes[begin:end],
        )


def _empty_block() -> Block:
    return Block(
        0,
        np.zeros(1, np.int64),
        np.empty(0, np.int32),
        np.empty(0, np.int64),
        np.empty(0, np.uint8),
    )


def load(graph: Graph, threads: int = 1) -> MemoryGraph:
    """Load the whole graph into memory as partitioning uses it: undirected, directions added."""
    parts = [(lists[0].size - 1, *lists) for _, lists in graph.undirected_blocks(threads=threads)]
    indptr = np.zeros(graph.vertices + 1, np.int64)
    at = 1
    for count, part, _, _ in parts:
        indptr[at : at + count] = part[1:] + indptr[at - 1]
        at += count
    ids = np.concatenate([np.empty(0, np.int32), *(part[2] for part in parts)])
    weights = np.concatenate([np.empty(0, np.int64), *(part[3] for part in parts)])
    incoming = np.broadcast_to(np.uint8(0), ids.shape)
    block = Block(0, indptr, ids, weights, incoming)
    return MemoryGraph(graph.vertex_sizes(), block, undirected=True)
