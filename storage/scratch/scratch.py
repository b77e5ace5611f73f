"""Scratch of a run: coarsening levels and arrays in one file of records, zstd-compressed.

Levels use the same varint records as network files (docs/format.md), so all passes read them
through the same `Graph` interface. Records damaged by a crash are dropped, with all later ones
(`storage.scratch.record_log`): the scratch then has its state of an earlier moment.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.closing import Closing
from storage.compression import compress, decompress
from storage.errors import CorruptError, WriteError
from storage.graph import Block, Csr, Graph
from storage.scratch.record_log import RecordLog
from storage.store.codec import decode_block, decode_lists, encode_block

FILE = "records"
TYPE = "/dtype"  # suffix of the name of an array's type
WRITE_EVERY = 8 << 20  # bytes written at a time
_DTYPES = {"int32": np.int32, "int64": np.int64}


class Scratch(Closing):
    """A folder with levels, arrays and notes, by name.

    dropped : bytes of an earlier run that were damaged or incomplete and are ignored
    lost : names of legible values in these bytes, in their order
    """

    def __init__(self, path: Path, *, read_only: bool = False, lasting: bool = True) -> None:
        """`lasting` is False if the folder will not be opened again: it is never synced."""
        self.path = path
        self._lasting = lasting
        if read_only and not (path / FILE).is_file():
            other = "it has another version" if path.is_dir() else "no scratch here"
            raise CorruptError(f"{path}: {other}; run with --keep-scratch")
        try:
            if not read_only:
                _clear(path)
            self._log = RecordLog(path / FILE, read_only=read_only)
        except CorruptError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise WriteError(f"{path}: cannot open scratch: {reason}") from error
        self.dropped, self.lost = self._log.dropped, self._log.lost

    def put(self, name: str, raw: bytes) -> None:
        self._write([(name, compress(raw))])

    def get(self, name: str) -> bytes:
        """Return the bytes stored under `name`; raise `KeyError` if there are none."""
        packed = self._log.get(name)
        try:
            return decompress(packed)
        except CorruptError as error:
            raise CorruptError(f"{self.path}: {name}: {error}; run again") from error

    def put_json(self, name: str, value: Any) -> None:
        self.put(name, json.dumps(value).encode())

    def get_json(self, name: str) -> Any:
        return json.loads(self.get(name))

    def put_array(self, name: str, array: NDArray[np.integer]) -> None:
        """Store a one-dimensional int32 or int64 array."""
        if array.dtype.name not in _DTYPES or array.ndim != 1:
            raise ValueError(f"{name}: {array.dtype} of {array.ndim} dimensions cannot be stored")
        dtype = json.dumps(array.dtype.name).encode()
        self._write(
            [
                (f"{name}{TYPE}", compress(dtype)),
                (name, compress(np.ascontiguousarray(array).data)),
            ]
        )

    def get_array(self, name: str) -> NDArray[Any]:
        return np.frombuffer(self.get(name), _DTYPES[self.get_json(f"{name}{TYPE}")]).copy()

    def __contains__(self, name: str) -> bool:
        return name in self._log

    def names(self) -> list[str]:
        """Return all names, in the order in which they were stored first."""
        return self._log.names()

    def write_graph(
        self, name: str, sizes: NDArray[np.int64], block_size: int, blocks: Iterable[Block]
    ) -> ScratchGraph:
        """Store an undirected graph given by its blocks in order; return it opened."""
        connections = 0

        def packed() -> Iterator[tuple[str, bytes]]:
            nonlocal connections
            for block in blocks:
                connections += block.connections
                yield _block_key(name, block.first // block_size), compress(encode_block(block))

        self.put_compressed(packed())
        self.put_array(f"{name}/sizes", sizes)
        about = {"vertices": sizes.size, "connections": connections, "block_size": block_size}
        self.put_json(f"{name}/graph", about)  # written last: marks the graph as complete
        return ScratchGraph(self, name)

    def put_compressed(self, items: Iterable[tuple[str, bytes]]) -> None:
        """Store many named values, compressed by `compress`."""
        pending: list[tuple[str, bytes]] = []
        held = 0
        for name, packed in items:
            pending.append((name, packed))
            held += len(packed)
            if held >= WRITE_EVERY:
                self._write(pending)
                pending.clear()
                held = 0
        self._write(pending)

    def _write(self, items: list[tuple[str, bytes]]) -> None:
        with self._writing():
            self._log.put(items)

    def sync(self) -> None:
        """Flush stored data to disk, so that it survives a crash of the machine."""
        if self._lasting:
            with self._writing():
                self._log.sync()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn system errors into `WriteError`."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise WriteError(
                f"{self.path}: cannot write scratch: {reason}; free some disk space"
            ) from error

    def stored_bytes(self) -> int:
        """Return the bytes on disk."""
        return self._log.size

    def close(self) -> None:
        self._log.close()


def _clear(folder: Path) -> None:
    """Create the folder, or remove everything in it except the records."""
    folder.mkdir(exist_ok=True)
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != FILE:
            with contextlib.suppress(OSError):
                entry.unlink()


def _block_key(name: str, index: int) -> str:
    return f"{name}/block/{index:08d}"


class ScratchGraph(Graph):
    """A coarsening level in scratch. Undirected; sizes of connections are not stored."""

    undirected = True

    def __init__(self, scratch: Scratch, name: str) -> None:
        about = scratch.get_json(f"{name}/graph")
        self.vertices = int(about["vertices"])
        self.connections = int(about["connections"])
        self.block_size = int(about["block_size"])
        self._scratch = scratch
        self._name = name

    def vertex_sizes(self) -> NDArray[np.int64]:
        return self._scratch.get_array(f"{self._name}/sizes")

    def read_block(self, index: int) -> Block:
        raw, first, count, where = self._raw(index)
        return decode_block(raw, first, count, self.vertices, where=where)

    def read_undirected(self, index: int) -> Csr:
        raw, first, count, where = self._raw(index)
        return decode_lists(raw, first, count, self.vertices, outgoing=False, where=where)

    def _raw(self, index: int) -> tuple[bytes, int, int, str]:
        """Return the bytes of a block, first vertex, vertex count, and its place for messages."""
        first, last = self.block_bounds(index)
        name = _block_key(self._name, index)
        where = f"{self._scratch.path}: {name}"
        try:
            return self._scratch.get(name), first, last - first, where
        except KeyError as error:
            raise CorruptError(f"{where} is missing; run again") from error
