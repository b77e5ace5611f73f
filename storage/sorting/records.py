"""Files of consecutive runs of records: unnamed, or shared with other processes.

Records are read at their offsets, so no pages stay mapped. A shared file is complete when its
writer returns its path; files of lost writers are never referenced.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import IO, Protocol

import numpy as np
from numpy.typing import NDArray

from storage.closing import Closing
from storage.files import open_input, require_file, write_error
from storage.system.files import read_into, write_at


class Records(Protocol):
    """Source of the records of runs."""

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes. Safe to call from several threads."""

    def close(self) -> None: ...


class RecordFile(Closing):
    """Appends and reads records; safe to use from several threads.

    name : prefix of the name of a shared file; empty: the file is unnamed and disappears with the
        process
    """

    def __init__(self, folder: Path, name: str = "") -> None:
        self.size = 0
        self._folder, self._name = folder, name
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()

    def append(self, data: NDArray[np.uint8]) -> int:
        """Append bytes; return their offset."""
        with self._lock:
            file = self._opened()
            offset = self.size
            self.size += data.nbytes
        try:
            write_at(file.fileno(), memoryview(data.data), offset)
        except OSError as error:
            raise write_error(self._folder, error) from error
        return offset

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            try:
                if self._name:
                    self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115
                        dir=self._folder, prefix=self._name, delete=False
                    )
                else:
                    self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            except OSError as error:
                raise write_error(self._folder, error) from error
        return self._file

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        assert self._file is not None, "read before append"
        return _read(self._file.fileno(), self._folder, offset, size)

    def leave(self) -> Path:
        """Close the file and return its path; nothing can be appended afterwards."""
        with self._lock:
            file = self._opened()
            path = Path(file.name)
            try:
                file.close()  # on a network file system, close may report a full disk
            except OSError as error:
                raise write_error(self._folder, error) from error
        return path

    def close(self) -> None:
        """Close the file; an unnamed file is deleted with it."""
        if self._file is not None:
            self._file.close()
            self._file = None


class SharedRecords(Closing):
    """Reads a file of another process; raises `BadInputError` if it is missing.

    held : keep it open; with thousands of files, each is opened per read
    """

    def __init__(self, path: Path, held: bool) -> None:
        self._path = path
        self._file = open_input(path) if held else None

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        if self._file is not None:
            return _read(self._file.fileno(), self._path, offset, size)
        with open_input(self._path) as file:
            return _read(file.fileno(), self._path, offset, size)

    def numbers(self, offset: int, count: int) -> NDArray[np.int64]:
        """Read integers; offset : in bytes."""
        return self.read(offset, 8 * count).view(np.int64)

    def tail(self, count: int) -> tuple[int, NDArray[np.int64]]:
        """Return the length of the file in bytes, and its last numbers."""
        size = require_file(self._path)
        return size, self.numbers(max(0, size - 8 * count), count)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _read(descriptor: int, where: Path, offset: int, size: int) -> NDArray[np.uint8]:
    data = np.empty(size, np.uint8)
    if read_into(descriptor, memoryview(data.data), offset) < size:
        raise write_error(where, OSError("the file of runs was truncated"))
    return data
