"""Interface for random-access reads from several threads, with an implementation for files."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from pathlib import Path
from typing import Any

from storage.closing import Closing
from storage.files import read_error, require_file
from storage.system.files import open_descriptor, read_at


class Blob(Closing):
    """Read-only bytes: a file, or an object in a store.

    path : name used in messages
    size : bytes
    """

    path: Path
    size: int

    @abstractmethod
    def read(self, start: int, size: int) -> bytes:
        """Return the bytes from `start`, fewer at the end. Safe to call from several threads.

        Raises `BadInputError` if they cannot be read.
        """

    def forget(self) -> None:
        """Drop prefetched data, if any."""


class FileBlob(Blob):
    """A regular file."""

    def __init__(self, path: Path, keep: bool = True) -> None:
        """keep : keep the file open between reads; only few files may stay open

        Raises `BadInputError` if the path is not a regular file or cannot be read.
        """
        self.path = path
        self.size = require_file(path)
        self._descriptor = self._open() if keep else -1

    def _open(self) -> int:
        try:
            return open_descriptor(self.path, os.O_RDONLY)
        except OSError as error:
            raise read_error(self.path, error) from error

    def read(self, start: int, size: int) -> bytes:
        if self._descriptor >= 0:
            return self._read(self._descriptor, start, size)
        descriptor = self._open()
        try:
            return self._read(descriptor, start, size)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, start: int, size: int) -> bytes:
        try:
            return read_at(descriptor, size, start)
        except OSError as error:
            raise read_error(self.path, error) from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class BlobFile(io.RawIOBase):
    """A blob as a seekable file object, for libraries that read only files."""

    def __init__(self, blob: Blob) -> None:
        """blob : closed together with the file"""
        self._blob = blob
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        place = (
            offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._blob.size}[whence]
        )
        if place < 0:
            raise OSError("cannot seek before the start")
        self._at = place
        return place

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._blob.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._blob.close()
        super().close()
