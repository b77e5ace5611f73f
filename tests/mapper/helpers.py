"""Random graphs for the tests of `mapper`, as arrays for kernels and as lists for references."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.graph.csr import Csr, Subgraph
from mapper.graph.rows import HeldRows, Rows
from storage.store.memory import MemoryGraph
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter

Links = list[list[tuple[int, int]]]

PROGRAM = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored
import mapper.kernels.warmup
nothing = mapper.kernels.warmup.Compiled(0, [], 0, 0.0)
mapper.kernels.warmup.compile_kernels = lambda *arguments, **named: nothing
from mapper.cli.main import main
sys.exit(main())
"""
"""Runs `mapper` in a separate process, which compiles only the kernels that it uses."""


def random_graph(
    rng: np.random.Generator,
    n: int,
    *,
    largest: int = 5,
    sizes: int = 1,
    mean_degree: float = 4.0,
    block_size: int | None = None,
) -> MemoryGraph:
    """Return a graph of n vertices; weights 0 .. largest, so that ties and zero weights occur."""
    m = int(mean_degree * n / 2)
    source, target = rng.integers(0, n, (2, m))
    return MemoryGraph.from_edges(
        n,
        source,
        target,
        rng.integers(0, largest + 1, m),
        sizes=rng.integers(1, sizes + 1, n),
        undirected=True,
        block_size=block_size,
    )


def subgraph(graph: MemoryGraph) -> Subgraph:
    return Subgraph(
        *graph.read_all().undirected(),
        graph.vertex_sizes(),
        np.arange(graph.vertices, dtype=np.int64),
    )


def adjacency(indptr: NDArray[Any], ids: NDArray[Any], weights: NDArray[Any]) -> Links:
    """Convert arrays of kernels to the lists of the reference implementations."""
    return [
        list(zip(ids[a:b].tolist(), weights[a:b].tolist(), strict=True))
        for a, b in pairwise(indptr.tolist())
    ]


def lists_of(graph: MemoryGraph) -> Links:
    return adjacency(*graph.read_all().undirected())


def random_parts(
    rng: np.random.Generator, graph: MemoryGraph, parts: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return a random part of every vertex, and the load of every part."""
    part = rng.integers(0, parts, graph.vertices).astype(np.int32)
    load = np.zeros(parts, np.int64)
    np.add.at(load, part, graph.vertex_sizes())
    return part, load


def write_network(
    path: Path,
    edges: list[tuple[int, int]] | NDArray[np.integer],
    neurons: int,
    weights: list[int] | NDArray[Any] | None = None,
    *,
    sizes: list[int] | None = None,
    **options: Any,
) -> Path:
    """Write a network file of a few edges."""
    pairs = np.asarray(edges, np.int64).reshape(-1, 2)
    with NetworkWriter(path, neurons, **options) as writer:
        given = None if weights is None else np.asarray(weights)
        writer.add(pairs[:, 0], pairs[:, 1], given)
        if sizes is not None:
            writer.set_attribute("size", np.asarray(sizes))
        writer.finish()
    return path


@contextmanager
def members_of(path: Path) -> Iterator[dict[str, bytes]]:
    """Yield the members of an archive; the archive is written again with the changed members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    yield members
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)


def random_network(path: Path, neurons: int, synapses: int, seed: int = 0, **options: Any) -> Path:
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, neurons, (synapses, 2))
    return write_network(path, edges, neurons, rng.integers(1, 6, synapses), **options)


def rows_of(graph: MemoryGraph) -> HeldRows:
    """Return the rows of a graph, as the deep multilevel method reads them."""
    indptr, ids, weights = graph.read_all().undirected()
    return HeldRows(indptr, ids, weights.astype(np.int32), graph.vertex_sizes())


def heavy_clusters() -> tuple[MemoryGraph, NDArray[np.int32]]:
    """Return two clusters of eight with heavy connections between them, and one light connection.

    The sum of the weights of a cluster is too large for 32 bits.
    """
    heavy = [(i, 8 + j) for i in range(8) for j in range(8)]
    source, target = np.array([*heavy, (0, 16)]).T
    weight = np.r_[np.full(64, 2**27), 5]
    cluster = np.repeat(np.arange(3), (8, 8, 1)).astype(np.int32)
    return MemoryGraph.from_edges(17, source, target, weight, undirected=True), cluster


def random_clusters(rng: np.random.Generator, n: int, count: int) -> NDArray[np.int32]:
    """Return a cluster of every vertex; no cluster is empty."""
    rest = rng.integers(0, count, n - count)
    return rng.permutation(np.r_[np.arange(count), rest]).astype(np.int32)


def heavy_graph(rng: np.random.Generator, n: int, *, sizes: int = 1) -> MemoryGraph:
    """Return a ring and random edges with weights so large that equal sums are unlikely."""
    ring = np.arange(n)
    source, target = rng.integers(0, n, (2, 2 * n))
    return MemoryGraph.from_edges(
        n,
        np.r_[source, ring],
        np.r_[target, (ring + 1) % n],
        rng.integers(1, 10**6, 3 * n),
        sizes=rng.integers(1, sizes + 1, n),
        undirected=True,
    )


def grid_graph(width: int, height: int, block_size: int | None = None) -> MemoryGraph:
    """Return a grid whose vertices are connected to their right and lower neighbours, weights 1."""
    v = np.arange(width * height)
    right, below = v[v % width < width - 1], v[: width * (height - 1)]
    return MemoryGraph.from_edges(
        v.size,
        np.r_[right, below],
        np.r_[right + 1, below + width],
        undirected=True,
        block_size=block_size,
    )


def links_of(rows: Rows) -> Links:
    """Return all rows as lists of neighbours."""
    lists: Links = []
    for index in range(rows.chunks):
        chunk = rows.read(index)
        assert chunk.first == len(lists)
        lists += adjacency(chunk.indptr, chunk.ids, chunk.weights)
    return lists


def synapses_of(path: Path) -> dict[tuple[int, int], float]:
    """Return (source, target) -> weight in real units."""
    with NetworkFile(path) as network:
        found = {}
        for index in range(network.block_count):
            indptr, ids, weights = network.read_outgoing(index)
            first = network.block_bounds(index)[0]
            source = np.repeat(np.arange(indptr.size - 1) + first, np.diff(indptr))
            rows = zip(source.tolist(), ids.tolist(), weights.tolist(), strict=True)
            found.update({(s, t): w * network.meta.weight_unit for s, t, w in rows})
        return found


def state_of(seed: int) -> np.ndarray:
    """Return a state of the kernels' random numbers."""
    return np.array([seed * 2 + 1], np.uint64)


def csr(rows: HeldRows, bias: np.ndarray | None = None) -> Csr:
    """Return the graph in the form of the kernels."""
    bias = np.zeros(rows.vertices, np.int64) if bias is None else bias
    return Csr(rows.indptr, rows.ids, rows.weights, rows.sizes, bias)
