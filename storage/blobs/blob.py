"""Bytes that are read in pieces from any place, by any number of threads."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path

from storage.closing import Closing
from storage.files import read_error, require_file


class Blob(Closing):
    """Bytes that stay as they are: a file, or an object in a store.

    path : what messages call it
    size : bytes
    """

    path: Path
    size: int

    @abstractmethod
    def read(self, start: int, size: int) -> bytes:
        """Bytes from a place on, fewer where they end. Safe to call from several threads.

        Raises `BadInputError` if they cannot be had.
        """


class FileBlob(Blob):
    """A regular file."""

    def __init__(self, path: Path) -> None:
        """Raises `BadInputError` for what is none, or cannot be read."""
        self.path = path
        require_file(path)
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise read_error(path, error) from error
        self.size = os.fstat(self._descriptor).st_size

    def read(self, start: int, size: int) -> bytes:
        try:
            data = os.pread(self._descriptor, size, start)
            while len(data) < size:  # one call reads 2 GiB at most
                more = os.pread(self._descriptor, size - len(data), start + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise read_error(self.path, error) from error
        return data

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def open_blob(path: Path) -> Blob:
    """What a path names; raises `BadInputError` if it cannot be read."""
    return FileBlob(path)
