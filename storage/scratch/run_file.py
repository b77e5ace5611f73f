"""Run files: lists of numbers sent from one process to others through a shared folder.

A run file holds the data of one sender for all receivers: a head, a table of sections, one per
receiver, and the sections. A receiver reads only the head, the table, and its section::

    head     magic, tag of the exchange, number of the batch, number of the sender, sections, CRC
    table    of each section: offset, bytes, CRC
    section  consecutive frames: bytes of each (uint32), and a zstd frame of packed lists

A file gets its name when it is complete. Any other file under this name (incomplete, of another
exchange, or damaged) counts as missing: its content can be recomputed.
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
from numpy.typing import NDArray

from storage.compression import compress, decompress
from storage.scratch.packed import FAST, Lists, pack_lists, unpack_lists

MAGIC = b"MAPRUN\x01\n"
HEAD = struct.Struct("<8s32sIIII")  # the last field is the CRC of the others and of the table
LENGTH = struct.Struct("<I")
TABLE = np.dtype([("offset", "<u8"), ("bytes", "<u8"), ("crc", "<u4")])

_partial = count()


class RunName(NamedTuple):
    """Identity of a run file.

    tag : of the exchange, at most 32 letters; distinguishes its files from an earlier attempt
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
        """Return the head of a file with this table."""
        fields = (MAGIC, self.tag.encode(), self.batch, self.sender, table.size)
        unchecked = HEAD.pack(*fields, 0)
        return HEAD.pack(*fields, zlib.crc32(table.tobytes(), zlib.crc32(unchecked)))


class UnusableError(Exception):
    """The run file is missing, damaged, or of another exchange."""


def pack_frame(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], weights: NDArray[np.int32]
) -> bytes:
    """Pack lists into a frame; ids increasing in each, weights not negative."""
    return compress(pack_lists(indptr, ids, weights), FAST)


def write_run(name: RunName, sections: Sequence[Sequence[bytes]]) -> int:
    """Write a run file, replacing an existing one; return its size in bytes.

    sections : frames of each section, see `pack_frame`

    The bytes depend only on the sections and the name. Several processes may write the same file
    at once. Raises `OSError`, and leaves no file then.
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
    """Yield the lists of one or more sections, frame by frame.

    sections : number that the file must have; count : sections to read, starting at `index`

    Raises `UnusableError`, only before the first frame.
    """
    try:
        with name.path.open("rb") as file:
            rows = _table(file, name, sections)[index : index + count]
            begin, size = int(rows["offset"][0]), sum(rows["bytes"].tolist())
            if begin + size > os.fstat(file.fileno()).st_size:
                raise UnusableError(str(name.path))
            file.seek(begin)
            raw = file.read(size)
    except OSError as error:  # missing, or being replaced on another machine
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
        yield unpack_lists(decompress(raw[at : at + size]))
        at += size


def _table(file: BinaryIO, name: RunName, sections: int) -> NDArray[np.void]:
    """Return the table after the head; raise `UnusableError` if head or table do not match."""
    raw = file.read(HEAD.size + sections * TABLE.itemsize)
    if len(raw) == HEAD.size + sections * TABLE.itemsize:
        table: NDArray[np.void] = np.frombuffer(raw, TABLE, sections, HEAD.size)
        if raw[: HEAD.size] == name.head(table):
            return table
    raise UnusableError(str(name.path))
