"""Traffic between cores, summed while the network streams by.

The sums are a sparse matrix: (source core, target core) -> weight. While few cores are in use it
is kept as a dense one; else as sorted runs of unequal length that are merged as in a
log-structured store, so that each entry is copied O(log) times and no more than about twice the
final size is held. All sums are int64, so the order of arrival does not matter.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.protocols import BoolArray, Int64Array

DENSE_CORES = 1024
"""Up to this many cores in use the matrix is dense (8 MiB)."""


class PairSums:
    """Sums per key ``source core * cores + target core``.

    Parameters
    ----------
    used : shape (cores,)
        True for the cores that keys may name.
    dense_cores
        Largest number of used cores for which a dense matrix is kept.
    """

    def __init__(self, used: BoolArray, dense_cores: int | None = None) -> None:
        self._cores = len(used)
        self._used = np.flatnonzero(used)
        self._rank = np.cumsum(used, dtype=np.int64) - 1
        limit = DENSE_CORES if dense_cores is None else dense_cores
        self._dense: Int64Array | None = None
        if len(self._used) <= limit:
            self._dense = np.zeros((len(self._used), len(self._used)), dtype=np.int64)
        self._runs: list[tuple[Int64Array, Int64Array]] = []

    def add(self, keys: Int64Array, sums: Int64Array) -> None:
        """Add a run: strictly increasing keys, a positive sum for each; both are copied."""
        if not len(keys):
            return
        if self._dense is not None:
            source, target = np.divmod(keys, self._cores)
            # No key repeats within a run, so that plain fancy indexing adds every entry.
            self._dense[self._rank[source], self._rank[target]] += sums
            return
        run = (keys.copy(), sums.copy())
        while self._runs and 2 * len(run[0]) >= len(self._runs[-1][0]):
            run = _merge(*self._runs.pop(), *run)
        self._runs.append(run)

    def result(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """All sums: source core, target core, weight, sorted by source and then target."""
        if self._dense is not None:
            row, column = np.nonzero(self._dense)
            return self._used[row], self._used[column], self._dense[row, column]
        none = np.zeros(0, dtype=np.int64)
        run = (none, none)
        while self._runs:
            run = _merge(*self._runs.pop(), *run)
        self._runs.append(run)
        source, target = np.divmod(run[0], self._cores)
        return source, target, run[1]


def _merge(
    keys_a: Int64Array, sums_a: Int64Array, keys_b: Int64Array, sums_b: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Two runs as one."""
    keys = np.empty(len(keys_a) + len(keys_b), dtype=np.int64)
    sums = np.empty_like(keys)
    n = _merge_into(keys_a, sums_a, keys_b, sums_b, keys, sums)
    return (keys, sums) if n == len(keys) else (keys[:n].copy(), sums[:n].copy())


@njit(cache=True, nogil=True)
def _merge_into(
    keys_a: Int64Array,
    sums_a: Int64Array,
    keys_b: Int64Array,
    sums_b: Int64Array,
    keys: Int64Array,
    sums: Int64Array,
) -> int:
    """Merge the strictly increasing runs a and b into (keys, sums); returns the length."""
    a = 0
    b = 0
    n = 0
    while a < len(keys_a) or b < len(keys_b):
        if b == len(keys_b) or (a < len(keys_a) and keys_a[a] < keys_b[b]):
            keys[n] = keys_a[a]
            sums[n] = sums_a[a]
            a += 1
        elif a == len(keys_a) or keys_b[b] < keys_a[a]:
            keys[n] = keys_b[b]
            sums[n] = sums_b[b]
            b += 1
        else:
            keys[n] = keys_a[a]
            sums[n] = sums_a[a] + sums_b[b]
            a += 1
            b += 1
        n += 1
    return n
