"""Zip archives (with zip64) written from compressed pieces and read at random by many threads.

Python's `zipfile` compresses inside its own lock and with zlib only. Here members are deflated
beforehand, by any thread, through ISA-L (six times faster to write and 1.8 times to read than
zlib at the same size); the container is PKWARE's APPNOTE 6.3.10, sections 4.3.7 to 4.3.16.
Reading takes the directory from `zipfile` and the bytes by `pread`, so that threads share a file.
"""

from __future__ import annotations

import os
import struct
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from isal import igzip_lib, isal_zlib

from storage.closing import Closing
from storage.errors import CorruptError
from storage.files import PartialFile, read_error, require_file

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR64 = struct.Struct("<4sIQI")
_END = struct.Struct("<4sHHHHIIH")
_MAX32, _MAX16 = 0xFFFFFFFF, 0xFFFF
_DEFLATE = 8
SAMPLE = 1 << 15
WINDOWS = (9, 15)  # bits
_DATE = (1 << 5) | 1  # 1980-01-01: the same network gives the same bytes
_UTF8 = 1 << 11  # flag: the name is UTF-8
_VERSION = 45  # of the specification, the first with zip64


@dataclass(frozen=True, slots=True)
class Packed:
    """A member's deflated bytes, with what its headers need."""

    name: str
    data: bytes
    size: int
    crc: int


def _deflate(raw: bytes | memoryview, window_bits: int) -> bytes:
    # level 2 of ISA-L: 1 misses more, 3 takes half as long again and gains a thousandth
    compressor = isal_zlib.compressobj(2, isal_zlib.DEFLATED, -window_bits)
    packed: bytes = compressor.compress(raw) + compressor.flush()
    return packed


def pack(name: str, raw: bytes) -> Packed:
    """Deflate `raw`. Releases the GIL.

    Records that repeat nothing are 1 % smaller if far matches are not even looked for, and those
    of layers that repeat are several times larger; a sample tells which they are.
    """
    window = max(WINDOWS)
    if len(raw) >= 4 * SAMPLE:
        sample = memoryview(raw)[len(raw) // 2 :][:SAMPLE]
        window = min(WINDOWS, key=lambda bits: len(_deflate(sample, bits)))
    return Packed(name, _deflate(raw, window), len(raw), isal_zlib.crc32(raw))


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else _UTF8


class ArchiveWriter(Closing):
    """Appends packed members to a file that appears under its name only when it is complete."""

    def __init__(self, path: Path, zip64_above: int = _MAX32) -> None:
        """`zip64_above` is lowered by tests, to see zip64 records in small files."""
        self._file = PartialFile(path)
        self._limit = zip64_above
        self._entries: list[tuple[bytes, int, int, int, int]] = []

    def add(self, member: Packed) -> None:
        name = member.name.encode()
        offset, packed, size = self._file.position, len(member.data), member.size
        sizes, extra = (packed, size), b""
        if max(sizes) >= self._limit:
            sizes, extra = (_MAX32, _MAX32), struct.pack("<HHQQ", 1, 16, size, packed)
        header = _LOCAL.pack(
            b"PK\3\4", _VERSION, _flags(name), _DEFLATE, 0, _DATE, member.crc, *sizes,
            len(name), len(extra),
        )  # fmt: skip
        self._file.write(header + name + extra)
        self._file.write(member.data)
        self._entries.append((name, member.crc, packed, size, offset))

    def commit(self) -> int:
        """Write the directory and give the file its name; returns its length in bytes."""
        start = self._file.position
        for entry in self._entries:
            self._file.write(self._directory_entry(*entry))
        end, count = self._file.position, len(self._entries)
        length = end - start
        if count >= _MAX16 or end >= self._limit:
            self._file.write(
                _END64.pack(b"PK\6\6", 44, _VERSION, _VERSION, 0, 0, count, count, length, start)
            )
            self._file.write(_LOCATOR64.pack(b"PK\6\7", 0, end, 1))
            count, length, start = min(count, _MAX16), min(length, _MAX32), _MAX32
        self._file.write(_END.pack(b"PK\5\6", 0, 0, count, count, length, start, 0))
        total = self._file.position
        self._file.commit()
        return total

    def close(self) -> None:
        self._file.close()

    def _directory_entry(self, name: bytes, crc: int, packed: int, size: int, offset: int) -> bytes:
        fields = b""
        sizes = (packed, size)
        if max(sizes) >= self._limit:
            fields += struct.pack("<QQ", size, packed)
            sizes = (_MAX32, _MAX32)
        shown = offset
        if offset >= self._limit:
            fields += struct.pack("<Q", offset)
            shown = _MAX32
        extra = struct.pack("<HH", 1, len(fields)) + fields if fields else b""
        header = _CENTRAL.pack(
            b"PK\1\2", _VERSION, _VERSION, _flags(name), _DEFLATE, 0, _DATE, crc, *sizes,
            len(name), len(extra), 0, 0, 0, 0, shown,
        )  # fmt: skip
        return header + name + extra


class ArchiveReader(Closing):
    """Members of a zip archive by name; every read checks headers, length and CRC-32."""

    def __init__(self, path: Path) -> None:
        self.path = path
        require_file(path)
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = {info.filename: info for info in archive.infolist()}
            self._descriptor = os.open(path, os.O_RDONLY)
            self._length = os.fstat(self._descriptor).st_size
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            reason = f"not a complete zip archive ({error})"
            raise CorruptError(f"{path}: {reason}; make the network again") from error
        except OSError as error:
            raise read_error(path, error) from error

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def names(self) -> list[str]:
        return list(self._members)

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = self._members.get(name)
        if info is None:
            raise CorruptError(f"{self.path}: member {name} is missing; make the network again")
        return info

    def packed_bytes(self, name: str) -> int:
        """The member's bytes as they are in the file; raises `CorruptError` if it is missing."""
        return self._info(name).compress_size

    def require_size(self, name: str, least: int, most: int) -> None:
        """Raise `CorruptError` unless a member is there and has as many bytes as it may."""
        size = self._info(name).file_size
        if not least <= size <= most:
            raise CorruptError(
                f"{self.path}: member {name} has {size} bytes, it can have {least} to {most}; "
                "make the network again"
            )

    def read(self, name: str, most: int | None = None) -> bytes:
        """The member's bytes, inflated and checked. Safe to call from several threads.

        most : bytes that it may have, if that is not known to be right
        """
        info = self._info(name)
        if most is not None:
            self.require_size(name, 0, most)
        where = f"{self.path}: member {name}"
        fields = _LOCAL.unpack(self._piece(info.header_offset, _LOCAL.size, where))
        skip = _LOCAL.size + fields[9] + fields[10]
        named = self._piece(info.header_offset + _LOCAL.size, fields[9], where)
        same = named == info.orig_filename.encode() and fields[6] == info.CRC
        if fields[0] != b"PK\3\4" or fields[3] != info.compress_type or not same:
            raise CorruptError(f"{where}: its header is damaged; make the network again")
        data = self._piece(info.header_offset + skip, info.compress_size, where)
        if info.compress_type == zipfile.ZIP_STORED:
            raw = data
        elif info.compress_type == _DEFLATE:
            raw = self._inflate(data, info.file_size, where)
        else:
            raise CorruptError(f"{where}: compressed by a method other than deflate")
        if len(raw) != info.file_size or isal_zlib.crc32(raw) != info.CRC:
            raise CorruptError(f"{where}: checksum does not match; make the network again")
        return raw

    def stored_bytes(self, prefix: str) -> int:
        """Compressed bytes of the members whose name starts with `prefix`."""
        return sum(
            info.compress_size for name, info in self._members.items() if name.startswith(prefix)
        )

    def _piece(self, start: int, size: int, where: str) -> bytes:
        # a damaged directory may name any place and size: compare with the file's before reading
        if not 0 <= start <= start + size <= self._length:
            raise CorruptError(f"{where}: truncated; make the network again")
        data = os.pread(self._descriptor, size, start)
        while len(data) < size:  # one call reads 2 GiB at most
            more = os.pread(self._descriptor, size - len(data), start + len(data))
            if not more:
                raise CorruptError(f"{where}: truncated; make the network again")
            data += more
        return data

    @staticmethod
    def _inflate(data: bytes, size: int, where: str) -> bytes:
        # never allocate by the directory's size either, only stop behind it
        inflater = isal_zlib.decompressobj(-15)
        try:
            raw = inflater.decompress(data, min(size, sys.maxsize - 1) + 1)
        except igzip_lib.IsalError as error:  # type: ignore[misc]  # its stub lacks the base class
            raise CorruptError(f"{where}: damaged ({error}); make the network again") from error
        if not inflater.eof:
            raise CorruptError(f"{where}: damaged; make the network again")
        return raw

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
