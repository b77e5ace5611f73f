"""One-dimensional arrays of an npz archive, read a piece at a time and all together.

`numpy.load` has whole arrays in memory only, and inflates them one after the other. Here every
array is a stream of its own: the next pieces of all of them are inflated by threads while the
last ones are used, so that a file may be larger than memory.
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

PIECE = 1 << 18  # compressed bytes read at a time
_LOCAL = struct.Struct("<26xHH")
_HEADER = 4096  # bytes in which the description of an array must be over


class DamagedError(ValueError):
    """The archive is cut off, or its bytes are not what they were."""


class Column:
    """A one-dimensional array, read from its start.

    size : number of values
    dtype : of the values
    """

    def __init__(self, descriptor: int, info: zipfile.ZipInfo) -> None:
        self._descriptor, self._info = descriptor, info
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise NotImplementedError(info.compress_type)
        local = os.pread(descriptor, 30, info.header_offset)
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
        """The next `count` values, all of which must be there."""
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
        """Up to `most` bytes; none at the end."""
        if self._inflater is None:
            return self._packed(min(most, self._packed_left))
        while not self._inflater.eof:
            more = b""
            if self._inflater.needs_input:
                more = self._packed(min(PIECE, self._packed_left))
                if not more:
                    break
            part: bytes = self._inflater.decompress(more, most)
            if part:
                return part
        return b""

    def _packed(self, size: int) -> bytes:
        data = os.pread(self._descriptor, size, self._at)
        self._at += len(data)
        self._packed_left -= len(data)
        return data


class ArrayArchive(Closing):
    """An open npz archive. Raises what `zipfile` raises if it isn't one."""

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        with zipfile.ZipFile(path) as archive:
            self._members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
        self._descriptor = os.open(path, os.O_RDONLY)

    def names(self) -> set[str]:
        return set(self._members)

    def column(self, name: str) -> Column:
        """An array from its start; each call gives a stream of its own.

        Raises `NotImplementedError` for what is not a plain list, `DamagedError` and other
        `ValueError`s for damage.
        """
        return Column(self._descriptor, self._members[name])

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_together(columns: Sequence[Column], step: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """Pieces of `step` values of all columns, which have one length; the next are read ahead."""
    with ThreadPoolExecutor(len(columns)) as pool:

        def ask(count: int) -> list[Any]:
            return [pool.submit(column.read, count) for column in columns]

        size = columns[0].size
        ahead = ask(min(step, size))
        for first in range(0, size, step):
            pieces = tuple(future.result() for future in ahead)
            ahead = ask(min(step, max(0, size - first - step)))
            yield pieces
