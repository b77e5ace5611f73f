"""Elements of MATLAB files of version 5 to 7 (MATLAB, "MAT-File Format", 1999 to 2023).

A variable is inflated only after the size that it declares was compared with the memory.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from storage.budget import require_room, require_stored
from storage.errors import BadInputError

HEADER, TAG = 128, 8
HEAD = 4096  # bytes of a variable that describe it
MATRIX, COMPRESSED = 14, 15
SPARSE, DOUBLE, LARGEST_CLASS = 5, 6, 15  # classes of arrays; DOUBLE and above are numbers
COMPLEX = 0x08
TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
MOST_VARIABLES = 10_000


class Variable(NamedTuple):
    """A variable of a file.

    at, stored, size : place, bytes in the file, and bytes of its content
    kind, is_complex : class of the array
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    is_complex: bool
    at: int
    stored: int
    size: int
    compressed: bool

    @property
    def is_number(self) -> bool:
        """Return whether it is a matrix of numbers, not a struct, a cell array or text."""
        return (self.kind == SPARSE or DOUBLE <= self.kind <= LARGEST_CLASS) and not self.is_complex


class MatFile:
    """An open file. Raises `BadInputError` if it is damaged."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._size = os.fstat(file.fileno()).st_size
        head = file.read(HEADER)
        if head.startswith(b"MATLAB 7.3"):
            raise BadInputError(
                f"{path}: is a MATLAB 7.3 file (HDF5); save it with save(file, 'A', '-v7')"
            )
        if (
            len(head) < HEADER
            or not head.startswith(b"MATLAB 5")
            or head[126:]
            not in (
                b"IM",
                b"MI",
            )
        ):
            raise BadInputError(
                f"{path}: not a MATLAB file of version 5 to 7; save it with save(file, 'A', '-v7')"
            )
        self._order = "<" if head[126:] == b"IM" else ">"

    def variables(self) -> Iterator[Variable]:
        """Yield all variables; reads only their first bytes."""
        at = HEADER
        for _ in range(MOST_VARIABLES):
            self._file.seek(at)
            tag = self._file.read(TAG)
            if not tag:
                return
            kind, stored = self._tag(tag)
            if at + TAG + stored > self._size:
                self._complain("a variable is cut off")
            if kind in (MATRIX, COMPRESSED):
                yield self._variable(at + TAG, stored, kind == COMPRESSED)
            at += TAG + stored
        self._complain(f"more than {MOST_VARIABLES} variables")

    def _variable(self, at: int, stored: int, compressed: bool) -> Variable:
        data, size = self._file.read(min(stored, HEAD)), stored
        if compressed:
            data = self._inflated(zlib.decompressobj(), data, HEAD)
            kind, size = self._tag(data[:TAG])
            if kind != MATRIX:
                self._complain("a compressed element is not a matrix")
            data = data[TAG:]
        parts = self._parts(data, 3)
        flags, shape, name = (next(parts, None) for _ in range(3))
        if flags is None or shape is None or name is None or flags.size < 2:
            self._complain("a variable has no description")
        bits = int(flags[0])
        letters = bytes(name.astype("u1")).decode("latin-1")
        lengths = tuple(map(int, shape))
        if min(lengths, default=0) < 0:
            self._complain(f"variable {letters[:40]!r} has a negative size")
        complex_ = bool(bits >> 8 & COMPLEX)
        return Variable(letters, lengths, bits & 0xFF, complex_, at, stored, size, compressed)

    def content(self, variable: Variable, memory: int) -> list[NDArray[Any]]:
        """Return the numbers of a variable: rows, starts and values if sparse, else values.

        Raises `MemoryShortError` if they exceed the memory.
        """
        what = f"{self._path}: variable {variable.name[:40]!r}"
        require_stored(what, variable.size, self._size)
        require_room(what, 4 * variable.size, memory)
        self._file.seek(variable.at)
        data = self._file.read(variable.stored)
        if variable.compressed:
            data = self._inflated(zlib.decompressobj(), data, variable.size + TAG)[TAG:]
        if len(data) < variable.size:
            self._complain("a variable is cut off")
        parts = list(self._parts(data, 6))
        wanted = 6 if variable.kind == SPARSE else 4
        if len(parts) < wanted:
            self._complain(f"variable {variable.name[:40]!r} has no values")
        return parts[3:wanted]

    def _inflated(self, inflater: Any, data: bytes, most: int) -> bytes:
        try:
            found: bytes = inflater.decompress(data, most)
        except zlib.error:
            self._complain("the compressed data is damaged")
        return found

    def _tag(self, data: bytes) -> tuple[int, int]:
        if len(data) < TAG:
            self._complain("an element is cut off")
        kind, size = struct.unpack(f"{self._order}2I", data)
        return kind, size

    def _parts(self, data: bytes, most: int) -> Iterator[NDArray[Any]]:
        """Yield the first elements inside a matrix as arrays; stops where data ends."""
        at = 0
        for _ in range(most):
            if len(data) < at + TAG:
                return
            first, size = self._tag(data[at : at + TAG])
            begin, step = at + TAG, TAG + -(-size // 8) * 8
            if first >> 16:  # a short element: size and kind share four bytes
                size, kind, begin, step = first >> 16, first & 0xFFFF, at + 4, TAG
                if size > 4:
                    self._complain("an element is damaged")
            else:
                kind = first
            if begin + size > len(data):
                return
            if kind not in TYPES:
                self._complain(f"type {kind} of an element is unknown")
            dtype = np.dtype(self._order + TYPES[kind])
            count = size // dtype.itemsize
            yield np.frombuffer(data, dtype, count, begin)
            at += step

    def _complain(self, fault: str) -> NoReturn:
        raise BadInputError(f"{self._path}: not a valid MATLAB file: {fault}; save it again")
