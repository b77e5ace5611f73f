"""Renames that survive a power cut: the only place where files and folders get their names.

A rename is durable when the folder that holds the name is synced. A folder that is renamed as a
whole is synced once, at the end: `sync_later`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from storage.errors import WriteError
from storage.system.files import open_descriptor, replace_file

_HERE = -100  # AT_FDCWD: relative paths start at the current folder
_EXCHANGE = 2  # RENAME_EXCHANGE
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_DAMAGED = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a sync that mean lost entries; others mean that the system cannot sync folders."""

_later: ContextVar[tuple[Path, ...]] = ContextVar("_later", default=())


@cache
def _renameat2() -> Callable[..., int] | None:
    """Return Linux's renameat2; None on other systems, or if the C library lacks it."""
    try:
        function: Any = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = (
        ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint,
    )  # fmt: skip
    function.restype = ctypes.c_int
    return function


def exchange(first: Path, second: Path) -> bool:
    """Swap the names of two files or folders atomically and durably: neither is ever missing.

    Returns False, and does nothing, if the system or the file system does not support it. Raises
    `OSError` for any other failure.
    """
    function = _renameat2()
    if function is None:
        return False
    if function(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0:
        _sync_parents(first, second)
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def rename(source: Path, target: Path) -> None:
    """Give a file or folder its name, atomically and durably; it replaces a file of this name.

    The content must be synced already. Raises `OSError`.
    """
    replace_file(source, target)
    _sync_parents(target, source)


def _sync_parents(*renamed: Path) -> None:
    later = _later.get()
    for folder in dict.fromkeys(Path(os.path.realpath(path.parent)) for path in renamed):
        if not any(folder.is_relative_to(whole) for whole in later):
            sync_folder(folder)


@contextlib.contextmanager
def sync_later(*folders: Path) -> Iterator[None]:
    """Do not sync renames of this thread within the folders: the caller syncs them at the end."""
    token = _later.set((*_later.get(), *(Path(os.path.realpath(one)) for one in folders)))
    try:
        yield
    finally:
        _later.reset(token)


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk, on systems that can sync folders.

    Raises `WriteError` if the disk refuses: the entries may be lost at a power cut.
    """
    try:
        descriptor = open_descriptor(folder, os.O_RDONLY)
    except OSError:  # the folder may be written but not read, or the system opens no folders
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in _DAMAGED:
            raise WriteError(
                f"{folder}: cannot sync: {error.strerror or error}; new files in it may be lost at "
                "a power cut, check the disk"
            ) from error
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush the entries of a folder and of all folders in it to disk, the innermost first."""
    for inner, _, _ in os.walk(folder, topdown=False):
        sync_folder(Path(inner))
