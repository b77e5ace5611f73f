"""Network files from objects in memory: arrays of edges, sparse matrices, networkx graphs.

::

    write_edges(Path("net.bin"), [0, 1, 2], [1, 2, 0], neurons=Neurons(rates=[5.0, 1.0, 2.5]))
    write_matrix(Path("net.bin"), scipy.sparse.csr_array(weights))
    write_networkx(Path("net.bin"), networkx.karate_club_graph())

A weight is the traffic of a synapse, in spikes per unit of time. The magnitude of a negative weight
is used, and `weights_negative` of the provenance counts them. Without weights each synapse carries
the rate of its source (an undirected edge the rates of both ends), and without rates 1. Faults are
`BadInputError`s that start with the name of the argument (`edges`, `matrix`, `graph`); then no
output file remains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from storage.errors import BadInputError
from storage.formats.base import DEFAULT_MEMORY, ImportJob
from storage.formats.columnar.scipynpz import CHUNK, Chunk, Matrix, checked
from storage.formats.losses import Magnitudes
from storage.store.meta import NetworkMeta
from storage.store.network import ID, RATE, SIZE
from storage.store.traffic import RATE_WEIGHTS, SYNAPSE_WEIGHTS
from storage.store.writer import NetworkWriter

Int64 = NDArray[np.int64]
Names = Int64 | list[str]


@dataclass(frozen=True, slots=True)
class NeuronProperties:
    """Properties of neurons in addition to their synapses.

    sizes : shape (vertices,), integers, core capacity that each uses; 1 if None
    rates : shape (vertices,), firing rates; None if only the weights describe the traffic
    names : shape (vertices,), integers or a list of text; stored as attribute `id`
    weights : meaning of the weights of their synapses, see `NetworkWriter`
    """

    sizes: ArrayLike | None = None
    rates: ArrayLike | None = None
    names: Names | None = None
    weights: str = RATE_WEIGHTS


UNKNOWN = NeuronProperties()


def write_edges(
    path: Path,
    source: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    vertices: int | None = None,
    *,
    neurons: NeuronProperties = UNKNOWN,
    undirected: bool = False,
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
) -> NetworkMeta:
    """Write the network of edges source[i] -> target[i]; repeated ones are added.

    source, target, weight : shape (edges,); ids from 0
    vertices : number of neurons; the largest id + 1 if None
    undirected : each edge is given once, in either direction
    """
    kind = "edges"
    ends = [_ids(source, "source"), _ids(target, "target")]
    weights = None if weight is None else np.asarray(weight)
    shapes = {array.shape for array in (*ends, *([] if weights is None else [weights]))}
    if len(shapes) != 1:
        given = f"{ends[0].size} sources, {ends[1].size} targets"
        given += "" if weights is None else f", weights of shape {weights.shape}"
        raise BadInputError(f"{kind}: {given}; give one of each per synapse")
    if vertices is None:
        vertices = max((int(array.max()) for array in ends if array.size), default=-1) + 1

    def chunks() -> Iterator[Chunk]:
        for first in range(0, ends[0].size, CHUNK):
            part = slice(first, first + CHUNK)
            some = None
            if weights is not None:
                some = checked(weights[part], Path(kind), "weight", first, signed=True)
            yield ends[0][part], ends[1][part], some

    job = ImportJob(Path(kind), Path(path), memory, threads, weights=neurons.weights)
    return _write(job, vertices, chunks(), neurons, undirected)


def write_matrix(
    path: Path,
    matrix: Any,
    *,
    neurons: NeuronProperties = UNKNOWN,
    undirected: bool = False,
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
) -> NetworkMeta:
    """Write a square matrix: entry [i, j] is the weight of the synapse from i to j.

    matrix : scipy.sparse, of any format, or a dense array, whose zeros are not synapses; shape
        (vertices, vertices). All stored entries of sparse ones are synapses, see `scipynpz`
    undirected : the matrix is symmetric, and [i, j] with [j, i] is one edge
    """
    kind = "matrix"
    if not scipy.sparse.issparse(matrix):
        dense = np.asarray(matrix)
        if dense.ndim != 2 or dense.dtype.kind not in "biuf":
            shape = " x ".join(map(str, dense.shape)) or "a single value"
            raise BadInputError(
                f"{kind}: is {dense.dtype}, {shape}; give a square matrix of numbers"
            )
        matrix = scipy.sparse.coo_array(dense)
    entries = Matrix(Path(kind), matrix)
    if undirected and (matrix != matrix.T).nnz:
        raise BadInputError(f"{kind}: is not symmetric; omit undirected, or add its transpose")

    def chunks() -> Iterator[Chunk]:
        for source, target, weight in entries.chunks():
            if undirected:  # half of the entries, and the diagonal
                upper = source <= target
                source, target = source[upper], target[upper]
                weight = None if weight is None else weight[upper]
            yield source, target, weight

    job = ImportJob(Path(kind), Path(path), memory, threads, weights=neurons.weights)
    return _write(job, entries.neurons, chunks(), neurons, undirected)


def write_networkx(
    path: Path,
    graph: Any,
    weight: str | None = "weight",
    *,
    neurons: NeuronProperties = UNKNOWN,
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
) -> NetworkMeta:
    """Write a networkx graph of any class; an undirected one becomes an undirected network.

    Neurons are in the order of ``graph.nodes``. Nodes other than 0 .. n-1 become the attribute
    `id`: numbers if all are non-negative integers, else the text of each.
    weight : edge attribute used as weight, 1 for edges without it; None: no weights
    """
    kind = "graph"
    nodes = list(graph.nodes)
    index = {node: i for i, node in enumerate(nodes)}

    def chunks() -> Iterator[Chunk]:
        edges = iter(graph.edges() if weight is None else graph.edges(data=weight, default=1))
        first = 0
        while batch := list(islice(edges, CHUNK)):
            columns = list(zip(*batch, strict=True))
            source, target = (
                np.fromiter(map(index.__getitem__, column), np.int64, len(batch))
                for column in columns[:2]
            )
            some = None
            if weight is not None:
                some = checked(np.array(columns[2]), Path(kind), weight, first, signed=True)
                if some.ndim != 1:
                    raise BadInputError(f"{kind}: {weight} of each edge must be one number")
            yield source, target, some
            first += len(batch)

    job = ImportJob(Path(kind), Path(path), memory, threads, weights=neurons.weights)
    about = replace(neurons, names=_names(nodes))
    return _write(job, len(nodes), chunks(), about, not graph.is_directed())


def write_igraph(
    path: Path, graph: Any, weight: str = "weight", *, neurons: NeuronProperties = UNKNOWN,
    memory: int = DEFAULT_MEMORY, threads: int | None = None,
) -> NetworkMeta:  # fmt: skip
    """Write a graph of igraph as `write_networkx` does; its vertices may have the attribute `name`.

    weight : edge attribute used as weight, 1 for all edges of a graph without it
    """
    edges = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
    weights = np.array(graph.es[weight]) if weight in graph.es.attributes() else None
    names = graph.vs["name"] if "name" in graph.vs.attributes() else list(range(graph.vcount()))
    about = replace(neurons, names=_names(list(names)))
    return write_edges(
        path, edges[:, 0], edges[:, 1], weights, graph.vcount(), neurons=about,
        undirected=not graph.is_directed(), memory=memory, threads=threads,
    )  # fmt: skip


def _names(nodes: list[Any]) -> Names | None:
    """Return `NeuronProperties.names` for these nodes; None if they are 0 .. n-1."""
    whole = all(isinstance(n, (int, np.integer)) and 0 <= n < 2**63 for n in nodes)
    if not whole or any(isinstance(n, bool) for n in nodes):
        return [str(node) for node in nodes]
    ids = np.array(nodes, np.int64)
    return None if np.array_equal(ids, np.arange(ids.size)) else ids


def _ids(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        shown = f"{array.dtype} of shape {array.shape}"
        raise BadInputError(f"edges: {name} is {shown}; give a list of whole numbers")
    negative = np.flatnonzero(array < 0) if array.dtype.kind == "i" else array[:0]
    if negative.size:
        at = int(negative[0])
        raise BadInputError(
            f"edges: {name} of entry {at} (from 0): {array[at]} is negative; ids start from 0"
        )
    return checked(array, Path("edges"), name, 0) if array.size else array.astype(np.int64)


def _rates(rates: ArrayLike | None, vertices: int, kind: str) -> NDArray[Any] | None:
    """Return validated rates, shape (vertices,), int64 or float64."""
    if rates is None:
        return None
    array = np.asarray(rates)
    if array.shape != (vertices,):
        raise BadInputError(f"{kind}: {array.size} rates for {vertices} neurons; give one each")
    return checked(array, Path(kind), "rate", 0)


def _set_names(writer: NetworkWriter, names: Names | None) -> None:
    if names is None:
        return
    if len(names) != writer.neurons:
        raise BadInputError(f"{len(names)} names for {writer.neurons} neurons; give one each")
    if isinstance(names, list):
        writer.set_attribute(ID, np.arange(writer.neurons), labels=names)
    else:
        writer.set_attribute(ID, names)


def _write(
    job: ImportJob,
    vertices: int,
    chunks: Iterator[Chunk],
    neurons: NeuronProperties,
    undirected: bool,
) -> NetworkMeta:
    """Write the network; the source of the job names the argument."""
    kind = str(job.source)
    if vertices <= 0:
        raise BadInputError(f"{kind}: no neurons; a network needs at least one")
    rates = _rates(neurons.rates, vertices, kind)
    try:
        magnitudes = Magnitudes(job.keeps_weights)
        with job.writer(vertices, undirected=undirected) as writer:
            for source, target, weight in chunks:
                if job.weights == SYNAPSE_WEIGHTS:  # the writer derives the traffic from the rates
                    writer.add(source, target, weight)
                    continue
                known = max(int(source.max(initial=0)), int(target.max(initial=0))) < vertices
                if weight is None and rates is not None and known:  # else `add` raises
                    weight = rates[source] + rates[target] if undirected else rates[source]
                writer.add(source, target, magnitudes.of(weight))
            if neurons.sizes is not None:
                writer.set_attribute(SIZE, np.asarray(neurons.sizes))
            if rates is not None:
                writer.set_attribute(RATE, rates)
            _set_names(writer, neurons.names)
            return writer.finish({"format": kind, **magnitudes.facts})
    except BadInputError as error:
        if str(error).startswith(f"{kind}:"):
            raise
        raise BadInputError(f"{kind}: {error}") from error


__all__ = ["NeuronProperties", "write_edges", "write_matrix", "write_networkx"]
