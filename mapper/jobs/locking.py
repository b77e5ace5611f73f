"""Locks of outputs against other commands."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path


def lock_output(path: Path | None, folder: bool = False) -> AbstractContextManager[object]:
    """Return a lock against other processes that write the same output.

    folder : the output is a folder of several files, not a file

    Raises `WriteError` for a path that cannot be written, before it is locked, except for a missing
    folder around it: opening the file reports that.
    """
    from storage.files import require_file_name, require_folder_name
    from storage.locks import OutputLock

    if path is not None:
        (require_folder_name if folder else require_file_name)(path)
    return nullcontext() if path is None or not path.parent.is_dir() else OutputLock(path)
