"""Graphs in the formats of other partitioners: ParHIP, METIS text, hypergraphs, group graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.store.network import NetworkFile

NO_EDGE_WEIGHTS = 1  # ParHIP: bits of the first of three header words
NO_VERTEX_WEIGHTS = 2
HEADER_BYTES = 24
PIECE = 1 << 20  # 64-bit numbers per read

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Graph:
    """An undirected graph; every edge is stored in the lists of both endpoints.

    indptr : ndarray[int32], shape (vertices + 1,)
    ids, weights : ndarray[int32], shape (entries,)
    sizes : ndarray[int32], shape (vertices,)
    """

    indptr: Ints
    ids: Ints
    weights: Ints
    sizes: Ints

    @property
    def vertices(self) -> int:
        return self.sizes.size

    @property
    def equal(self) -> bool:
        """Whether all vertices have size 1."""
        return bool((self.sizes == 1).all())


def write_parhip(network: Path, graph: Path) -> dict[str, Any]:
    """Write the undirected view of a network in two passes over its blocks."""
    partial = graph.with_name(graph.name + ".partial")
    with NetworkFile(network) as net:
        sizes = net.vertex_sizes()
        equal = bool((sizes == 1).all())
        ends = np.zeros(net.vertices + 1, np.uint64)
        for first, (indptr, _, _) in net.undirected_blocks():
            ends[first + 1 : first + indptr.size] = np.diff(indptr)
        np.cumsum(ends, out=ends)
        entries = int(ends[-1])
        start = HEADER_BYTES + ends.nbytes
        ends *= np.uint64(8)
        ends += np.uint64(start)
        with partial.open("wb") as targets, partial.open("r+b") as weights:
            version = NO_VERTEX_WEIGHTS if equal else 0
            np.array([version, net.vertices, entries], np.uint64).tofile(targets)
            ends.tofile(targets)
            weights.seek(start + 8 * entries)
            if not equal:
                sizes.astype(np.uint64).tofile(weights)
            for _, (_, ids, values) in net.undirected_blocks():
                ids.astype(np.uint64).tofile(targets)
                values.astype(np.uint64).tofile(weights)
    partial.replace(graph)
    return {"entries": entries}


def read_parhip(path: Path) -> Graph:
    """Read a file of `write_parhip` into 32-bit arrays, with a small 64-bit buffer."""
    with path.open("rb") as file:
        version, n, entries = (int(word) for word in np.fromfile(file, np.uint64, 3))

        def numbers(count: int, offset: int = 0) -> Ints:
            out = np.empty(count, np.int32)
            for at in range(0, count, PIECE):
                words = np.fromfile(file, np.int64, min(PIECE, count - at))
                out[at : at + words.size] = (words - offset) // (8 if offset else 1)
            return out

        indptr = numbers(n + 1, HEADER_BYTES + 8 * (n + 1))
        ids = numbers(entries)
        sizes = np.ones(n, np.int32) if version & NO_VERTEX_WEIGHTS else numbers(n)
        weights = np.ones(entries, np.int32) if version & NO_EDGE_WEIGHTS else numbers(entries)
    return Graph(indptr, ids, weights, sizes)


def write_metis(graph: Graph, path: Path) -> None:
    """Write METIS text with both kinds of weights."""
    pairs = np.column_stack([graph.ids + 1, graph.weights]).ravel()
    lines = [f"{graph.vertices} {graph.ids.size // 2} 011"]
    for v in range(graph.vertices):
        own = pairs[2 * graph.indptr[v] : 2 * graph.indptr[v + 1]].tolist()
        lines.append(" ".join(map(str, (int(graph.sizes[v]), *own))))
    path.write_text("\n".join(lines) + "\n")


def group_graph(graph: Graph, part: NDArray[np.integer[Any]], parts: int) -> Graph:
    """Return the graph of the parts with summed connection weights; all parts have size 1.

    part : ndarray, shape (vertices,), part of each vertex
    """
    of = part.astype(np.int64)
    keys: NDArray[np.int64] = np.empty(0, np.int64)
    sums: NDArray[np.int64] = np.empty(0, np.int64)
    for first in range(0, graph.vertices, PIECE >> 2):
        last = min(first + (PIECE >> 2), graph.vertices)
        low, high = graph.indptr[first], graph.indptr[last]
        source = np.repeat(of[first:last], np.diff(graph.indptr[first : last + 1]))
        target = of[graph.ids[low:high]]
        out = source != target
        joined = np.concatenate([keys, source[out] * parts + target[out]])
        values = np.concatenate([sums, graph.weights[low:high][out].astype(np.int64)])
        keys, where = np.unique(joined, return_inverse=True)
        sums = np.bincount(where, weights=values, minlength=keys.size).astype(np.int64)
    source, target = np.divmod(keys, parts)
    indptr = np.searchsorted(source, np.arange(parts + 1)).astype(np.int32)
    ones = np.ones(parts, np.int32)
    return Graph(indptr, target.astype(np.int32), sums.astype(np.int32), ones)


def packet_graph(network: Path, part: NDArray[np.integer[Any]], parts: int) -> Graph:
    """Return the packets between parts, both directions: one per neuron and part that it reaches.

    part : ndarray, shape (neurons,), part of each neuron; rates as in `write_nets`
    """
    of, matrix = part.astype(np.int64), np.zeros(parts * parts, np.int64)
    with NetworkFile(network) as net:
        for first, indptr, ids, rates in _firing(net):
            row = np.repeat(np.arange(rates.size), np.diff(indptr))
            row, target = np.divmod(np.unique(row * parts + of[ids]), parts)
            np.add.at(matrix, of[first + row] * parts + target, rates[row])
    matrix = matrix.reshape(parts, parts)
    matrix += matrix.T
    np.fill_diagonal(matrix, 0)
    source, target = np.nonzero(matrix)
    indptr = np.searchsorted(source, np.arange(parts + 1)).astype(np.int32)
    weights = matrix[source, target].astype(np.int32)
    return Graph(indptr, target.astype(np.int32), weights, np.ones(parts, np.int32))


def mesh_edges(width: int, height: int) -> list[tuple[int, int]]:
    """Return pairs of neighbouring cores of a mesh, each pair once."""
    core = np.arange(width * height).reshape(height, width)
    across = zip(core[:, :-1].ravel().tolist(), core[:, 1:].ravel().tolist(), strict=True)
    down = zip(core[:-1].ravel().tolist(), core[1:].ravel().tolist(), strict=True)
    return [*across, *down]


def write_nets(network: Path, path: Path) -> dict[str, Any]:
    """Write an hMETIS file: one net per neuron with synapses, holding the neuron and its targets.

    The weight of a net is the rate of its neuron, or without rates the largest weight of its
    synapses, so that the sum of weight * (parts - 1) is the multicast connectivity.
    """
    lines = []
    with NetworkFile(network) as net:
        for first, indptr, ids, rates in _firing(net):
            for row in np.flatnonzero(np.diff(indptr)).tolist():
                own = first + row
                reached = ids[indptr[row] : indptr[row + 1]].tolist()
                pins = [own, *(pin for pin in reached if pin != own)]
                lines.append(" ".join(map(str, (int(rates[row]), *(pin + 1 for pin in pins)))))
        sizes = net.vertex_sizes().tolist()
    head = f"{len(lines)} {len(sizes)} 11"
    path.write_text("\n".join([head, *lines, *map(str, sizes)]) + "\n")
    return {"nets": len(lines)}


def _firing(net: NetworkFile) -> Iterator[tuple[int, NDArray[np.int64], Ints, NDArray[np.int64]]]:
    """Yield blocks of neurons: first neuron, start of each target list, targets, and rates.

    Without rates, the largest weight of a neuron's synapses replaces its rate.
    """
    known = net.attribute("rate").stored if "rate" in net.meta.attributes else None
    for index in range(net.block_count):
        first, last = net.block_bounds(index)
        indptr, ids, weights = net.read_outgoing(index)
        if known is None:
            rates = np.zeros(last - first, np.int64)
            np.maximum.at(rates, np.repeat(np.arange(last - first), np.diff(indptr)), weights)
        else:
            rates = known[first:last].astype(np.int64)
        yield first, indptr, ids, rates
