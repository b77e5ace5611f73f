"""Rows of a stored network on workers: read from the store once, then from scratch."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mapper.errors import UsageError
from mapper.executors.shard import Shard
from mapper.executors.shared import require_seen
from mapper.executors.worker_interface import Workers
from mapper.graph.csr import Chunk
from mapper.graph.rows import COPY, Rows, StreamedRows
from mapper.graph.sparsification import ThinnedGraph
from mapper.monitoring.monitor import Monitor
from storage.arrays import Int32
from storage.blobs.access import StoreAccess, current_access, store_access
from storage.graph import Graph
from storage.scratch.packed import Lists, RowCache
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile

HERE = "rows-here"  # name in scratch of rows that the driver has read


class NetworkRows(NamedTuple):
    """Source of rows: the path of a network, and its sampling.

    identity : of the file, see `NetworkFile`
    access : of the driver, if the path is an address
    shift : of the weights, see `mapper.graph.rows.weight_shift`
    threshold, connections : of the sample, see `ThinnedGraph`; 1 for all connections
    """

    path: Path
    identity: tuple[int, int]
    access: StoreAccess
    shift: int
    threshold: int
    connections: int

    @property
    def exchanged(self) -> bool:
        return True

    def open(self, scratch: Scratch) -> CachedRows:
        """Return the rows; called by a worker.

        Raises `UsageError` if the worker does not see the file or sees a different one,
        `StorageError` if it is damaged.
        """
        graph: Graph = open_same(self.path, self.identity, self.access)
        if self.threshold > 1:
            graph = ThinnedGraph(graph, self.threshold, self.connections)
        return CachedRows(graph, self.shift, scratch)


def open_same(path: Path, identity: tuple[int, int], access: StoreAccess) -> NetworkFile:
    """Open the network that the driver has opened; identity : of the file.

    access : of the driver to objects

    Raises `UsageError` if this process, a worker, does not see it or sees a different file.
    """
    require_seen(path)
    with store_access(access):
        network = NetworkFile(path)
    if network.identity != identity:
        network.close()
        raise UsageError(
            f"{path}: differs on {socket.gethostname()}; use a path where all workers see the "
            "same file"
        )
    return network


class CachedRows(Rows):
    """Rows that are copied to scratch on first read.

    Their sizes are in the state of the executor.
    """

    def __init__(self, graph: Graph, shift: int, scratch: Scratch) -> None:
        self._sizes = np.broadcast_to(np.int64(0), (graph.vertices,))  # uses no memory
        self._streamed = StreamedRows(graph, self._sizes, shift)
        self.entries, self.block_size = graph.connections, graph.block_size
        self._cache = RowCache(scratch, COPY, self._lists)

    def _lists(self, index: int) -> Lists:
        chunk = self._streamed.read(index)
        return chunk.indptr, chunk.ids, chunk.weights

    def read(self, index: int) -> Chunk:
        return Chunk(index * self.block_size, *self._cache.read(index))


class WorkedRows(StreamedRows):
    """Rows that workers read.

    If the driver reads them as well, to exchange vertices between cores, it copies them to its own
    scratch for repeated reading.
    """

    def __init__(
        self, graph: Graph, shift: int, workers: Workers, scratch: Scratch, monitor: Monitor
    ) -> None:
        """Let workers copy the rows.

        shift : see `mapper.graph.rows.weight_shift`; scratch : of the driver
        """
        super().__init__(graph, graph.vertex_sizes(), shift)
        self._here = RowCache(scratch, HERE, self._lists)
        network, threshold = graph, 1
        if isinstance(graph, ThinnedGraph):
            network, threshold = graph.whole, graph.threshold
        assert isinstance(network, NetworkFile), "workers can only read network files"
        path = network.path.absolute()
        source = NetworkRows(
            path, network.identity, current_access(), shift, threshold, graph.connections
        )
        self.executor = workers.executor(source, self.chunks, self.entries, monitor)
        self._degrees = np.empty(self.vertices, np.int32)
        every = range(self.chunks)
        self._heaviest = 0
        for first, degrees, most in self.executor.each(degrees_of, every, advance=monitor.advance):
            self._degrees[first : first + degrees.size] = degrees
            self._heaviest = max(self._heaviest, most)
        # a pair with connections in both directions is one entry
        self.entries = int(self._degrees.sum(dtype=np.int64))

    def _lists(self, index: int) -> Lists:
        chunk = super().read(index)
        return chunk.indptr, chunk.ids, chunk.weights

    def degrees(self) -> Int32:
        return self._degrees

    def read(self, index: int) -> Chunk:
        return Chunk(index * self.block_size, *self._here.read(index))


def degrees_of(_: Shard, chunk: Chunk) -> tuple[int, Int32, int]:
    """Return the first vertex of a chunk, the length of each row, and the largest weight."""
    return chunk.first, np.diff(chunk.indptr).astype(np.int32), int(chunk.weights.max(initial=0))
