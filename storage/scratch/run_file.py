"""Run files: lists of numbers on their way from one process to others, through a folder all see.

A run file has what one sender has for all receivers: a head, a table of sections, one for each
receiver, and the sections. A receiver reads the head, the table, and its own section alone::

    head     magic, tag of the exchange, number of the batch, number of the sender, sections, CRC
    table    of each section: offset, bytes, CRC
    section  frames, one behind the other: bytes of each (uint32), and a zstd frame of packed lists

A file is complete when it has its name. Whatever else is found under this name (half a file, one
of another exchange, a damaged one) counts as not there: what it should hold can be made again.
"""

from __future__ import annotations

import os
import socket
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from storage.scratch.packed import FAST, Lists, pack_lists, unpack_lists
from storage.scratch.scratch import compress

MAGIC = b"MAPRUN\x01\n"
HEAD = struct.Struct("<8s32sIIII")  # the last is the CRC of all before it and of the table
LENGTH = struct.Struct("<I")
TABLE = np.dtype([("offset", "<u8"), ("bytes", "<u8"), ("crc", "<u4")])

_partial = count()


class RunName(NamedTuple):
    """What a run file is of.

    tag : of the exchange, 32 letters at most; tells its files from those of an earlier attempt
    batch, sender : numbers
    """

    folder: Path
    tag: str
    batch: int
    sender: int

    @property
    def path(self) -> Path:
        return self.folder / f"batch-{self.batch}-{self.sender:05d}.run"

    def head(self, table: NDArray[np.void]) -> bytes:
        """The head of a file with such a table."""
        fields = (MAGIC, self.tag.encode(), self.batch, self.sender, table.size)
        unchecked = HEAD.pack(*fields, 0)
        return HEAD.pack(*fields, zlib.crc32(table.tobytes(), zlib.crc32(unchecked)))


class UnusableError(Exception):
    """There is no such run file, or another, or a damaged one."""


def pack_frame(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], weights: NDArray[np.int32]
) -> bytes:
    """Some lists; ids increasing in each, weights not negative."""
    return compress(pack_lists(indptr, ids, weights), FAST)


def write_run(name: RunName, sections: Sequence[Sequence[bytes]]) -> int:
    """Write a run file, in place of what has its name; returns how many bytes it has.

    sections : of each the frames, see `pack_frame`

    The bytes follow from the sections and the name. Several may write the same at once. Raises
    `OSError`, and leaves nothing behind then.
    """
    table = np.zeros(len(sections), TABLE)
    at = HEAD.size + table.nbytes
    for row, section in zip(table, sections, strict=True):
        crc = size = 0
        for part in _parts(section):
            crc, size = zlib.crc32(part, crc), size + len(part)
        row["offset"], row["bytes"], row["crc"] = at, size, crc
        at += size
    path = name.path
    own = f"{socket.gethostname()}-{os.getpid()}-{next(_partial)}"
    partial = path.with_name(f"{path.name}.{own}.partial")
    try:
        with partial.open("wb") as file:
            file.write(name.head(table))
            file.write(table.tobytes())
            for section in sections:
                file.writelines(_parts(section))
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    return at


def _parts(frames: Sequence[bytes]) -> list[bytes]:
    return [part for frame in frames for part in (LENGTH.pack(len(frame)), frame)]


def read_section(name: RunName, sections: int, index: int, count: int = 1) -> Iterator[Lists]:
    """The lists of one section, or some, frame by frame.

    sections : that the file must have; count : how many are read, from `index` on

    Raises `UnusableError`, before the first if at all.
    """
    try:
        with name.path.open("rb") as file:
            rows = _table(file, name, sections)[index : index + count]
            file.seek(int(rows["offset"][0]))
            raw = file.read(int(rows["bytes"].sum()))
    except OSError as error:  # it is gone, or being replaced on another machine
        raise UnusableError(str(name.path)) from error
    at = 0
    for size, crc in zip(rows["bytes"].tolist(), rows["crc"].tolist(), strict=True):
        part = raw[at : at + size]
        if len(part) != size or zlib.crc32(part) != crc:
            raise UnusableError(str(name.path))
        at += size
    at = 0
    while at < len(raw):
        (size,) = LENGTH.unpack_from(raw, at)
        at += LENGTH.size
        yield unpack_lists(zstandard.ZstdDecompressor().decompress(raw[at : at + size]))
        at += size


def _table(file: BinaryIO, name: RunName, sections: int) -> NDArray[np.void]:
    """The table behind the head; raises `UnusableError` if one of both is not what it should be."""
    raw = file.read(HEAD.size + sections * TABLE.itemsize)
    if len(raw) == HEAD.size + sections * TABLE.itemsize:
        table: NDArray[np.void] = np.frombuffer(raw, TABLE, sections, HEAD.size)
        if raw[: HEAD.size] == name.head(table):
            return table
    raise UnusableError(str(name.path))
