"""Access to HDF5 files with one-line errors. Needs h5py (extras `sonata`, `nir`)."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from storage.budget import declared_bytes, require_room, require_stored
from storage.errors import BadInputError, StorageError
from storage.extras import require
from storage.files import PartialFile, require_file, write_error
from storage.formats.hdf5.structure import require_structure


def library(path: Path, extra: str = "sonata") -> Any:
    """Return h5py; raise `BadInputError` with the extra if it is not installed."""
    return require("h5py", extra, path, "HDF5 files")


@contextmanager
def opened(path: Path, extra: str = "sonata") -> Iterator[Any]:
    """Open a file; errors of h5py inside the block become `BadInputError`."""
    h5py = library(path, extra)
    require_file(path)
    try:
        require_structure(path, h5py)
        with h5py.File(path, "r") as file:
            yield file
    except StorageError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(
            f"{path}: not a valid HDF5 file ({reason}); download it again"
        ) from error


class Backing(io.RawIOBase):
    """The raw file of a new HDF5 file. Writes never fail: the library could crash at exit.

    Data that cannot be written is dropped, and `check` raises the first error.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        super().__init__()
        self._path, self._file = path, file
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise `WriteError` if a write failed."""
        if self._error is not None:
            raise write_error(self._path, self._error) from self._error

    def write(self, data: Any) -> int:
        raw = memoryview(data).cast("B")
        self._try(lambda: self._write_all(raw))
        return raw.nbytes

    def _write_all(self, data: memoryview) -> None:
        """Write all data: a call may write a part, on a nearly full disk or above 2 GiB."""
        while data:
            taken = self._file.write(data)
            if not taken:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[taken:]

    def truncate(self, size: int | None = None) -> int:
        self._try(lambda: self._file.truncate(size))
        return 0 if size is None else size

    def _try(self, work: Callable[[], object]) -> None:
        try:
            if self._error is None:
                work()
        except OSError as error:
            self._error = error

    def readinto(self, buffer: Any) -> int:
        found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)


@contextmanager
def created(
    file: PartialFile, extra: str = "sonata", mode: str = "w"
) -> Iterator[tuple[Any, Backing]]:
    """Create an HDF5 file inside a partial file; the caller commits it.

    mode : "w", or "r+" to extend the content of the partial file

    Raises `WriteError` at the end of the block, or from `Backing.check`, if a write failed.
    """
    h5py = library(file.path, extra)
    with file.partial.open("r+b", buffering=0) as raw:
        backing = Backing(file.path, raw)
        try:
            with h5py.File(backing, mode) as opened:
                yield opened, backing
        except (OSError, RuntimeError) as error:
            if not isinstance(error, StorageError):
                backing.check()
            raise
        backing.check()


def members(path: Path) -> set[str] | None:
    """Return the top-level names of a file; None if it is damaged or h5py is missing."""
    try:
        with opened(path) as file:
            return set(file)
    except BadInputError:
        return None


def group(parent: Any, name: str, path: Path) -> Any:
    """Return a group; raise `BadInputError` that names it if it is missing."""
    found = parent.get(name)
    if found is None or not hasattr(found, "keys"):
        raise BadInputError(f"{path}: no group {_place(parent, name)}; is the file complete?")
    return found


def groups(parent: Any) -> list[str]:
    """Return the names of the groups in a group, sorted; whole numbers by value."""
    names = [name for name in parent if hasattr(parent.get(name), "keys")]
    return sorted(names, key=lambda name: (int(name) if is_numbered(name) else -1, name))


def is_numbered(name: str) -> bool:
    """Return whether a group name is a number below 20 digits."""
    return name.isdecimal() and len(name) < 20


def column(parent: Any, name: str, path: Path, size: int | None = None, kinds: str = "iu") -> Any:
    """Return a one-dimensional data set.

    size : required length, if not None; kinds : accepted dtype kinds
    """
    found = parent.get(name)
    if found is None or not hasattr(found, "shape"):
        raise BadInputError(f"{path}: no data set {_place(parent, name)}; is the file complete?")
    if len(found.shape) != 1 or found.dtype.kind not in kinds:
        wanted = "whole numbers" if kinds == "iu" else "numbers"
        raise BadInputError(
            f"{path}: {found.name} holds {found.dtype} of shape {found.shape}; it must be a list "
            f"of {wanted}"
        )
    require_content(found, f"{path}: {found.name}")
    if size is not None and found.shape[0] != size:
        raise BadInputError(
            f"{path}: {found.name} has {found.shape[0]} values instead of {size}; is the file "
            "complete?"
        )
    return found


def require_content(dataset: Any, what: str, memory: int | None = None) -> None:
    """Raise an error for a data set that is larger than its file can hold, or than the memory.

    HDF5 stores no bytes for rows that were never written.

    dataset : also an array, as the parameters of a graph in memory are
    what : subject of the message; memory : bytes; None: it is read in parts
    Raises `BadInputError`, or `MemoryShortError`.
    """
    declared = declared_bytes(dataset.shape, dataset.dtype.itemsize)
    file = getattr(dataset, "file", None)
    if file is not None:
        require_stored(what, declared, file.id.get_filesize())
    if memory is not None:
        require_room(what, declared, memory)


def whole(
    values: NDArray[Any], where: str, first: int, end: int, of: str = ""
) -> NDArray[np.int64]:
    """Return values as int64; raise `BadInputError` for the first outside 0 .. end-1.

    where : file and data set; first : row of values[0]; of : suffix for the message
    """
    wrong = np.flatnonzero((values < 0) | (values >= np.uint64(end)))
    if wrong.size:
        at = int(wrong[0])
        raise BadInputError(
            f"{where}, row {first + at} (from 0): {values[at]} is outside 0..{end - 1}{of}"
        )
    return values.astype(np.int64)


def text(value: Any) -> str:
    """Return an attribute as text, whatever its stored type."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _place(parent: Any, name: str) -> str:
    return f"{str(parent.name).rstrip('/')}/{name}"
