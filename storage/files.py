"""Atomic writes (a file gets its name when it is complete) and size-limited reads of regular
files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from storage.address import RemotePath
from storage.closing import Closing
from storage.errors import BadInputError, WriteError
from storage.errors import write_error as write_error
from storage.exchange import rename, sync_folder, sync_later, sync_tree
from storage.locks import ENDING, OutputLock
from storage.printable import plain_lines

PARTIAL = (
    ".partial"  # suffix of the name of a file, or of the folder of a run, until it is complete
)
PARTIAL_FOLDER = ".partial-files"  # suffix of the name of a folder of files until it is complete
RESERVED = (ENDING, PARTIAL, PARTIAL_FOLDER)
"""Suffixes of the files and folders that commands create next to an output."""


def read_error(path: Path, error: OSError) -> BadInputError:
    """Return a system error on reading `path` as a one-line `BadInputError`."""
    return BadInputError(f"{path}: cannot read: {error.strerror or error}")


def require_file(path: Path) -> int:
    """Return the size of a regular file in bytes; raise `BadInputError` if it is not one.

    A device or a pipe may never end or never begin, and cannot be read twice.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise read_error(path, error) from error
    if stat.S_ISDIR(found.st_mode):
        raise BadInputError(f"{path}: cannot read: Is a directory")
    if not stat.S_ISREG(found.st_mode):
        kind = "pipe" if stat.S_ISFIFO(found.st_mode) else "device or socket"
        raise BadInputError(f"{path}: is a {kind}; save its content as a file and name the file")
    return found.st_size


def open_input(path: Path) -> BinaryIO:
    """Open a regular file for reading; raise `BadInputError` as `require_file` does."""
    require_file(path)
    try:
        return path.open("rb")
    except OSError as error:
        raise read_error(path, error) from error


def real_path(path: Path) -> Path:
    """Return the absolute path with links resolved as far as possible.

    Unlike `Path.resolve`, it does not raise an error for circular links. An address is returned
    unchanged.
    """
    if isinstance(path, RemotePath):
        return path
    return Path(os.path.realpath(path))


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; raise `BadInputError` like `open_input`."""
    found = hashlib.sha256()
    with open_input(path) as file:
        try:
            while piece := file.read(1 << 20):
                found.update(piece)
        except OSError as error:
            raise read_error(path, error) from error
    return found.hexdigest()


def read_input(path: Path, most: int) -> bytes:
    """Read a file of at most `most` bytes; raise `BadInputError` if larger or not a file."""
    with open_input(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            large = size > most
            data = b"" if large else file.read(size + 1)
            if len(data) > size:  # a growing file, or one of the system, whose size is 0
                data += file.read(most + 1 - len(data))
        except OSError as error:
            raise read_error(path, error) from error
    if large or len(data) > most:
        raise BadInputError(f"{path}: is larger than {most >> 20} MiB; is it the right file?")
    return data


def require_output_name(path: Path) -> None:
    """Raise `WriteError` for a name that another command may give to a file next to its output.

    Some file systems do not distinguish the case of letters.
    """
    for ending in RESERVED:
        if path.name.lower().endswith(ending):
            raise WriteError(
                f"{path}: the ending {ending} is reserved for locks and unfinished outputs; choose "
                "another name"
            )


def require_file_name(path: Path) -> None:
    """Raise `WriteError` if the path cannot be a new file.

    Commands call it before they lock an output: one that must fail does not stop another one.
    """
    require_output_name(path)
    if path.is_dir():
        raise WriteError(f"{path}: is a folder; name a file")
    if path.name == "-":
        raise WriteError("-: files are not written to standard output; name a file")


def require_folder_name(path: Path) -> None:
    """Raise `WriteError` if the path cannot be a new folder; see `require_file_name`."""
    require_output_name(path)
    with writing(path):
        if path.is_dir() and any(path.iterdir()):
            raise WriteError(f"{path}: is not empty; choose another place, or remove it")
        if path.exists() and not path.is_dir():
            raise WriteError(f"{path}: is a file; choose another place, or remove it")


class PartialFile(Closing):
    """A new file, written as NAME.partial, then synced and renamed durably by `commit`.

    Leaving the ``with`` block without `commit` removes the partial file. A full disk or a missing
    folder raises `WriteError`, and so does a file that another process is writing: the file is
    locked until `close`. Leftovers of a killed process are overwritten.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(path.name + PARTIAL)
        self.position = 0
        require_file_name(path)
        self._lock = OutputLock(path)
        try:
            self._file = self.partial.open("wb")
        except OSError as error:
            self._lock.close()
            raise write_error(path, error) from error
        self._closed = False

    def write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise write_error(self.path, error) from error
        self.position += len(data)

    def flush(self) -> None:
        """Hand all bytes to the system, so that other readers of `partial` see them."""
        with writing(self.path):
            self._file.flush()

    def commit(self) -> None:
        self.seal()
        self.publish()
        self.close()

    def seal(self) -> None:
        """Flush the file to disk; it still has its partial name."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise write_error(self.path, error) from error

    def publish(self) -> None:
        """Give the sealed file its name."""
        try:
            rename(self.partial, self.path)
        except OSError as error:
            raise write_error(self.path, error) from error

    def close(self) -> None:
        """Remove the partial file, unless it was published, and release the lock."""
        if self._closed:  # another process may have created it again
            return
        self._closed = True
        with contextlib.suppress(OSError):  # close flushes, which fails again on a full disk
            self._file.close()
        try:
            self.partial.unlink(missing_ok=True)
        finally:
            self._lock.close()


class PartialFolder(Closing):
    """A new folder, filled as NAME.partial-files (`partial`), and renamed durably by `commit`.

    Leaving the ``with`` block without `commit` removes the partial folder. Raises `WriteError` if a
    folder of this name exists and is not empty, `LockedError` if another process is writing it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(path.name + PARTIAL_FOLDER)
        self._closed = False
        require_folder_name(path)
        self._lock = OutputLock(path)
        try:
            shutil.rmtree(self.partial, ignore_errors=True)  # leftovers of a killed process
            with writing(path):
                self.partial.mkdir()
        except BaseException:
            self._lock.close()
            raise

    def commit(self) -> None:
        with writing(self.path):
            sync_tree(self.partial)
            rename(self.partial, self.path)
        self.close()

    def close(self) -> None:
        """Remove the partial folder, unless it was renamed, and release the lock."""
        if self._closed:
            return
        self._closed = True
        shutil.rmtree(self.partial, ignore_errors=True)
        self._lock.close()


class Sealable(Protocol):
    """A new file that gets its name last: a `PartialFile`, or a writer on top of one."""

    path: Path

    def seal(self) -> None: ...

    def publish(self) -> None: ...


def commit_together(*files: Sealable) -> None:
    """Commit files that belong together; if one cannot be renamed, none keeps its name."""
    for file in files:
        file.seal()
    named: list[Path] = []
    folders = {file.path.parent for file in files}
    try:
        with sync_later(*folders):
            for file in files:
                file.publish()
                named.append(file.path)
    except BaseException:
        for path in named:
            path.unlink(missing_ok=True)
        raise
    for folder in folders:
        sync_folder(folder)


def write_file(path: Path, data: bytes) -> None:
    """Write a whole small file atomically."""
    with PartialFile(path) as file:
        file.write(data)
        file.commit()


def write_text(path: Path, text: str) -> None:
    """Write a whole small text for people atomically, with unprintable characters as escapes."""
    write_file(path, plain_lines(text).encode())


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the operating system's errors on `path` into `WriteError`."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error
