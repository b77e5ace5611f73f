"""Files that are written: they appear under their name only when complete. And files that are read:
regular ones, of no more bytes than they may have."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from storage.address import RemotePath
from storage.closing import Closing
from storage.errors import BadInputError, WriteError
from storage.errors import write_error as write_error
from storage.locks import OutputLock


def read_error(path: Path, error: OSError) -> BadInputError:
    """The one-line form of why `path` cannot be read."""
    return BadInputError(f"{path}: cannot read: {error.strerror or error}")


def require_file(path: Path) -> int:
    """The size in bytes of a regular file; raises `BadInputError` if `path` is none.

    A device or a pipe may have no end, never begin, and cannot be read a second time.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise read_error(path, error) from error
    if stat.S_ISDIR(found.st_mode):
        raise BadInputError(f"{path}: cannot read: Is a directory")
    if not stat.S_ISREG(found.st_mode):
        kind = "pipe" if stat.S_ISFIFO(found.st_mode) else "device or socket"
        raise BadInputError(f"{path}: is a {kind}; save what it holds as a file, and name that")
    return found.st_size


def open_input(path: Path) -> BinaryIO:
    """A regular file opened for reading; raises `BadInputError` as `require_file` does."""
    require_file(path)
    try:
        return path.open("rb")
    except OSError as error:
        raise read_error(path, error) from error


def real_path(path: Path) -> Path:
    """The absolute path without links, as far as they lead anywhere.

    Of links in a circle `Path.resolve` raises an error of its own. An address is its own.
    """
    if isinstance(path, RemotePath):
        return path
    return Path(os.path.realpath(path))


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits; raises `BadInputError` like `open_input`."""
    found = hashlib.sha256()
    with open_input(path) as file:
        try:
            while piece := file.read(1 << 20):
                found.update(piece)
        except OSError as error:
            raise read_error(path, error) from error
    return found.hexdigest()


def read_input(path: Path, most: int) -> bytes:
    """All of a file of at most `most` bytes; raises `BadInputError` if it is larger, or no file."""
    with open_input(path) as file:
        try:
            large = os.fstat(file.fileno()).st_size > most  # pipes have no size
            data = b"" if large else file.read(most + 1)
        except OSError as error:
            raise read_error(path, error) from error
    if large or len(data) > most:
        raise BadInputError(f"{path}: is larger than {most >> 20} MiB; is it the right file?")
    return data


class PartialFile(Closing):
    """A new file, written as NAME.partial, then synced and renamed by `commit`.

    Leaving the ``with`` block without `commit` removes what was written. The error of a full
    disk or a missing folder is a `WriteError`, and so is that of a file which another process
    is writing: until `close` it is locked. What a killed process left of it is written over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.position = 0
        if path.is_dir():
            raise WriteError(f"{path}: is a folder; name a file")
        if path.name == "-":
            raise WriteError("-: files are not written to standard output; name a file")
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
        """Hand all bytes to the system, so that others who open `partial` see them."""
        with writing(self.path):
            self._file.flush()

    def commit(self) -> None:
        self.seal()
        self.publish()
        self.close()

    def seal(self) -> None:
        """Bring all that was written to the disk; the file still has its partial name."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise write_error(self.path, error) from error

    def publish(self) -> None:
        """Give the sealed file its name."""
        try:
            self.partial.replace(self.path)
        except OSError as error:
            raise write_error(self.path, error) from error

    def close(self) -> None:
        """Remove the partial file, unless it has got its name, and give the lock back."""
        if self._closed:  # by now the partial file may be somebody else's
            return
        self._closed = True
        with contextlib.suppress(OSError):  # closing flushes: on a full disk it fails again
            self._file.close()
        try:
            self.partial.unlink(missing_ok=True)
        finally:
            self._lock.close()


class Sealable(Protocol):
    """A new file whose name comes last: a `PartialFile`, or what is written through one."""

    path: Path

    def seal(self) -> None: ...

    def publish(self) -> None: ...


def commit_together(*files: Sealable) -> None:
    """Commit files that belong together; if one can't get its name, none of them has it."""
    for file in files:
        file.seal()
    named: list[Path] = []
    try:
        for file in files:
            file.publish()
            named.append(file.path)
    except BaseException:
        for path in named:
            path.unlink(missing_ok=True)
        raise


def write_file(path: Path, data: bytes) -> None:
    """Write a whole small file atomically."""
    with PartialFile(path) as file:
        file.write(data)
        file.commit()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the operating system's errors on `path` into `WriteError`."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        raise write_error(path, error) from error
