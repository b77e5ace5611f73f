"""HDF5 files whose faults end in one line. Needs h5py (extras `sonata`, `nir`)."""

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

from storage.errors import BadInputError, StorageError
from storage.extras import require
from storage.files import PartialFile, require_file, write_error


def library(path: Path, extra: str = "sonata") -> Any:
    """h5py; raises `BadInputError` that names the extra if it is not installed."""
    return require("h5py", extra, path, "HDF5 files")


@contextmanager
def opened(path: Path, extra: str = "sonata") -> Iterator[Any]:
    """An open file; what h5py raises about damage, also later, becomes `BadInputError`."""
    h5py = library(path, extra)
    require_file(path)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except StorageError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(f"{path}: not a valid HDF5 file ({reason}); fetch it again") from error


class Backing(io.RawIOBase):
    """The file below a new HDF5 file. It never fails, for then the library may crash at its end.

    What can't be written is dropped, and `check` raises the first error.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        super().__init__()
        self._path, self._file = path, file
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise `WriteError` if something could not be written."""
        if self._error is not None:
            raise write_error(self._path, self._error) from self._error

    def write(self, data: Any) -> int:
        raw = memoryview(data).cast("B")
        self._try(lambda: self._write_all(raw))
        return raw.nbytes

    def _write_all(self, data: memoryview) -> None:
        """All of it: the system may take a part, as when a disk is nearly full or for 2 GiB."""
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
    """A new HDF5 file in the place of a partial file, which is still to be committed.

    mode : "w", or "r+" to add to what the partial file holds

    Raises `WriteError` in the end if something could not be written, or before by `Backing.check`.
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
    """What a file holds at its top; None if it is damaged, or h5py is not installed."""
    try:
        with opened(path) as file:
            return set(file)
    except BadInputError:
        return None


def group(parent: Any, name: str, path: Path) -> Any:
    """A group; raises `BadInputError` that names it if it is not there."""
    found = parent.get(name)
    if found is None or not hasattr(found, "keys"):
        raise BadInputError(f"{path}: no group {_place(parent, name)}; is the file complete?")
    return found


def groups(parent: Any) -> list[str]:
    """Names of the groups in a group, sorted: whole numbers by their value."""
    names = [name for name in parent if hasattr(parent.get(name), "keys")]
    return sorted(names, key=lambda name: (int(name) if is_numbered(name) else -1, name))


def is_numbered(name: str) -> bool:
    """Whether a group is called by a number, of no more digits than one can have."""
    return name.isdecimal() and len(name) < 20


def column(parent: Any, name: str, path: Path, size: int | None = None, kinds: str = "iu") -> Any:
    """A data set of one dimension.

    size : that it must have, if not None; kinds : dtype kinds that will do
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
    if size is not None and found.shape[0] != size:
        raise BadInputError(
            f"{path}: {found.name} has {found.shape[0]} values instead of {size}; is the file "
            "complete?"
        )
    return found


def whole(
    values: NDArray[Any], where: str, first: int, end: int, of: str = ""
) -> NDArray[np.int64]:
    """Values as int64; raises `BadInputError` for the first outside 0 .. end-1.

    where : file and data set; first : row of values[0]; of : what they number, for the message
    """
    wrong = np.flatnonzero((values < 0) | (values >= np.uint64(end)))
    if wrong.size:
        at = int(wrong[0])
        raise BadInputError(
            f"{where}, row {first + at} (from 0): {values[at]} is outside 0..{end - 1}{of}"
        )
    return values.astype(np.int64)


def text(value: Any) -> str:
    """An attribute that is text, however it was stored."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _place(parent: Any, name: str) -> str:
    return f"{str(parent.name).rstrip('/')}/{name}"
