"""Traffic between cores, summed while the network is streamed.

The sums are a sparse matrix: (source core, target core) -> weight. It is stored as sorted runs of
unequal length that are merged as in a log-structured store: each entry is copied O(log) times, and
memory stays below about twice the final size. A run is a string of varints, seven bits per byte,
least significant group first: for each entry the gap to the previous key and the sum. That is 2 to
4 bytes per entry instead of 16 in arrays, and merging is as fast. All sums are exact, so neither
the order of arrival nor the threads matter.

Floating-point results are summed by ranges of source cores, which depend on the number of cores
only. So they do not depend on the thread that processes a range or on the content of memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from numba import njit

from chipsim.protocols import ByteArray, Int32Array, Int64Array

STRIPE_PAIRS = 1 << 18
"""Approximate number of pairs that are decoded at a time: 4 MiB."""
SPILL_BYTES = 1 << 26
"""Runs that may become longer are stored in a temporary file, if there is a scratch folder."""
RANGES = 64
"""Maximum number of ranges of source cores: one per thread for up to this many threads."""
LEAST_RANGE = 512
"""Minimum number of cores per range. All pairs of so few cores form one stripe."""

_ENTRY_BYTES = 18  # bytes: a key and a sum below 2^63 need nine bytes each


@dataclass(frozen=True, slots=True)
class PairRun:
    """Entries with strictly increasing keys ``source core * cores + target core``.

    data : ndarray[uint8], the varints of the entries
    count : number of entries
    """

    data: ByteArray
    count: int


class PairSums:
    """Sums per key ``source core * cores + target core``; several threads may add to it.

    Parameters
    ----------
    cores : cores of the mesh
    scratch : folder for temporary files, or None to keep everything in memory
    """

    def __init__(self, cores: int, scratch: Path | None = None) -> None:
        self._cores = cores
        self._scratch = scratch
        self._lock = Lock()
        self._runs: list[PairRun] = []

    def add(self, keys: Int64Array, sums: Int64Array) -> None:
        """Add a run: strictly increasing keys with positive sums; both are copied."""
        if not len(keys):
            return
        data = np.empty(_ENTRY_BYTES * len(keys), dtype=np.uint8)
        self.add_run(PairRun(data[: _encode(keys, sums, data)].copy(), len(keys)))

    def add_run(self, run: PairRun) -> None:
        """Add the sums of another process, see `PairTable.run`."""
        while (other := self._partner(run)) is not None:
            run = self._merged(other, run)

    def table(self) -> PairTable:
        """Return all sums; nothing may be added meanwhile."""
        run = PairRun(np.zeros(0, dtype=np.uint8), 0)
        while self._runs:
            run = self._merged(self._runs.pop(), run)
        self._runs.append(run)
        return PairTable(self._cores, run)

    def _partner(self, run: PairRun) -> PairRun | None:
        """Return a run to merge ``run`` with, or None after storing ``run``."""
        with self._lock:  # merging itself happens outside, in parallel
            if self._runs and 2 * len(run.data) >= len(self._runs[-1].data):
                return self._runs.pop()
            self._runs.append(run)
            return None

    def _merged(self, a: PairRun, b: PairRun) -> PairRun:
        # Merging only shortens gaps, and a sum needs no more bytes than its two terms.
        data = self._room(len(a.data) + len(b.data))
        length, count = _merge(a.data, b.data, data)
        # Pages after the end were never touched, so the slice costs no memory.
        return PairRun(data[:length], count)

    def _room(self, size: int) -> ByteArray:
        """Return an array of ``size`` bytes, backed by a temporary file if it is large."""
        if self._scratch is None or size <= SPILL_BYTES:
            return np.empty(size, dtype=np.uint8)
        with tempfile.TemporaryFile(dir=self._scratch) as file:
            if hasattr(os, "posix_fallocate"):  # report a full disk here instead of crashing later
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return np.frombuffer(mmap.mmap(file.fileno(), size), dtype=np.uint8)


class PairTable:
    """The core pairs with traffic, sorted by source and then target.

    Traffic within a core is included, with source = target. ``len()`` is the number of pairs.

    run : the pairs as one string, for other processes
    """

    def __init__(self, cores: int, run: PairRun) -> None:
        self._cores = cores
        self.run = run
        span = max(LEAST_RANGE, -(-cores // RANGES))
        most = run.count // STRIPE_PAIRS + -(-cores // span) + 2
        starts = np.zeros((most, 4), dtype=np.int64)
        used = _cut(run.data, cores, span, STRIPE_PAIRS, starts)
        self._starts = starts[: used + 1]
        first = np.flatnonzero(np.diff(self._starts[:-1, 3], prepend=-1))
        self._ranges = np.append(first, used)

    def __len__(self) -> int:
        return self.run.count

    @property
    def stripes(self) -> int:
        """Number of stripes."""
        return len(self._starts) - 1

    def stripe(self, index: int) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Return source core, target core and weight of the pairs of some consecutive source cores.

        All pairs of a source core are in one stripe. Stripe boundaries depend only on the pairs of
        their range.
        """
        return self._decode(index, index + 1)

    @property
    def ranges(self) -> int:
        """Number of ranges of source cores that have pairs."""
        return len(self._ranges) - 1

    def stripes_of(self, index: int) -> Iterator[tuple[Int32Array, Int32Array, Int64Array]]:
        """Yield the stripes of a range of source cores in order."""
        for stripe in range(self._ranges[index], self._ranges[index + 1]):
            yield self.stripe(stripe)

    def arrays(self) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Return source core, target core and weight of all pairs: 16 bytes per pair."""
        return self._decode(0, self.stripes)

    def _decode(self, first: int, last: int) -> tuple[Int32Array, Int32Array, Int64Array]:
        at, key, done, _ = (int(value) for value in self._starts[first])
        count = int(self._starts[last, 2]) - done
        source = np.empty(count, dtype=np.int32)
        target = np.empty(count, dtype=np.int32)
        weight = np.empty(count, dtype=np.int64)
        _decode(self.run.data, at, key, self._cores, source, target, weight)
        return source, target, weight


@njit(cache=True, nogil=True)
def _read(data, at):
    """Return the number at ``at``, and the position of the next one."""
    byte = np.int64(data[at])
    value = byte & 127
    shift = 7
    while byte > 127:
        at += 1
        byte = np.int64(data[at])
        value |= (byte & 127) << shift
        shift += 7
    return value, at + 1


@njit(cache=True, nogil=True)
def _write(data, at, value):
    """Write a number, 0 or more, at ``at``; return the position of the next one."""
    while value > 127:
        data[at] = (value & 127) | 128
        value >>= 7
        at += 1
    data[at] = value
    return at + 1


@njit(cache=True, nogil=True)
def _encode(keys, sums, data):
    """Encode keys and sums as varints; return the number of bytes."""
    at = 0
    last = np.int64(0)
    for i in range(len(keys)):
        at = _write(data, at, keys[i] - last)
        at = _write(data, at, sums[i])
        last = keys[i]
    return at


@njit(cache=True, nogil=True)
def _merge(a, b, data):
    """Merge the runs a and b into ``data``; return the number of bytes and of entries."""
    end = np.int64(2**63 - 1)  # sentinel key
    at_a = 0
    at_b = 0
    at = 0
    count = 0
    last = np.int64(0)
    key_a = np.int64(0)
    key_b = np.int64(0)
    if len(a):
        key_a, at_a = _read(a, 0)
    else:
        key_a = end
    if len(b):
        key_b, at_b = _read(b, 0)
    else:
        key_b = end
    while key_a != end or key_b != end:
        key = min(key_a, key_b)
        total = np.int64(0)
        if key_a == key:
            value, at_a = _read(a, at_a)
            total += value
            if at_a < len(a):
                gap, at_a = _read(a, at_a)
                key_a += gap
            else:
                key_a = end
        if key_b == key:
            value, at_b = _read(b, at_b)
            total += value
            if at_b < len(b):
                gap, at_b = _read(b, at_b)
                key_b += gap
            else:
                key_b = end
        at = _write(data, at, key - last)
        at = _write(data, at, total)
        last = key
        count += 1
    return at, count


@njit(cache=True, nogil=True)
def _cut(data, cores, span, least, starts):
    """Find the starts of the stripes.

    A stripe ends at the first source core after at least ``least`` pairs, or at a multiple of
    ``span`` source cores.

    starts : (stripes + 1, 4): offset of the entry, the key before it, the number of entries before,
        the range of source cores

    Returns the number of stripes; the entry after them is the end.
    """
    at = 0
    key = np.int64(0)
    count = 0
    stripes = 0
    since = 0  # entries before the current stripe
    row_end = np.int64(0)
    range_end = np.int64(0)
    while at < len(data):
        before = at
        gap, at = _read(data, at)
        if key + gap >= row_end:
            source = (key + gap) // cores
            if source >= range_end or count - since >= least:
                starts[stripes, 0] = before
                starts[stripes, 1] = key
                starts[stripes, 2] = count
                starts[stripes, 3] = source // span
                range_end = (source // span + 1) * span
                since = count
                stripes += 1
            row_end = (source + 1) * cores
        key += gap
        _, at = _read(data, at)
        count += 1
    starts[stripes, 0] = at
    starts[stripes, 1] = key
    starts[stripes, 2] = count
    return stripes


@njit(cache=True, nogil=True)
def _decode(data, at, key, cores, source, target, weight):
    """Fill the arrays from the entries at ``at``; ``key`` is the key before them."""
    row = key // cores
    for i in range(len(source)):
        gap, at = _read(data, at)
        key += gap
        if key - row * cores >= cores:  # divide only where a row ends
            row = key // cores
        weight[i], at = _read(data, at)
        source[i] = row
        target[i] = key - row * cores
