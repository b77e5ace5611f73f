"""Contraction: the graph whose vertices are clusters of the vertices of another graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import njit

from storage.arrays import Int32
from storage.graph import Graph, choose_block_size
from storage.scratch.scratch import Scratch, ScratchGraph
from storage.sorting.sorter import ConnectionSorter


@njit(cache=True, nogil=True)
def _relabel(first, indptr, ids, weights, cluster, owners, others, kept):
    """List connections between different clusters; return their number."""
    at = 0
    for v in range(indptr.size - 1):
        own = cluster[first + v]
        for e in range(indptr[v], indptr[v + 1]):
            other = cluster[ids[e]]
            if other != own:
                owners[at] = own
                others[at] = other
                kept[at] = weights[e]
                at += 1
    return at


def contract(
    graph: Graph,
    cluster: Int32,
    count: int,
    scratch: Scratch,
    name: str,
    memory: int,
    threads: int = 1,
) -> ScratchGraph:
    """Build the graph of clusters in scratch under `name`; parallel connections add up.

    cluster : ndarray[int32], shape (vertices,), cluster of every vertex, 0 .. count-1
    memory : bytes for the external sort by cluster
    """
    sizes = np.zeros(count, np.int64)
    np.add.at(sizes, cluster, graph.vertex_sizes())
    with ConnectionSorter(count, scratch.path, memory) as sorter:
        for block in graph.blocks(threads=threads):
            indptr, ids, weights = block.undirected()
            owners, others = np.empty(ids.size, np.int32), np.empty(ids.size, np.int32)
            kept = np.empty(ids.size, np.int64)
            used = _relabel(block.first, indptr, ids, weights, cluster, owners, others, kept)
            sorter.add(owners[:used], others[:used], 0, kept[:used])
        block_size = choose_block_size(count, sorter.entries)
        merged = (replace(block, sizes=None) for block, _ in sorter.blocks(block_size))
        return scratch.write_graph(name, sizes, block_size, merged)
