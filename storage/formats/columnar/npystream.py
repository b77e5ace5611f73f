"""One-dimensional arrays of an npz archive, streamed in parallel.

`numpy.load` holds whole arrays in memory and decompresses them one at a time. Here each array is a
separate stream: threads decompress the next pieces of all arrays while the current ones are used,
so a file may be larger than memory.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from isal import igzip_lib, isal_zlib
from numpy.typing import NDArray

from storage.closing import Closing
from storage.system.files import open_descriptor, read_at

READ_BYTES = 1 << 18  # compressed bytes read at a time
_LOCAL = struct.Struct("<26xHH")
_HEADER = 4096  # most bytes of an array's header


class DamagedError(ValueError):
    """The archive is truncated or altered."""


class Column:
    """A one-dimensional array, read from its start.

    size : number of values
    dtype : type of the values
    """

    def __init__(self, descriptor: int, info: zipfile.ZipInfo) -> None:
        self._descriptor, self._info = descriptor, info
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise NotImplementedError(info.compress_type)
        local = read_at(descriptor, 30, info.header_offset)
        if len(local) < 30 or local[:4] != b"PK\3\4":
            raise DamagedError("a header is damaged")
        self._at = info.header_offset + 30 + sum(_LOCAL.unpack(local))
        self._packed_left = info.compress_size
        self._left = info.file_size
        self._crc = 0
        self._inflater: Any = None
        if info.compress_type == zipfile.ZIP_DEFLATED:
            self._inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
        self._spare = b""
        head = io.BytesIO(self._bytes(min(_HEADER, self._left)))
        version = np.lib.format.read_magic(head)
        read: Any = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, self.dtype = read(head)
        if len(shape) != 1 or self.dtype.hasobject:
            raise NotImplementedError("not a list of numbers")
        self.size = int(shape[0])
        self._spare = head.read()
        if len(self._spare) + self._left != self.size * self.dtype.itemsize:
            raise DamagedError("an array is cut off")

    def read(self, count: int) -> NDArray[Any]:
        """Return the next `count` values; raise `DamagedError` if fewer remain."""
        wanted = count * self.dtype.itemsize
        data, self._spare = self._spare[:wanted], self._spare[wanted:]
        if len(data) < wanted:
            data += self._bytes(wanted - len(data))
        return np.frombuffer(data, self.dtype)

    def _bytes(self, wanted: int) -> bytes:
        parts = []
        while wanted:
            part = self._part(wanted)
            if not part:
                raise DamagedError("an array is cut off")
            self._crc = isal_zlib.crc32(part, self._crc)
            self._left -= len(part)
            wanted -= len(part)
            parts.append(part)
        if not self._left and self._crc != self._info.CRC:
            raise DamagedError("a checksum does not match")
        return b"".join(parts)

    def _part(self, most: int) -> bytes:
        """Return up to `most` bytes, none at the end."""
        if self._inflater is None:
            return self._packed(min(most, self._packed_left))
        while not self._inflater.eof:
            more, hungry = b"", self._inflater.needs_input
            if hungry:
                more = self._packed(min(READ_BYTES, self._packed_left))
            # isal before 1.9 asks for input while it still holds output
            part: bytes = self._inflater.decompress(more, most)
            if part:
                return part
            if hungry and not more:
                break
        return b""

    def _packed(self, size: int) -> bytes:
        data = read_at(self._descriptor, size, self._at)
        self._at += len(data)
        self._packed_left -= len(data)
        return data


class ArrayArchive(Closing):
    """An open npz archive. Raises the errors of `zipfile` if the file is not an archive."""

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        with zipfile.ZipFile(path) as archive:
            self._members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
        self._descriptor = open_descriptor(path, os.O_RDONLY)

    def names(self) -> set[str]:
        return set(self._members)

    def column(self, name: str) -> Column:
        """Return an array as a new stream from its start.

        Raises `NotImplementedError` if it is not a plain one-dimensional array, `DamagedError` and
        other `ValueError`s for damage.
        """
        return Column(self._descriptor, self._members[name])

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_together(columns: Sequence[Column], step: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield pieces of `step` values of columns of equal length, and prefetch the next ones."""
    with ThreadPoolExecutor(len(columns)) as pool:

        def ask(count: int) -> list[Any]:
            return [pool.submit(column.read, count) for column in columns]

        size = columns[0].size
        ahead = ask(min(step, size))
        for first in range(0, size, step):
            pieces = tuple(future.result() for future in ahead)
            ahead = ask(min(step, max(0, size - first - step)))
            yield pieces
