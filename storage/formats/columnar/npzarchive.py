"""Archives of NumPy arrays that users pass: opened within a memory budget, and their damage."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from isal import igzip_lib

from storage import npz
from storage.budget import require_room, require_stored
from storage.errors import BadInputError

NPY_MAGIC = b"\x93NUMPY"
_ISAL_ERROR: Any = igzip_lib.IsalError
DAMAGE: tuple[type[Exception], ...] = (*npz.DAMAGE, _ISAL_ERROR)
"""Errors of numpy, scipy and zipfile on altered files."""
UNREADABLE: tuple[type[Exception], ...] = (*DAMAGE, OSError)


def damaged(path: Path, error: Exception) -> BadInputError:
    reason = " ".join(str(error).split())[:120]
    return BadInputError(f"{path}: not a valid npz file ({reason}); save it again")


def open_archive(file: BinaryIO, memory: int, wanted: Callable[[str], bool] = bool) -> Any:
    """Open an archive with numpy; raise `MemoryShortError` if one array exceeds the memory.

    wanted : whether an array will be read
    """
    start = file.read(len(NPY_MAGIC))
    if start == NPY_MAGIC:
        raise ValueError("a single array, not an archive of numpy.savez")
    if not start.startswith(b"PK"):  # numpy would report a pickle
        raise ValueError("it does not start like a zip archive")
    file.seek(0)
    for name, size in npz.array_sizes(file, wanted):
        require_stored(f"{file.name}: array {name}", size, os.fstat(file.fileno()).st_size)
        require_room(f"{file.name}: array {name}", size, memory)
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        arrays = [one.removesuffix(".npy") for one in archive.namelist() if one.endswith(".npy")]
    file.seek(0)
    return npz.load_arrays(file, arrays)
