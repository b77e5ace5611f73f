"""The cache: results of pure work by the digest of its inputs, in a file of limited size.

Anything in it may be deleted at any time; then the work is done again. A result is the same bytes
with and without the cache. Each result has two entries: its content, and when it was last used.
"""

from __future__ import annotations

import contextlib
import math
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mapper.cache.database import Database, DatabaseError, FullError, Transaction
from mapper.cache.digests import digest
from mapper.cache.location import cache_folder, cache_size, note, reason_against
from storage.compression import compress, decompress
from storage.errors import WriteError

FILE = "cache.mdb"
CONTENT, USE = b"c", b"u"
"""First byte of the keys of a result."""
LARGEST_RESULT = 1 / 4
"""Largest result, as a part of the cache."""
ROOMS = (0.8, 0.8, 0.5, 0.2)
"""Part of the file that results may fill, in several attempts: a result needs consecutive pages."""
DROPPED = 0.8
"""Part of it that they fill after the ones that were not used for longest were dropped."""
FRESH = 3600
"""Seconds after which a use is recorded again."""
PATIENCE = 5.0
"""Seconds to wait for other processes; then the work is done again."""

_USE = struct.Struct("<dQ")


class Contents(NamedTuple):
    """Contents of the cache: number of results and bytes, by kind of work."""

    kinds: dict[str, tuple[int, int]]
    size: int


class Cache:
    """Results by kind of work and key. An error of the cache switches it off, with a note.

    folder : None if the cache is off; most : bytes
    """

    def __init__(self, folder: Path | None, most: int) -> None:
        self.folder, self.most = folder, most
        self._database = None if folder is None else Database(folder / FILE, most, PATIENCE)

    @classmethod
    def of_user(cls) -> Cache:
        """Return the cache of this user; off, with a note, where it cannot be used."""
        most, folder = cache_size(), cache_folder()
        if not most:
            return OFF
        if reason := reason_against(folder):
            note(f"the cache is off: {reason}")
            return OFF
        return cls(folder, most)

    @property
    def is_on(self) -> bool:
        return self._database is not None

    def slot(self, kind: str, *inputs: object) -> Slot:
        """Return the place of a result of some kind of work. Its key is the digest of the inputs
        and of the code."""
        return Slot(self, kind.encode() + b":" + digest(*inputs)) if self.is_on else NO_SLOT

    def get(self, key: bytes, most: float = math.inf) -> bytes | None:
        """Return a result; None if it is not in the cache, or has more than `most` bytes there."""
        if self._database is None:
            return None
        with self._errors_noted():
            found = None
            with self._database.reading() as view:
                use = view.get(USE + key)
                when, size = (0.0, 0) if use is None else _USE.unpack(use)
                if size <= most:
                    found = view.get(CONTENT + key)
            if found is None:
                return None
            if time.time() - when > FRESH:
                with self._database.writing() as view:
                    view.put(USE + key, _USE.pack(time.time(), len(found)))
            return decompress(found)
        return None

    def put(self, key: bytes, content: bytes) -> None:
        """Keep a result; drop the ones that were not used for longest if there is no room."""
        packed = compress(content, 3)
        if self._database is None or len(packed) > LARGEST_RESULT * self.most:
            return
        with self._errors_noted():
            for room in ROOMS:
                with contextlib.suppress(FullError):
                    # LMDB uses pages again that were freed two transactions before
                    with self._database.writing() as view:
                        _make_room(view, len(packed), room * self.most)
                    with self._database.writing() as view:
                        view.put(CONTENT + key, packed)
                        view.put(USE + key, _USE.pack(time.time(), len(packed)))
                    return
            self._database.remove()

    def contents(self) -> Contents:
        """Return the contents of the cache; raises `WriteError` if it cannot be read."""
        kinds: dict[str, tuple[int, int]] = {}
        size = 0
        if self._database is not None:
            with _as_write_errors(), self._database.reading() as view:
                for key, content in view.entries(USE):
                    kind = key[1:].partition(b":")[0].decode(errors="replace")
                    count, total = kinds.get(kind, (0, 0))
                    kinds[kind] = count + 1, total + _USE.unpack(content)[1]
            with contextlib.suppress(OSError):
                size = self._database.path.stat().st_size
        return Contents(kinds, size)

    def clear(self) -> None:
        """Remove all results; raises `WriteError` if they cannot be removed."""
        if self._database is not None:
            with _as_write_errors():
                self._database.remove()

    @contextlib.contextmanager
    def _errors_noted(self) -> Iterator[None]:
        """Switch the cache off after an error, with a note."""
        try:
            yield
        except DatabaseError as error:
            self._database = None
            note(f"the cache is not used: {error}")


OFF = Cache(None, 0)
"""The cache of commands that do not use one."""


class Slot(NamedTuple):
    """The place of a result in a cache."""

    cache: Cache
    key: bytes

    @property
    def is_on(self) -> bool:
        return self.cache.is_on

    def get(self, most: float = math.inf) -> bytes | None:
        """Return the result; see `Cache.get`."""
        return self.cache.get(self.key, most)

    def put(self, content: bytes) -> None:
        """Keep a result."""
        self.cache.put(self.key, content)


NO_SLOT = Slot(OFF, b"")


def _make_room(view: Transaction, size: int, most: float) -> None:
    """Drop the results that were not used for longest unless there is room for another one."""
    uses = [(*_USE.unpack(content), key[1:]) for key, content in view.entries(USE)]
    total = size + sum(one for _, one, _ in uses)
    if total <= most:
        return
    for _, one, key in sorted(uses):
        view.drop(CONTENT + key)
        view.drop(USE + key)
        total -= one
        if total <= DROPPED * most:
            break


@contextlib.contextmanager
def _as_write_errors() -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        raise WriteError(str(error)) from error
