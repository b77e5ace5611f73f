"""Memory maps that other libraries hold: how to let go of pages that are only copies of a file.

Pages of a mapped file count as resident memory of the process for as long as they stay mapped,
although the system could take them back at any time. Dropping them costs a page fault each where
they are read again, and keeps the promise of a memory limit visible to everyone who measures it.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MAPS = Path("/proc/self/maps")


def mapping_of(path: Path) -> tuple[int, int] | None:
    """Address and length of the process's shared map of a file; None if there is none to see."""
    try:
        inode = path.stat().st_ino
        lines = _MAPS.read_text(errors="replace").splitlines()
    except OSError:
        return None  # no such file, or no such system
    spans = []
    for line in lines:
        span, rights, _, _, number, *_ = line.split(maxsplit=5)
        if int(number) == inode and rights.endswith("s"):
            start, end = (int(end, 16) for end in span.split("-"))
            if end - start >= path.stat().st_size:
                spans.append((start, end - start))
    return max(spans, key=lambda span: span[1], default=None)


def _madvise() -> Callable[..., int] | None:
    if not hasattr(mmap, "MADV_DONTNEED"):
        return None
    try:
        function: Any = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function


def drop_pages(address: int, length: int) -> bool:
    """Unmap the pages of a shared, read-only map; any thread may go on reading meanwhile.

    Returns whether the system did it.
    """
    advise = _madvise()
    return advise is not None and advise(address, length, mmap.MADV_DONTNEED) == 0
