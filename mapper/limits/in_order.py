"""The first mapping of a run with a time limit: vertices in order, core after core."""

from __future__ import annotations

import numpy as np

from storage.arrays import Int32, Int64


def fill_in_order(sizes: Int64, capacity: int, cores: Int64) -> Int32 | None:
    """Return the core of every vertex, shape (vertices,); None if the cores do not suffice.

    A core takes the next vertices as long as they fit.

    sizes : shape (vertices,); each at most the capacity of a core
    cores : ids of the cores that may be used, in the order in which they are filled
    """
    ends = np.cumsum(sizes)
    found = np.empty(sizes.size, np.int32)
    first, before = 0, 0
    for core in cores:
        end = int(np.searchsorted(ends, before + capacity, side="right"))
        found[first:end] = core
        first = end
        if first == sizes.size:
            return found
        before = int(ends[first - 1]) if first else 0
    return found if first == sizes.size else None
