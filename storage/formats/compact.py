"""Sparse ids made dense: edges wait in a file until all ids are known."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import BadInputError
from storage.files import write_error, writing
from storage.graph import MAX_VERTICES
from storage.meta import NetworkMeta
from storage.network import ID
from storage.writer import NetworkWriter

MERGE_ABOVE = 1 << 20  # ids that may wait before they are merged into the sorted ones

Weight = NDArray[np.int64] | NDArray[np.float64]


class EdgeSpool(Closing):
    """Takes edges between any ids, then writes the network of their compacted ids.

    New ids follow the increasing order of the original ones, which become the attribute `id`.
    The edges lie in a temporary file beside the destination, the distinct ids in memory.
    """

    def __init__(self, destination: Path, source: Path) -> None:
        self.destination, self.source = destination, source
        folder = destination.absolute().parent
        try:
            # a file without a name: whatever happens to this process, nothing stays behind
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise write_error(folder, error) from error
        self._folder = folder
        self._chunks: list[tuple[int, np.dtype[Any] | None]] = []
        self._ids = np.empty(0, np.int64)
        self._waiting: list[NDArray[np.int64]] = []
        self._waiting_count = 0
        self.edges = 0

    @property
    def ids(self) -> NDArray[np.int64]:
        """The distinct ids so far, increasing."""
        self._merge()
        return self._ids

    def add(
        self, source: NDArray[np.int64], target: NDArray[np.int64], weight: Weight | None
    ) -> None:
        """Add edges; arrays of shape (edges,), ids not negative. A weight not given is 1."""
        if not source.size:
            return
        with writing(self._folder):
            for array in (source, target, weight):
                if array is not None:
                    self._file.write(np.ascontiguousarray(array).data)
        self.edges += source.size
        self._chunks.append((source.size, None if weight is None else weight.dtype))
        fresh = np.union1d(source, target)
        self._waiting.append(fresh)
        self._waiting_count += fresh.size
        if self._waiting_count > max(MERGE_ABOVE, self._ids.size):
            self._merge()

    def _merge(self) -> None:
        self._ids = np.unique(np.concatenate([self._ids, *self._waiting]))
        self._waiting.clear()
        self._waiting_count = 0
        if self._ids.size > MAX_VERTICES:
            raise BadInputError(
                f"{self.source}: more than {MAX_VERTICES} different ids; split the network"
            )

    def write(
        self, provenance: dict[str, Any], memory: int, threads: int | None = None
    ) -> NetworkMeta:
        """Write the network to the destination; raises `BadInputError` if there was no edge."""
        with writing(self._folder):
            self._file.flush()
        if not self.ids.size:
            raise BadInputError(f"{self.source}: no neurons; the file lists no connection")
        with NetworkWriter(
            self.destination,
            self._ids.size,
            memory=memory,
            threads=threads,
            provenance={"source": self.source.name, **provenance},
        ) as writer:
            for source, target, weight in self._spooled():
                writer.add(source, target, weight)
            writer.set_attribute(ID, self._ids)
            return writer.finish()

    def _spooled(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Weight | None]]:
        table = self._table()
        self._file.seek(0)
        for count, kind in self._chunks:
            ends = np.frombuffer(self._file.read(16 * count), np.int64)
            weight = None if kind is None else np.frombuffer(self._file.read(8 * count), kind)
            new = np.searchsorted(self._ids, ends) if table is None else table[ends]
            yield new[:count], new[count:], weight

    def _table(self) -> NDArray[np.int64] | None:
        """New id of every old one, if they are dense enough to be looked up."""
        span = int(self._ids[-1]) + 1
        if span > 4 * self._ids.size + MERGE_ABOVE:
            return None
        table = np.zeros(span, np.int64)
        table[self._ids] = np.arange(self._ids.size)
        return table

    def close(self) -> None:
        self._file.close()
