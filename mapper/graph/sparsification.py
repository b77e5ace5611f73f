"""A graph reduced to a sample of its connections, heavy ones first.

In networks of thousands of connections per neuron, the last thousand add little. The threshold
sample of `mapper.graph.sampled_contraction` keeps the expected weight of every cut.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.csr import Chunk
from mapper.graph.rows import StreamedRows
from mapper.graph.sampled_contraction import _kept, sampling_threshold
from storage.arrays import Int64
from storage.graph import Block, Csr, Graph

# differs from the seeds of other samples of a run, so that these do not omit the same connections
SEED = 11


@njit(cache=True, nogil=True)
def _thin(chunk, threshold, seed, out_indptr, out_ids, out_weights):
    """Copy the sampled connections of the rows; return the number of entries kept."""
    first, indptr, ids, weights = chunk
    at = 0
    out_indptr[0] = 0
    for i in range(indptr.size - 1):
        for e in range(indptr[i], indptr[i + 1]):
            if _kept(first + i, ids[e], weights[e], threshold, seed):
                out_ids[at] = ids[e]
                out_weights[at] = max(weights[e], threshold)
                at += 1
        out_indptr[i + 1] = at
    return at


class ThinnedGraph(Graph):
    """Neighbour lists of a graph, restricted to a threshold sample."""

    undirected = True

    def __init__(self, graph: Graph, threshold: int, connections: int) -> None:
        """connections : approximate number of connections left."""
        self.whole = graph
        self.threshold = threshold
        self.vertices = graph.vertices
        self.connections = connections
        self.block_size = graph.block_size

    def vertex_sizes(self) -> Int64:
        return self.whole.vertex_sizes()

    def read_block(self, index: int) -> Block:
        first, _ = self.block_bounds(index)
        indptr, ids, weights = self.read_undirected(index)
        return Block(first, indptr, ids, weights, np.zeros(ids.size, np.uint8))

    def read_undirected(self, index: int) -> Csr:
        first, _ = self.block_bounds(index)
        lists = self.whole.read_undirected(index)
        kept = tuple(map(np.empty_like, lists))
        used = _thin(Chunk(first, *lists), self.threshold, SEED, *kept)
        return kept[0], kept[1][:used], kept[2][:used]


def thin(graph: Graph, degree: int, shift: int, team: ThreadTeam) -> Graph:
    """Return the graph, or a view with about `degree` connections per vertex on average.

    shift : of the weights, see `mapper.graph.rows.weight_shift`
    """
    wanted = degree * graph.vertices
    if graph.connections <= wanted:
        return graph
    rows = StreamedRows(graph, graph.vertex_sizes(), shift)
    threshold = sampling_threshold(rows, wanted, team) << shift
    return ThinnedGraph(graph, threshold, wanted) if threshold > 1 else graph
