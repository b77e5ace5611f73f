"""Calls on files that only POSIX has, with twins for Windows.

Every function does the same on all systems, or returns that it cannot. Names of POSIX are looked up
at each call: tests delete them to simulate Windows (`tests/windows.py`).
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from storage.system.modules import module_of

_FAR = 1 << 30  # on Windows locked bytes are unreadable: lock a byte after the content
_WAIT = 0.05  # seconds between attempts to lock
_BUSY_FOR = 0.5  # seconds for which another program may hold a file that is renamed, as scanners do
_seeking = threading.Lock()
"""Without `pread`, threads share the position of a descriptor."""


# Files


def open_descriptor(path: Path | str, flags: int, mode: int = 0o666) -> int:
    """Open a file in binary, and not for child processes."""
    more = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
    return os.open(path, flags | more, mode)


def read_at(descriptor: int, size: int, place: int) -> bytes:
    """Return `size` bytes from an offset, fewer at the end. Safe to call from several threads."""
    data = _read(descriptor, size, place)
    while len(data) < size:  # one call reads at most 2 GiB
        more = _read(descriptor, size - len(data), place + len(data))
        if not more:
            break
        data += more
    return data


def _read(descriptor: int, size: int, place: int) -> bytes:
    pread = getattr(os, "pread", None)
    if pread is not None:
        return bytes(pread(descriptor, size, place))
    with _seeking:
        os.lseek(descriptor, place, os.SEEK_SET)
        return os.read(descriptor, size)


def read_into(descriptor: int, view: memoryview, place: int) -> int:
    """Fill a buffer from an offset; return the number of bytes, fewer at the end."""
    preadv = getattr(os, "preadv", None)
    done = 0
    while done < len(view):
        if preadv is not None:
            count = preadv(descriptor, [view[done:]], place + done)
        else:
            data = _read(descriptor, len(view) - done, place + done)
            count = len(data)
            view[done : done + count] = data
        if not count:
            break
        done += count
    return done


def write_at(descriptor: int, data: bytes | memoryview, place: int) -> None:
    """Write all bytes at an offset. Safe to call from several threads."""
    left = memoryview(data)
    while left:
        pwrite = getattr(os, "pwrite", None)
        if pwrite is not None:
            done = pwrite(descriptor, left, place)
        else:
            with _seeking:
                os.lseek(descriptor, place, os.SEEK_SET)
                done = os.write(descriptor, left)
        left, place = left[done:], place + done


def sync_data(descriptor: int) -> None:
    """Flush the content of a file to disk, and as few metadata as possible."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def replace_file(source: Path, target: Path) -> None:
    """Rename a file or folder; a file of the new name is replaced.

    Windows refuses this while another program has the file open, if only for a moment.
    """
    end = time.monotonic() + _BUSY_FOR
    while True:
        try:
            source.replace(target)
            return
        except PermissionError:
            if hasattr(os, "fork") or time.monotonic() >= end:
                raise
        time.sleep(_WAIT)


def hard_link(file: Path, name: Path) -> bool:
    """Give a file another name; return False if the system or the file system cannot."""
    link = getattr(os, "link", None)
    if link is None:
        return False
    try:
        link(file, name)
    except OSError:
        return False
    return True


# Locks, which end with the process


def lock_file(descriptor: int, wait: bool = False) -> None:
    """Lock a whole file; raise `OSError` if another process holds it, unless `wait`."""
    fcntl = module_of("fcntl")
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    msvcrt = import_module("msvcrt")
    while True:
        with _seeking:
            os.lseek(descriptor, _FAR, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
                return
            except OSError:
                if not wait:
                    raise
            finally:
                os.lseek(descriptor, 0, os.SEEK_SET)
        time.sleep(_WAIT)


def unlock_file(descriptor: int) -> None:
    """Unlock a file, also for forked processes, which have copies of the descriptor."""
    fcntl = module_of("fcntl")
    if fcntl is not None:
        with suppress(OSError):  # closing unlocks as well
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def removes_open_files() -> bool:
    """Return whether a file can be removed while it is open."""
    return module_of("fcntl") is not None
