"""Compare the sizes that a file declares with a budget, before anything is allocated.

::

    require_room(f"{path}: data set weight", declared_bytes(shape, 8), memory)
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from storage.errors import BadInputError, MemoryShortError

PACKED = 1100
"""Bytes of data per byte of a compressed file, at most: deflate reaches 1,032."""


def declared_bytes(shape: Iterable[int], itemsize: int) -> int:
    """Return the bytes that an array of a declared shape costs; integers of any size.

    Axes without elements count as one element, and so do types without bytes: work on the other
    axes costs time even if there is nothing to store.
    """
    return math.prod(max(1, int(size)) for size in shape) * max(1, itemsize)


def require_room(what: str, needed: int, memory: int) -> None:
    """Raise `MemoryShortError` if content of a file needs more bytes than a budget.

    what : subject of the message in the singular, with its file or node
    """
    if needed > memory:
        raise MemoryShortError(
            f"{what} needs {needed:,} bytes, but --memory leaves {memory:,}; check the sizes in "
            "the file, or raise --memory"
        )


def require_stored(what: str, declared: int, stored: int) -> None:
    """Raise `BadInputError` if a file cannot contain the data that it declares, even compressed.

    declared, stored : bytes of the content, and of the file
    """
    if declared > PACKED * stored:
        raise BadInputError(
            f"{what} declares {declared:,} bytes, but the file has only {stored:,}; is it complete?"
        )
