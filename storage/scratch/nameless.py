"""Unnamed files, which exist as long as their object."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

from storage.closing import Closing
from storage.files import write_error, writing

COPIED_BYTES = 1 << 22  # bytes copied at a time


class NamelessFile(Closing):
    """Takes over a file and unlinks it. The system frees its space when the process ends.

    Pickling stores its content: unpickling creates an independent unnamed copy in the folder for
    temporary files.
    """

    def __init__(self, path: Path) -> None:
        with writing(path):
            self._keep(os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
            path.unlink()

    def _keep(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._finalizer = weakref.finalize(self, os.close, descriptor)

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return os.fstat(self._descriptor).st_size

    def copy_to(self, path: Path) -> None:
        """Write the content as a new file."""
        try:
            with path.open("xb") as file:
                place = 0
                while piece := os.pread(self._descriptor, COPIED_BYTES, place):
                    file.write(piece)
                    place += len(piece)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_error(path, error) from error

    def __getstate__(self) -> bytes:
        pieces: list[bytes] = []
        place = 0
        while piece := os.pread(self._descriptor, COPIED_BYTES, place):
            pieces.append(piece)
            place += len(piece)
        return b"".join(pieces)

    def __setstate__(self, content: Any) -> None:
        folder = Path(tempfile.gettempdir())
        with writing(folder), tempfile.TemporaryFile() as file:
            file.write(content)
            file.flush()
            self._keep(os.dup(file.fileno()))

    def close(self) -> None:
        self._finalizer()
