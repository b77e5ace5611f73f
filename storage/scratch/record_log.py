"""Append-only file of named values, whose state after a crash can be verified.

A file is a heading and consecutive records. A record has checksums of its offset, name and value.
So any damage, whether truncation, pages of zeros, or pages of an earlier file, is detected at the
first record affected. The records before it are the file's state at an earlier moment; the rest is
dropped, and only the names of later records are collected for a message. Nothing is mapped into
memory: reading a truncated file raises an error instead of a signal that ends the process.
Heading, 32 bytes, and head of a record, 24 bytes, little-endian:

====== ======== =============================================
offset bytes
====== ======== =============================================
0      16       ``mapper scratch 2``
16     12       random: records of other files do not match
28     4        CRC-32 of the 28 bytes before
====== ======== =============================================

====== ======== =============================================
offset bytes
====== ======== =============================================
0      4        CRC-32 of random, offset of the record, the rest of the head, and the name
4      4        CRC-32 of the value
8      4        length of the name, which follows the head
12     4        0
16     8        length of the value, which follows the name
====== ======== =============================================
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import CorruptError
from storage.exchange import sync_folder
from storage.system.files import open_descriptor, read_at, sync_data, write_at

MAGIC = b"mapper scratch 2"
_HEADING = struct.Struct("<16s12sI")
_HEAD = struct.Struct("<IIIIQ")
_PLACE = struct.Struct("<Q")
MOST_NAME = 1 << 16  # bytes
CHECKED_BYTES = 1 << 22  # bytes checked at a time


class _Record(NamedTuple):
    """A record. start, length, crc : offset, bytes and CRC-32 of its value"""

    name: str
    start: int
    length: int
    crc: int

    @property
    def end(self) -> int:
        return self.start + self.length


def _possible_heads(data: bytes) -> NDArray[np.int64]:
    """Return the offsets in `data` where a head may be: with a name, and zeros at the right bytes.

    Heads have zeros in the high bytes of both lengths: names are shorter than 64 KiB, values than
    256 TiB.
    """
    count = max(0, len(data) - _HEAD.size + 1)
    zero = np.frombuffer(data, np.uint8) == 0
    possible = ~(zero[8 : 8 + count] & zero[9 : 9 + count])
    for offset in (10, 11, 12, 13, 14, 15, 22, 23):
        possible &= zero[offset : offset + count]
    return np.flatnonzero(possible)


class RecordLog(Closing):
    """Values by name. Any number of threads may read; writers are serialised.

    dropped : bytes at the end that were damaged or incomplete when the file was opened
    lost : names of legible records in these bytes, in their order
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open or create the file; a damaged or incomplete end is truncated.

        With `read_only` values are not checked, and the file is not changed.
        """
        self.path = path
        self.dropped = 0
        self.lost: list[str] = []
        self._unnamed = False
        self._lock = threading.Lock()
        self._places: dict[str, tuple[int, int]] = {}
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        self._descriptor = open_descriptor(path, flags)
        try:
            self._open(read_only)
        except BaseException:
            self.close()
            raise

    def _open(self, read_only: bool) -> None:
        size = os.fstat(self._descriptor).st_size
        self._end = 0
        if self._read_heading():
            self._end = _HEADING.size
            for record in self._records(size):
                if not read_only and self._crc(record.start, record.length) != record.crc:
                    break
                self._places[record.name] = record.start, record.length
                self._end = record.end
        elif read_only:
            raise CorruptError(f"{self.path}: not a scratch file of this version")
        self.dropped = size - self._end
        if read_only:
            return
        if self.dropped:
            if self._end:
                self.lost = list(self._legible(self._end, size))
            os.ftruncate(self._descriptor, self._end)
        self._unnamed = not self._end
        if not self._end:
            self._random = os.urandom(12)
            heading = _HEADING.pack(MAGIC, self._random, 0)[:-4]
            self._write(0, heading + isal_zlib.crc32(heading).to_bytes(4, "little"))
            self._end = _HEADING.size

    def _read_heading(self) -> bool:
        data = self._read(0, _HEADING.size)
        if len(data) < _HEADING.size:
            return False
        magic, self._random, crc = _HEADING.unpack(data)
        return bool(magic == MAGIC and isal_zlib.crc32(data[:-4]) == crc)

    def _records(self, size: int) -> Iterator[_Record]:
        """Yield the records up to the first one with a damaged head."""
        place = _HEADING.size
        while (record := self._record_at(place, size)) is not None:
            yield record
            place = record.end

    def _record_at(self, place: int, size: int) -> _Record | None:
        """Return the record at an offset; None if its head is damaged or not within the file."""
        head = self._read(place, _HEAD.size)
        if len(head) < _HEAD.size:
            return None
        crc, value_crc, name_length, zero, length = _HEAD.unpack(head)
        start = place + _HEAD.size + name_length
        if zero or name_length > MOST_NAME or length > size or start + length > size:
            return None
        name = self._read(place + _HEAD.size, name_length)
        if self._head_crc(place, head[4:], name) != crc:
            return None
        try:
            return _Record(name.decode(), start, length, value_crc)
        except UnicodeDecodeError:
            return None

    def _legible(self, place: int, size: int) -> Iterator[str]:
        """Yield the names of records with undamaged heads, from an offset at any byte."""
        while place < size:
            end = place + CHECKED_BYTES
            for at in _possible_heads(self._read(place, CHECKED_BYTES + _HEAD.size - 1)) + place:
                record = self._record_at(int(at), size) if at >= place else None
                if record is not None:
                    yield record.name
                    place = record.end
            place = max(place, end)

    def _head_crc(self, place: int, rest: bytes, name: bytes) -> int:
        return int(isal_zlib.crc32(self._random + _PLACE.pack(place) + rest + name))

    def _crc(self, start: int, length: int) -> int:
        crc = 0
        for at in range(start, start + length, CHECKED_BYTES):
            crc = isal_zlib.crc32(self._read(at, min(CHECKED_BYTES, start + length - at)), crc)
        return crc

    def _read(self, place: int, size: int) -> bytes:
        """Read `size` bytes, or fewer at the end."""
        return read_at(self._descriptor, size, place)

    def _write(self, place: int, data: bytes) -> None:
        write_at(self._descriptor, data, place)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def names(self) -> list[str]:
        """Return all names, in the order in which they were stored first."""
        return list(self._places)

    def put(self, items: Iterable[tuple[str, bytes]]) -> None:
        """Write values in order; a later value of the same name replaces an earlier one.

        Raises `OSError` if the disk is full; then none of them is stored.
        """
        with self._lock:
            places: dict[str, tuple[int, int]] = {}
            place = self._end
            try:
                for text, value in items:
                    name = text.encode()
                    rest = _HEAD.pack(0, isal_zlib.crc32(value), len(name), 0, len(value))[4:]
                    crc = self._head_crc(place, rest, name)
                    start = place + _HEAD.size + len(name)
                    self._write(place, crc.to_bytes(4, "little") + rest + name)
                    self._write(start, value)
                    place = start + len(value)
                    places[text] = start, len(value)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self._end)
                raise
            self._end = place
            self._places.update(places)

    def get(self, name: str) -> bytes:
        """Return the value of a name; raise `KeyError` if there is none.

        Raises `CorruptError` if the file was truncated. Other damage is not detected here.
        """
        start, length = self._places[name]
        data = self._read(start, length)
        if len(data) < length:
            raise CorruptError(f"{self.path}: {name}: the file was truncated; run again")
        return data

    def sync(self) -> None:
        """Flush written data to disk, at the first call also the names of a new file."""
        sync_data(self._descriptor)
        if self._unnamed:
            self._unnamed = False
            for folder in (self.path.parent, self.path.parent.parent):
                sync_folder(folder)

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self._end

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
