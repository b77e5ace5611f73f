"""Scratch of a run: coarse levels and arrays in one LMDB environment, zstd-compressed.

Levels use the same varint records as network files (docs/format.md), so every pass reads them
through the same `Graph` interface. LMDB gives crash safety (a level exists completely or not at
all) and reads by any number of threads without locks.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import zstandard
from numpy.typing import NDArray

from storage.closing import Closing
from storage.codec import decode_block, decode_lists, encode_block
from storage.errors import CorruptError, WriteError
from storage.graph import Block, Csr, Graph
from storage.mapped import drop_pages, mapping_of

MAP_SIZE = 1 << 40  # address space, not disk: the file grows as it is filled
COMMIT_EVERY = 8 << 20  # bytes in one transaction: dirty pages stay few, and are reused
EVICT_EVERY = 64 << 20  # bytes read, after which the pages that they came from are let go
_DTYPES = {"int32": np.int32, "int64": np.int64}


def compress(raw: bytes, level: int = 1) -> bytes:
    """A zstd frame with a checksum; for what is read two or three times at most, level 1 does."""
    return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(raw)


class Scratch(Closing):
    """One LMDB environment with levels, arrays and notes, by name."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        if read_only and not path.is_dir():
            raise CorruptError(f"{path}: no scratch here; run with --keep-scratch")
        try:
            # Passes go through blocks in order: with read-ahead one that the page cache has lost
            # takes 1.8 s instead of 7.2 (187 MB).
            self._env = lmdb.open(str(path), map_size=MAP_SIZE, readonly=read_only, sync=False)
        except (lmdb.Error, OSError) as error:
            raise WriteError(f"{path}: cannot open scratch: {error}") from error
        self._mapping = mapping_of(path / "data.mdb")
        self._read = 0

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except lmdb.MapFullError as error:
            raise WriteError(f"{self.path}: scratch is larger than {MAP_SIZE} bytes") from error
        except lmdb.Error as error:
            raise WriteError(
                f"{self.path}: cannot write scratch: {error}; free some disk space"
            ) from error

    def put(self, name: str, raw: bytes) -> None:
        with self._writing(), self._env.begin(write=True) as transaction:
            transaction.put(name.encode(), compress(raw))

    def get(self, name: str) -> bytes:
        """The bytes kept under `name`; raises `KeyError` if there are none."""
        with self._env.begin(buffers=True) as transaction:
            packed = transaction.get(name.encode())
            if packed is None:
                raise KeyError(name)
            self._read += len(packed)  # by several threads: near enough
            try:
                raw = zstandard.ZstdDecompressor().decompress(packed)
            except zstandard.ZstdError as error:
                raise CorruptError(f"{self.path}: {name}: {error}; run again") from error
        if self._read >= EVICT_EVERY:
            self.evict()
        return raw

    def evict(self) -> None:
        """Let go of mapped pages, which count as memory of the process; reading goes on as before.

        Happens by itself while much is read; the end of a pass is the time to ask for it. The
        pages stay in the page cache. Does nothing where the system does not tell its maps.
        """
        self._read = 0
        if self._mapping is not None:
            drop_pages(*self._mapping)

    def put_json(self, name: str, value: Any) -> None:
        self.put(name, json.dumps(value).encode())

    def get_json(self, name: str) -> Any:
        return json.loads(self.get(name))

    def put_array(self, name: str, array: NDArray[np.integer]) -> None:
        """Keep a one-dimensional int32 or int64 array."""
        if array.dtype.name not in _DTYPES or array.ndim != 1:
            raise ValueError(f"{name}: {array.dtype} of {array.ndim} dimensions cannot be kept")
        dtype = json.dumps(array.dtype.name).encode()
        self._commit(
            [
                (f"{name}/dtype".encode(), compress(dtype)),
                (name.encode(), compress(array.tobytes())),
            ]
        )

    def get_array(self, name: str) -> NDArray[Any]:
        return np.frombuffer(self.get(name), _DTYPES[self.get_json(f"{name}/dtype")]).copy()

    def names(self) -> list[str]:
        with self._env.begin() as transaction:
            return [bytes(key).decode() for key in transaction.cursor().iternext(values=False)]

    def write_graph(
        self, name: str, sizes: NDArray[np.int64], block_size: int, blocks: Iterable[Block]
    ) -> ScratchGraph:
        """Keep an undirected graph given by its blocks in order; returns it opened for reading."""
        connections = 0

        def packed() -> Iterator[tuple[str, bytes]]:
            nonlocal connections
            for block in blocks:
                connections += block.connections
                yield _block_key(name, block.first // block_size), compress(encode_block(block))

        self.put_compressed(packed())
        self.put_array(f"{name}/sizes", sizes)
        about = {"vertices": sizes.size, "connections": connections, "block_size": block_size}
        self.put_json(f"{name}/graph", about)  # last: without it the graph does not exist
        return ScratchGraph(self, name)

    def put_compressed(self, items: Iterable[tuple[str, bytes]]) -> None:
        """Keep many values, by name, that `compress` has made; each is there once all are."""
        pending: list[tuple[bytes, bytes]] = []
        held = 0
        for name, packed in items:
            pending.append((name.encode(), packed))
            held += len(packed)
            if held >= COMMIT_EVERY:
                self._commit(pending)
                self.evict()
                held = 0
        self._commit(pending)
        self.evict()

    def _commit(self, pending: list[tuple[bytes, bytes]]) -> None:
        with self._writing(), self._env.begin(write=True) as transaction:
            for key, value in pending:
                transaction.put(key, value)
        pending.clear()

    def stored_bytes(self) -> int:
        """Bytes in use in the environment."""
        about, info = self._env.stat(), self._env.info()
        return int(about["psize"] * (info["last_pgno"] + 1))

    def close(self) -> None:
        self._mapping = None
        self._env.close()

    def delete(self) -> None:
        """Close, and remove the files."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)


def _block_key(name: str, index: int) -> str:
    return f"{name}/block/{index:08d}"


class ScratchGraph(Graph):
    """A level kept in scratch. Undirected; sizes of connections are not kept."""

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
        """The bytes of a block, its first vertex, its vertices, and its place for messages."""
        first, last = self.block_bounds(index)
        name = _block_key(self._name, index)
        where = f"{self._scratch.path}: {name}"
        try:
            return self._scratch.get(name), first, last - first, where
        except KeyError as error:
            raise CorruptError(f"{where} is missing; run again") from error
