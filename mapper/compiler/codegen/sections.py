"""Binary files of a compiled folder: named sections, each with a checksum.

    7 bytes   what it is, and 1 byte, the version
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


class Sort(NamedTuple):
    """A sort of file.

    magic : its first 7 bytes; what : how messages name it, as in "a program"
    tags : of the sections that it has; ending : of its name
    """

    magic: bytes
    version: int
    what: str
    ending: str
    tags: tuple[str, ...]


def pack_sections(sort: Sort, parts: Mapping[str, bytes]) -> bytes:
    """The file of some sections."""
    assert set(parts) == set(sort.tags)
    out = [_HEAD.pack(sort.magic, sort.version, len(parts))]
    for tag, data in parts.items():
        out += [_SECTION.pack(tag.ljust(4).encode(), len(data), crc32(data)), data]
    return b"".join(out)


def unpack_sections(sort: Sort, data: bytes, where: str) -> dict[str, bytes]:
    """The sections in a file's bytes; where : the file, for errors.

    Raises `MapperError` if it is no such file, of another version, cut short or damaged.
    """
    parts = dict(_sections(sort, data, where))
    missing = [tag for tag in sort.tags if tag not in parts]
    if missing:
        raise MapperError(f"{where}: has no section {missing[0]}; compile the model again")
    return parts


def split_files(data: bytes, where: str) -> list[bytes]:
    """The bytes of files that follow each other; raises `MapperError` if one is cut short."""
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
            end = len(data)  # whoever reads the last file says what is behind it
        found.append(data[at:end])
        at = end
    return found


def _sections(sort: Sort, data: bytes, where: str) -> list[tuple[str, bytes]]:
    if len(data) < _HEAD.size:
        raise MapperError(f"{where}: cut short; compile the model again")
    magic, version, count = _HEAD.unpack_from(data)
    if magic != sort.magic:
        raise MapperError(f"{where}: is no {sort.what} ({sort.ending})")
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
        raise MapperError(f"{where}: has {len(data) - at} bytes too many; compile again")
    return found


def _article(what: str) -> str:
    """Its first word, as in "a program"."""
    return f"a {what.split()[0]}"
