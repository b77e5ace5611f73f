"""Pieces of a network file: members packed by other processes, copied into it unchanged."""

from __future__ import annotations

import tempfile
from pathlib import Path

from storage.closing import Closing
from storage.files import write_error, writing
from storage.store.archive import ArchivePiece, Entry, Packed, local_header


class PieceWriter(Closing):
    """Writes members to a new file, which another process copies into an archive."""

    def __init__(self, folder: Path, name: str) -> None:
        """name : prefix of the file name"""
        self._folder = folder
        self._entries: list[Entry] = []
        self._position = 0
        try:
            self._file = tempfile.NamedTemporaryFile(dir=folder, prefix=name, delete=False)  # noqa: SIM115
        except OSError as error:
            raise write_error(folder, error) from error

    def add(self, member: Packed) -> None:
        header, entry = local_header(member, self._position)
        with writing(self._folder):
            self._file.write(header)
            self._file.write(member.data)
        self._entries.append(entry)
        self._position += len(header) + len(member.data)

    def leave(self) -> ArchivePiece:
        """Close the file and return the piece; nothing can be added afterwards."""
        with writing(self._folder):
            self._file.close()
        return ArchivePiece(Path(self._file.name), self._position, self._entries)

    def close(self) -> None:
        self._file.close()
