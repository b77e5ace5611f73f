"""Unnamed files, which exist as long as their object."""

from __future__ import annotations

import os
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from storage.closing import Closing
from storage.files import write_error, writing
from storage.system.files import (
    open_descriptor,
    read_at,
    removes_open_files,
    replace_file,
)

COPIED_BYTES = 1 << 22  # bytes copied at a time


class NamelessFile(Closing):
    """Takes over a file and unlinks it. The system frees its space when the process ends.

    Windows keeps the names of open files: there it moves out of its folder, which may be temporary,
    and is unlinked when it is closed.

    Pickling stores its content: unpickling creates an independent unnamed copy in the folder for
    temporary files.
    """

    def __init__(self, path: Path) -> None:
        with writing(path):
            if removes_open_files():
                self._keep(open_descriptor(path, os.O_RDONLY))
                path.unlink()
                return
            moved = path.parent.with_name(f"{path.parent.name}-{path.name}")
            replace_file(path, moved)
            self._keep(open_descriptor(moved, os.O_RDONLY), moved)

    def _keep(self, descriptor: int, named: Path | None = None) -> None:
        """Own a descriptor; named : the file, if its name can be removed only later."""
        self._descriptor = descriptor
        self._finalizer = weakref.finalize(self, _release, descriptor, named)

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return os.fstat(self._descriptor).st_size

    def copy_to(self, path: Path) -> None:
        """Write the content as a new file."""
        try:
            with path.open("xb") as file:
                place = 0
                while piece := read_at(self._descriptor, COPIED_BYTES, place):
                    file.write(piece)
                    place += len(piece)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_error(path, error) from error

    def __getstate__(self) -> bytes:
        pieces: list[bytes] = []
        place = 0
        while piece := read_at(self._descriptor, COPIED_BYTES, place):
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


def _release(descriptor: int, named: Path | None) -> None:
    """Close a file, and remove its name if it still has one."""
    os.close(descriptor)
    if named is not None:
        with suppress(OSError):
            named.unlink()
