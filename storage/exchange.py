"""Folders that take each other's place in one step, where the system can do that."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_HERE = -100  # AT_FDCWD: relative paths start at the current folder
_EXCHANGE = 2  # RENAME_EXCHANGE
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


@cache
def _renameat2() -> Callable[..., int] | None:
    """Linux's renameat2; None on other systems, and with a C library that does not know it."""
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
    """Give two files or folders each other's name, at once: nobody sees one of them missing.

    Returns False, and does nothing, where the system or the file system can't. Raises `OSError`
    for anything else that goes wrong.
    """
    rename = _renameat2()
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where a system lets folders be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
