"""Sequential writer of a network in several files: see `sharded`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from storage.closing import Closing
from storage.files import PartialFolder, write_file
from storage.store.archive import ArchivePiece, ArchiveWriter, Packed
from storage.store.sharded import DESCRIPTION, Layout

Members = Callable[[range], Iterator[Packed]]


class ShardedWriter(Closing):
    """Receives members of blocks in order, and adds the attributes of its blocks to each file.

    The folder gets its name when it is complete. Raises `WriteError` if a folder of this name
    exists and is not empty, `LockedError` if another process is writing it.
    """

    def __init__(self, folder: Path, count: int) -> None:
        """count : most files: each has at least one block"""
        self.path, self._count = folder, count
        self._file: ArchiveWriter | None = None
        self._written = 0
        self._folder = PartialFolder(folder)

    def begin(
        self, neurons: int, block_size: int, attribute_block_size: int, rest: Members
    ) -> None:
        """Set the size of blocks, before the first one is added.

        rest : returns the other members for a range of neurons in whole blocks
        """
        self._layout = Layout.cut(self._count, neurons, block_size, attribute_block_size)
        self._rest = rest

    def add(self, member: Packed) -> None:
        """Add the next block."""
        self._of(member.name).add(member)

    def append(self, piece: ArchivePiece) -> None:
        """Add the next blocks, from a piece."""

        parts = [self._layout.part_of(entry.name.decode()) for entry in piece.entries]
        first = 0
        for _, same in groupby(parts):
            last = first + len(list(same))
            self._of(piece.entries[first].name.decode()).append(piece, range(first, last))
            first = last

    def _of(self, name: str) -> ArchiveWriter:
        """Return the file of a member; previous files are completed."""
        while self._file is None or self._layout.part_of(name) >= self._written:
            self.end()
            part = self._layout.files[self._written]
            self._file = ArchiveWriter(self._folder.partial / part.file)
            self._written += 1
        return self._file

    def end(self) -> None:
        """Complete the current file, after all its blocks have been added."""
        if self._file is not None:
            part = self._layout.files[self._written - 1]
            size = self._layout.block_size
            for member in self._rest(range(part.first * size, (part.first + part.blocks) * size)):
                self._file.add(member)
            self._file.commit()

    def commit(self, description: bytes) -> None:
        """Write the description, and rename the folder.

        description : `meta.json` of the network
        """
        said = json.loads(description) | {"files": msgspec.to_builtins(self._layout.files)}
        write_file(self._folder.partial / DESCRIPTION, json.dumps(said, indent=1).encode())
        self._folder.commit()

    def close(self) -> None:
        """Remove the partial folder, unless it was renamed."""
        if self._file is not None:
            self._file.close()
        self._folder.close()
