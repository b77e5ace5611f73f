"""zstd frames, for scratch and cached results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import zstandard

from storage.errors import CorruptError

NO_MEMORY = "Allocation error"
"""Part of the text of zstd's error if it cannot allocate memory, ZSTD_error_memory_allocation."""


def compress(raw: bytes | memoryview, level: int = 1) -> bytes:
    """Return a zstd frame with a checksum; level 1 suits data read at most two or three times.

    Raises `MemoryError`.
    """
    with _memory_errors():
        return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(raw)


def decompress(packed: bytes | memoryview) -> bytes:
    """Return the content of a zstd frame.

    Raises `CorruptError` if it is damaged, `MemoryError`.
    """
    try:
        with _memory_errors():
            found: bytes = zstandard.ZstdDecompressor().decompress(packed)
            return found
    except zstandard.ZstdError as error:
        raise CorruptError(str(error)) from error


@contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except zstandard.ZstdError as error:
        if NO_MEMORY in str(error):
            raise MemoryError(str(error)) from error
        raise
