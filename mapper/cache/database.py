"""Small transactional databases that many processes share: LMDB, with guards for damaged files.

The only module that imports lmdb. A database is opened for one transaction at a time, under a file
lock: it never outlives a fork, and no process maps a file that another one replaces. LMDB's own
locks are not used, because a damaged lock file can block it. Before LMDB maps a file, its pages are
checked (`pages.check`), and each value carries a checksum. A damaged file is renamed to
NAME.damaged, and a new one begins.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mapper.cache.pages import DamagedError, check
from storage.errors import LockedError, StorageWarning
from storage.exchange import rename
from storage.locks import OutputLock

if TYPE_CHECKING:
    import lmdb

CHECKSUM = 16
"""Bytes of a value's checksum, BLAKE2b of its key and content."""
DAMAGED = ".damaged"
"""Ending of a damaged file, which is kept until the next one."""
WAIT = 0.002
"""Seconds between two attempts to lock a database."""


class DatabaseError(Exception):
    """A database cannot be used; in one line."""


class FullError(DatabaseError):
    """A database is full."""


class Entry(NamedTuple):
    """A key with its content."""

    key: bytes
    content: bytes


class Database:
    """A database file of at most `most` bytes.

    patience : seconds to wait for other processes
    """

    def __init__(self, path: Path, most: int, patience: float) -> None:
        self.path, self.most, self.patience = path, most, patience

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Yield the entries; none if there is no file.

        Raises `DatabaseError` if the file cannot be read, or other processes hold it too long.
        """
        with self._locked(), contextlib.ExitStack() as held:
            if not self._is_sound():
                yield Transaction(None)
                return
            yield held.enter_context(self._transaction(write=False))

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Yield the entries to change. Changes are on the disk when the block ends without an
        error; otherwise none is made.

        Raises `DatabaseError` like `reading`, and if the disk or the database is full.
        """
        with self._locked():
            self._is_sound()
            with self._transaction(write=True) as view:
                yield view

    def remove(self) -> None:
        """Remove the database."""
        with self._locked(), _as_errors(self.path):
            self.path.unlink(missing_ok=True)
            self._aside.unlink(missing_ok=True)

    @property
    def _aside(self) -> Path:
        return self.path.with_name(self.path.name + DAMAGED)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        end = time.monotonic() + self.patience
        with _as_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            try:
                lock = OutputLock(self.path)
                break
            except LockedError as error:
                if time.monotonic() > end:
                    raise DatabaseError(str(error)) from error
                time.sleep(WAIT)
            except OSError as error:
                raise DatabaseError(f"{self.path}: {error.strerror or error}") from error
        with lock:
            yield

    def _is_sound(self) -> bool:
        """Return whether there is a file; put it aside if it is damaged."""
        try:
            with _as_errors(self.path), self.path.open("rb") as file:
                if not os.fstat(file.fileno()).st_size:
                    return False  # its creation was interrupted
                with (
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
                    memoryview(data) as view,
                ):
                    check(view)
        except FileNotFoundError:
            return False
        except DamagedError as error:
            with _as_errors(self.path):
                rename(self.path, self._aside)
            text = (
                f"{self.path}: is damaged ({error}), kept as {self._aside.name}; a new one begins"
            )
            warnings.warn(text, StorageWarning, stacklevel=2)
            return False
        return True

    @contextmanager
    def _transaction(self, write: bool) -> Iterator[Transaction]:
        import lmdb

        with _as_errors(self.path):
            environment = lmdb.open(
                str(self.path), subdir=False, lock=False, map_size=self.most, readonly=not write,
                create=write, mode=0o600, max_dbs=0, meminit=True, max_spare_txns=0,
            )  # fmt: skip
        with environment, _as_errors(self.path), environment.begin(write=write) as transaction:
            yield Transaction(transaction)


class Transaction:
    """The entries of a database during a transaction; None has none.

    damaged : number of entries that `entries` left out so far, because their content is damaged
    """

    def __init__(self, transaction: lmdb.Transaction | None) -> None:
        self._transaction = transaction
        self.damaged = 0

    def get(self, key: bytes) -> bytes | None:
        """Return the content of a key; None if it is missing or damaged."""
        found = None if self._transaction is None else self._transaction.get(key)
        return None if found is None else _opened(key, bytes(found))

    def put(self, key: bytes, content: bytes) -> None:
        """Add or replace an entry."""
        assert self._transaction is not None
        self._transaction.put(key, _sealed(key, content))

    def drop(self, key: bytes) -> None:
        """Remove an entry, if it exists."""
        assert self._transaction is not None
        self._transaction.delete(key)

    def entries(self, prefix: bytes = b"") -> Iterator[Entry]:
        """Yield the sound entries whose keys begin with a prefix, in order of their keys."""
        if self._transaction is None:
            return
        with self._transaction.cursor() as cursor:
            if not cursor.set_range(prefix):
                return
            for one, value in cursor:
                key = bytes(one)
                if not key.startswith(prefix):
                    return
                content = _opened(key, bytes(value))
                if content is None:
                    self.damaged += 1
                else:
                    yield Entry(key, content)


def is_supported() -> bool:
    """Return whether the installed LMDB has the file format that `pages.check` knows."""
    import lmdb

    return lmdb.version()[:2] == (0, 9) and sys.byteorder == "little"


def _sealed(key: bytes, content: bytes) -> bytes:
    return _checksum(key, content) + content


def _opened(key: bytes, value: bytes) -> bytes | None:
    content = value[CHECKSUM:]
    return content if value[:CHECKSUM] == _checksum(key, content) else None


def _checksum(key: bytes, content: bytes) -> bytes:
    found = hashlib.blake2b(len(key).to_bytes(4, "little") + key, digest_size=CHECKSUM)
    found.update(content)
    return found.digest()


@contextmanager
def _as_errors(path: Path) -> Iterator[None]:
    """Convert errors of the system and of LMDB to a `DatabaseError`."""
    errors: Any
    try:
        import lmdb

        errors = (OSError, lmdb.Error)
    except ImportError as error:
        raise DatabaseError(f"lmdb cannot be imported: {error}") from error
    try:
        yield
    except FileNotFoundError:
        raise
    except errors as error:
        text = getattr(error, "strerror", None) or str(error)
        kind = FullError if isinstance(error, lmdb.MapFullError) else DatabaseError
        raise kind(f"{path}: {text}") from error
