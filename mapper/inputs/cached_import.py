"""Imports in the cache: the network files that were made of large files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mapper.cache.cache import NO_SLOT, Slot
from mapper.inputs.source import Effort, Source
from storage.files import PartialFile, open_input, read_error
from storage.store.meta import NetworkMeta
from storage.store.network import NetworkFile

KIND = "imports"
LEAST_BYTES = 4 << 20
"""Size of a file from which its import is kept; smaller ones are read as fast as the cache."""
LARGEST_BYTES = 4 << 30
"""Size of a file up to which its import is kept: its digest takes a few seconds, even if its first
line is refused."""
HEAD_BYTES, READ_BYTES = 1 << 12, 1 << 24
"""Bytes that are read first, and then at once."""
SHARE = 1 / 8
"""Largest network file that is kept or taken, as a part of the memory for the import."""
WHOLE = {
    "matrixmarket", "parquet", "npz", "npy", "matlab", "graphml", "gexf", "gml", "pajek",
    "nodelink", "parhip", "metis", "hmetis", "adjlist", "mladj", "matrix", "edgelist",
}  # fmt: skip
"""Formats whose files do not refer to others."""


def cached_import(
    source: Source, destination: Path, effort: Effort, format: str, extra: dict[str, Any],
    write: Callable[[], NetworkMeta],
) -> NetworkMeta:  # fmt: skip
    """Write the network file of an import from the cache, or import and keep it.

    format : of the file; extra : options of single formats; write : imports the file
    """
    slot, before = _slot(source, effort, format, extra)
    found = slot.get(SHARE * effort.memory)
    if found is None:
        meta = write()
        small = slot.is_on and destination.stat().st_size <= SHARE * effort.memory
        if small and _state(source.network) == before:
            slot.put(destination.read_bytes())
        return meta
    with PartialFile(destination) as file:
        file.write(found)
        file.commit()
    with NetworkFile(destination) as network:
        return network.meta


def _state(path: Path) -> tuple[int, ...]:
    """Return values that change with the content of a file."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _slot(
    source: Source, effort: Effort, format: str, extra: dict[str, Any]
) -> tuple[Slot, tuple[int, ...]]:
    """Return the place of an import in the cache, and the state of the file at that time."""
    path = source.network
    if not effort.cache.is_on or format not in WHOLE or extra.get("nodes") is not None:
        return NO_SLOT, ()
    with open_input(path) as file:
        try:
            before = _state(path)
            if not LEAST_BYTES <= file.seek(0, 2) <= LARGEST_BYTES:
                return NO_SLOT, ()
            file.seek(0)
            head = file.read(HEAD_BYTES)
            if not any(head):  # no format: it is refused without reading all of it
                return NO_SLOT, ()
            found = hashlib.blake2b(head, digest_size=32)
            while piece := file.read(READ_BYTES):
                found.update(piece)
        except OSError as error:
            raise read_error(path, error) from error
    given = {name: value for name, value in sorted(extra.items()) if value is not None}
    how = format, path.name, source.word, source.weights_are, given
    return effort.cache.slot(KIND, found.digest(), *how), before
