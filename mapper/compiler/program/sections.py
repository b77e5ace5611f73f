"""Binary files of a compiled folder: named sections with checksums.

    7 bytes   magic, and 1 byte, the version
    4 bytes   number of sections
    then for each section: tag of 4 letters, length and CRC-32 of its bytes (4 bytes each), bytes

Numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from mapper.errors import MapperError

_HEAD, _SECTION = struct.Struct("<7sBI"), struct.Struct("<4sII")


class FileType(NamedTuple):
    """A file type.

    magic : its first 7 bytes; what : its name in messages, without article
    tags : required sections; ending : file name extension
    """

    magic: bytes
    version: int
    what: str
    ending: str
    tags: tuple[str, ...]


def pack_sections(sort: FileType, parts: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a file with these sections."""
    assert set(parts) == set(sort.tags)
    out = [_HEAD.pack(sort.magic, sort.version, len(parts))]
    for tag, data in parts.items():
        out += [_SECTION.pack(tag.ljust(4).encode(), len(data), crc32(data)), data]
    return b"".join(out)


def unpack_sections(sort: FileType, data: bytes, where: str) -> dict[str, bytes]:
    """Read the sections from a file's bytes; where : file name for errors.

    Raises `MapperError` if the file is of another type or version, cut short or damaged.
    """
    parts = dict(_sections(sort, data, where))
    missing = [tag for tag in sort.tags if tag not in parts]
    if missing:
        raise MapperError(f"{where}: section {missing[0]} is missing; compile the model again")
    return parts


def split_files(data: bytes, where: str) -> list[bytes]:
    """Split concatenated files; raises `MapperError` if one is cut short."""
    found: list[bytes] = []
    at, magic = 0, data[: len(_HEAD.unpack(bytes(_HEAD.size))[0])]
    while at < len(data) or not found:
        end = at + _HEAD.size
        if end <= len(data):
            for _ in range(_HEAD.unpack_from(data, at)[2]):
                if end + _SECTION.size > len(data):
                    break
                end += _SECTION.size + _SECTION.unpack_from(data, end)[1]
        if end > len(data):
            raise MapperError(f"{where}: cut short; compile the model again")
        if data[end : end + len(magic)] != magic:
            end = len(data)  # the reader of the last file reports excess bytes
        found.append(data[at:end])
        at = end
    return found


def _sections(sort: FileType, data: bytes, where: str) -> list[tuple[str, bytes]]:
    if len(data) < _HEAD.size:
        raise MapperError(f"{where}: cut short; compile the model again")
    magic, version, count = _HEAD.unpack_from(data)
    if magic != sort.magic:
        raise MapperError(f"{where}: not a {sort.what} ({sort.ending})")
    if version != sort.version:
        raise MapperError(
            f"{where}: {_article(sort.what)} of version {version}, this mapper reads "
            f"{sort.version}; compile again"
        )
    found, at = [], _HEAD.size
    for _ in range(count):
        if at + _SECTION.size > len(data):
            raise MapperError(f"{where}: cut short; compile the model again")
        tag, length, check = _SECTION.unpack_from(data, at)
        at += _SECTION.size
        part = data[at : at + length]
        if len(part) != length:
            raise MapperError(f"{where}: cut short; compile the model again")
        name = tag.decode("ascii", "replace").strip()
        if crc32(part) != check:
            raise MapperError(f"{where}: section {name} is damaged (checksum); compile again")
        found.append((name, part))
        at += length
    if at != len(data):
        raise MapperError(f"{where}: {len(data) - at} excess bytes; compile again")
    return found


def _article(what: str) -> str:
    """Return the first word of a name with its article, e.g. "a program"."""
    return f"a {what.split()[0]}"
