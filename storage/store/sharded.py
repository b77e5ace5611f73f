"""Networks in several files: a folder, or a prefix in a store, with `network.json`.

`network.json` is the `meta.json` of a network file with a list of files. Each of these is a zip
archive with the members of a range of blocks, under their names in a network file
(docs/format.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Self

import msgspec
from isal import isal_zlib

from storage.address import RemotePath
from storage.blobs.opening import open_blob
from storage.closing import Closing
from storage.errors import CorruptError, MissingObjectError
from storage.jsontext import parse_json, shown
from storage.parallel import map_ordered
from storage.store.archive import ArchiveReader
from storage.store.index import DIGITS, Member
from storage.store.meta import MEMBER, Count
from storage.typed import Whole, convert

DESCRIPTION = "network.json"
BLOCKS, WEIGHTS = "blocks/", "weights/"  # members of each block
FILES_HELD = 128  # most files kept open; if there are more, each is opened per block
_MOST = 1 << 30  # most bytes of the description
_OPENING = 8  # files opened at a time


class Part(msgspec.Struct):
    """A file of a network: `blocks` blocks, starting at number `first`."""

    file: str
    first: Whole
    blocks: Count


class Layout(msgspec.Struct):
    """The list of files in a description."""

    files: list[Part]
    neurons: Count
    block_size: Count
    attribute_block_size: Count

    @classmethod
    def cut(cls, count: int, neurons: int, block_size: int, attribute_block_size: int) -> Self:
        """Create a layout of `count` files, at most one per block."""
        blocks = -(-neurons // block_size)
        count = min(count, blocks)
        bounds = [blocks * i // count for i in range(count + 1)]
        files = [
            Part(f"part-{i:05d}.bin", first, last - first)
            for i, (first, last) in enumerate(pairwise(bounds))
        ]
        return cls(files, neurons, block_size, attribute_block_size)

    def part_of(self, name: str) -> int:
        """Return the index of the file that holds a member."""
        block = self.block_of(name)
        assert block is not None
        return bisect_right(self.files, block, key=lambda part: part.first) - 1

    def check(self) -> None:
        """Raise `ValueError` unless each block is in one file."""
        at = 0
        for part in self.files:
            if part.file in ("", ".", "..") or "/" in part.file or "\0" in part.file:
                raise ValueError(f"{shown(part.file)} is not a plain file name")
            if part.first != at:
                raise ValueError(f"{part.file} starts with block {part.first}, expected {at}")
            at += part.blocks
        if at != -(-self.neurons // self.block_size):
            count = -(-self.neurons // self.block_size)
            raise ValueError(f"its files have {at} blocks, but the network has {count}")
        if len({part.file for part in self.files}) != len(self.files):
            raise ValueError("lists a file twice")

    def block_of(self, name: str) -> int | None:
        """Return the block that a member is stored with; None if it is not a network member."""
        kind, number = name[:-DIGITS], name[-DIGITS:]
        if not (number.isascii() and number.isdecimal()):
            return None
        if kind in (BLOCKS, WEIGHTS):
            return int(number)
        if kind.startswith("attributes/"):
            return int(number) * self.attribute_block_size // self.block_size
        return None


class ShardedReader(Closing):
    """Members by name from the files of a folder; same interface as `ArchiveReader`."""

    def __init__(self, path: Path, buffer: int) -> None:
        """Raises `CorruptError` if the description is damaged, `BadInputError` if a file is
        missing."""
        self.path = path
        place = path / DESCRIPTION
        with open_blob(place) as blob:
            if blob.size > _MOST:
                raise CorruptError(
                    f"{place}: has {blob.size} bytes, too many for a network description"
                )
            self._raw = blob.read(0, blob.size)
        try:
            self._layout = convert(parse_json(self._raw), Layout)
            self._layout.check()
        except ValueError as error:
            raise CorruptError(f"{place}: {error}; recreate the network") from error
        self._files: list[ArchiveReader] = []
        keep = len(self._layout.files) <= FILES_HELD

        def opened(part: Part) -> ArchiveReader:
            return ArchiveReader(path / part.file, (BLOCKS, WEIGHTS), buffer // 2, keep=keep)

        try:
            for one in map_ordered(opened, self._layout.files, _OPENING):
                self._files.append(one)
        except BaseException:
            self.close()
            raise
        self._firsts = [part.first for part in self._layout.files]
        self._recent: list[int] = []  # files that may hold prefetched data
        self._lock = Lock()

    def __contains__(self, name: str) -> bool:
        where = self._where(name)
        return name == MEMBER or (where >= 0 and name in self._files[where])

    def _where(self, name: str) -> int:
        block = self._layout.block_of(name)
        return -1 if block is None else bisect_right(self._firsts, block) - 1

    def _file(self, name: str) -> ArchiveReader:
        where = self._where(name)
        if where < 0:
            raise CorruptError(f"{self.path}: member {name} is missing; recreate the network")
        return self._files[where]

    def names(self) -> Iterator[str]:
        """Yield the names of all members."""
        yield MEMBER
        for file in self._files:
            yield from file.names()

    def find(self, name: str) -> Member:
        """Return the location of a member in its file; raise `CorruptError` if it is missing."""
        if name == MEMBER:
            size, crc = len(self._raw), isal_zlib.crc32(self._raw)
            return Member(name.encode(), 0, size, size, crc, 0)
        return self._file(name).find(name)

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return len(self._raw) + sum(file.size for file in self._files)

    def require_size(self, name: str, least: int, most: int) -> None:
        """Raise `CorruptError` unless a member exists and has `least` to `most` bytes."""
        self._file(name).require_size(name, least, most)

    def require_sizes(self, prefix: str, numbers: range, least: int, most: int) -> None:
        """Apply `require_size` to members numbered like blocks."""
        for part, file in zip(self._layout.files, self._files, strict=True):
            mine = range(
                max(part.first, numbers.start), min(part.first + part.blocks, numbers.stop)
            )
            file.require_sizes(prefix, mine, least, most)

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return the member's bytes, inflated and checked. Safe to call from several threads."""
        if name == MEMBER:
            return self._raw
        where = self._where(name)
        file = self._file(name)
        with self._lock:
            if where not in self._recent:
                self._recent.append(where)
                if len(self._recent) > 2:
                    self._files[self._recent.pop(0)].forget()
        return file.read(name, most)

    def packed_bytes(self, prefix: str) -> int:
        """Return the compressed bytes of all members whose name starts with `prefix`."""
        return sum(file.packed_bytes(prefix) for file in self._files)

    def close(self) -> None:
        for file in self._files:
            file.close()


def is_sharded(path: Path) -> bool:
    """Return whether a folder or an address holds a network in several files."""
    if not isinstance(path, RemotePath):
        return (path / DESCRIPTION).is_file()
    if path.suffix == ".bin":
        return False
    try:
        open_blob(path / DESCRIPTION).close()
    except MissingObjectError:
        return False
    return True


def open_members(path: Path, buffer: int) -> ArchiveReader | ShardedReader:
    """Open the members of a network, in one file or several."""
    if is_sharded(path):
        return ShardedReader(path, buffer)
    return ArchiveReader(path, (BLOCKS, WEIGHTS), buffer)
