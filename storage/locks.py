"""Single writer per output: a lock of the operating system, which ends with its process.

The lock of NAME is held on the file NAME.lock next to it, which names the holder. The file is
deleted when the lock is released. A lock file left by a killed process, or one that could not be
deleted, is unlocked and has no meaning: the next writer reuses it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import socket
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage.closing import Closing
from storage.errors import LockedError, StorageWarning, WriteError, write_error
from storage.system.files import lock_file, open_descriptor, removes_open_files, unlock_file
from storage.system.processes import after_fork

ENDING = ".lock"
PATIENCE = 0.25  # seconds to wait for a holder
SHOWN = 100  # most characters of a command line
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)  # NFS: read-only file


@dataclass(slots=True)
class _Held:
    descriptor: int
    count: int = 1
    thread: int = field(default_factory=threading.get_ident)


_held: dict[Path, _Held] = {}
_guard = threading.Lock()


def _forget() -> None:
    """Drop the parent's locks in a forked child, where they do not apply."""
    global _guard  # another thread of the parent may have held it
    _guard = threading.Lock()
    for held in _held.values():
        os.close(held.descriptor)
    _held.clear()


after_fork(_forget)


class OutputLock(Closing):
    """Holds the lock of an output, a file or a folder, until `close`.

    The lock is reentrant within a thread: a command locks its output before it starts, and the file
    locks it again when it is opened.

    Raises `LockedError` if another thread or process holds it for longer than a command that only
    finds out that it must fail, `WriteError` if the lock file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._key = Path(os.path.realpath(path.parent)) / path.name
        self._open = False
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._take(path)
                break
            except LockedError:
                if time.monotonic() >= end:
                    raise
            time.sleep(0.01)
        self._open = True

    def _take(self, path: Path) -> None:
        with _guard:
            held = _held.get(self._key)
            if held is None:
                _held[self._key] = _Held(_lock(path, self._key))
            elif held.thread == threading.get_ident():
                held.count += 1
            else:
                raise LockedError(f"{path}: another thread of this process is writing it")

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        with _guard:
            held = _held.get(self._key)
            if held is None:  # held by the parent process
                return
            held.count -= 1
            if held.count == 0:
                del _held[self._key]
                _unlock(self._key, held.descriptor)


def _lock(path: Path, key: Path) -> int:
    """Return a locked descriptor of the lock file of `path`, signed by this process."""
    file = _file(key)
    try:
        while True:
            descriptor, ours = _opened(file)
            try:
                if not _taken(descriptor):
                    holder = _holder(descriptor)
                    raise LockedError(f"{path}: {holder}; wait for it, or name another output")
                # the previous holder may have removed it meanwhile
                if _is_named(descriptor, file) and (ours or not _replaced(file)):
                    _sign(descriptor)
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    except LockedError:
        raise
    except OSError as error:
        raise write_error(path, error) from error


def _replaced(file: Path) -> bool:
    """Remove a lock file left by another user; return False if the folder does not allow it.

    Then its lock counts all the same, but the file cannot name its holder.
    """
    try:
        file.unlink()
    except PermissionError:
        return False
    return True


def _file(key: Path) -> Path:
    return key.with_name(key.name + ENDING)


def _opened(file: Path) -> tuple[int, bool]:
    """Open the lock file; also return whether it is writable (another user's is not)."""
    try:
        return open_descriptor(file, os.O_CREAT | os.O_RDWR), True
    except IsADirectoryError as error:
        raise WriteError(f"{file}: is a folder; remove it, it has the name of a lock") from error
    except PermissionError:
        if not file.exists():
            raise
    try:
        return open_descriptor(file, os.O_RDONLY), False
    except PermissionError as error:
        raise WriteError(f"{file}: belongs to another user; remove it, or wait for them") from error


def _taken(descriptor: int) -> bool:
    """Try to lock the file; return True also if the file system does not support locks."""
    try:
        lock_file(descriptor)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        if error.errno not in _NO_LOCKS:
            raise
        warnings.warn(
            "this file system does not support locks; run only one command per output at a time",
            StorageWarning,
            stacklevel=4,
        )
    return True


def _is_named(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    """Write the holder to the lock file; failure is harmless, as on a full disk."""
    about = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": _command(),
    }
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(about).encode())


def _command() -> str:
    program = Path(sys.argv[0] if sys.argv else "")
    name = program.parent.name if program.name == "__main__.py" else program.name
    return " ".join(shlex.join([name or "python", *sys.argv[1:]]).split())


def _holder(descriptor: int) -> str:
    """Describe the process that writes the output, from its lock file."""
    about: Any = None
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        about = json.loads(os.read(descriptor, 1 << 16))
        pid, host, since, command = (str(about[k]) for k in ("pid", "host", "since", "command"))
    except (OSError, ValueError, KeyError, TypeError):  # the content is incomplete
        return "another process is writing it"
    where = "" if host == socket.gethostname() else f" on {host}"
    shown = command if len(command) <= SHOWN else f"{command[: SHOWN - 3]}..."
    return f"process {pid}{where} has been writing it since {since} ({shown})"


def _unlock(key: Path, descriptor: int) -> None:
    """Remove the lock file while it is locked, so that no process locks a deleted file."""
    if not removes_open_files():
        os.close(descriptor)
        _remove(key)
        return
    if not _remove(key):
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)  # it must not name this process as the holder later
    unlock_file(descriptor)
    os.close(descriptor)


def _remove(key: Path) -> bool:
    """Remove the lock file; a remaining file is harmless, and the folder may be missing."""
    try:
        _file(key).unlink()
    except OSError:
        return False
    return True
