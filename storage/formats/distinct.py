"""Sorted set of any number of distinct integers: in memory if they fit, else in sorted runs on disk
that are merged at the end.

On disk, lookups scan the merged file in slices; see `compact.EdgeSpool`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import WriteError, write_error
from storage.files import writing
from storage.hashing import scrambled

SMALLEST_TABLE = 1 << 12
BYTES_PER_PLACE = 32  # bytes per table slot, including growth to twice the size, or numbers and ids
BYTES_PER_SLICE = 32  # bytes per id of a slice: a quarter of the memory
BYTES_PER_LOOKUP = 96  # bytes per lookup: half of the memory, as a lookup needs 44
LEAST_WINDOW = 16
_EMPTY = -1

Int64 = NDArray[np.int64]


@njit(cache=True, nogil=True)
def _place(table, key):
    """Return the slot of `key` in a table of 2^k slots, or the free slot for it."""
    mask = table.size - 1
    at = np.int64(scrambled(np.uint64(key)) & np.uint64(mask))  # hashed, as ids are regular
    while table[at] != _EMPTY and table[at] != key:
        at = (at + 1) & mask
    return at


@njit(cache=True, nogil=True)
def _insert(table, ids, most):
    """Insert ids until `most` were new; return (new ids, ids consumed)."""
    fresh = 0
    for i in range(ids.size):
        at = _place(table, ids[i])
        if table[at] == _EMPTY:
            if fresh >= most:
                return fresh, i
            table[at] = ids[i]
            fresh += 1
    return fresh, ids.size


@njit(cache=True, nogil=True)
def _number(table, numbers, ids):
    """Assign number i to the i-th of `ids`."""
    for i in range(ids.size):
        numbers[_place(table, ids[i])] = i


@njit(cache=True, nogil=True)
def _look_up(table, numbers, ids, out):
    """Look up the numbers of ids, all of which are in the table."""
    for i in range(ids.size):
        out[i] = numbers[_place(table, ids[i])]


class IdTable:
    """Set of non-negative integers, which are then numbered in increasing order.

    Open-addressing hash table, at most half full.

    places : most slots of the table, a bound on its memory
    """

    def __init__(self, places: int = 1 << 62) -> None:
        self._table = np.full(SMALLEST_TABLE, _EMPTY, np.int64)
        self._numbers = np.empty(0, np.int32)
        self._places = places
        self.size = 0

    def add(self, ids: Int64) -> Int64:
        """Add ids while they fit; return the ids that were not added."""
        with np.errstate(over="ignore"):  # the hash is modulo 2^64, also with the JIT off
            while ids.size:
                fresh, seen = _insert(self._table, ids, self._table.size // 2 - self.size)
                self.size += fresh
                ids = ids[seen:]
                if ids.size:
                    if 2 * self._table.size > self._places:
                        break
                    old = self._table[self._table != _EMPTY]
                    self._table = np.full(2 * self._table.size, _EMPTY, np.int64)
                    _insert(self._table, old, old.size)
        return ids

    def sorted(self) -> Int64:
        """Return all numbers, increasing, shape (size,)."""
        ids = self._table[self._table != _EMPTY]
        ids.sort()
        return ids

    def number(self, ids: Int64) -> None:
        """Number `ids` consecutively; they hold each number of the set once."""
        self._numbers = np.empty(self._table.size, np.int32)
        with np.errstate(over="ignore"):
            _number(self._table, self._numbers, ids)

    def numbers(self, ids: Int64) -> NDArray[np.int32]:
        """Return the numbers assigned by `number`, shape (ids,)."""
        out = np.empty(ids.size, np.int32)
        with np.errstate(over="ignore"):
            _look_up(self._table, self._numbers, ids, out)
        return out


class TemporaryNumbers(Closing):
    """An unnamed temporary file of int64, which disappears with the process."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise write_error(folder, error) from error
        self._folder = folder
        self.size = 0

    def append(self, numbers: Int64) -> None:
        with writing(self._folder):
            self._file.seek(8 * self.size)
            self._file.write(np.ascontiguousarray(numbers).data)
        self.size += numbers.size

    def read(self, first: int, last: int) -> Int64:
        """Return numbers `first` .. `last`-1, shape (last - first,)."""
        numbers = np.empty(last - first, np.int64)
        self._file.seek(8 * first)
        view = memoryview(numbers.data).cast("B")
        while view:
            count = self._file.readinto(view)  # type: ignore[attr-defined]
            if not count:
                raise WriteError(f"{self._folder}: a temporary file was truncated; import again")
            view = view[count:]
        return numbers

    def close(self) -> None:
        self._file.close()


class DistinctIds(Closing):
    """Set of non-negative integers, with the rank of each in increasing order.

    folder : for spilled runs; memory : bytes for a table, or for merging and lookups
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self._folder, self._memory = folder, memory
        places = max(SMALLEST_TABLE, memory // BYTES_PER_PLACE)
        self._places = 1 << (places.bit_length() - 1)
        self._table = IdTable(self._places)
        self._file: TemporaryNumbers | None = None
        self._runs: list[tuple[int, int]] = []  # first and end positions in the file
        self._all: Int64 | None = None  # all ids once numbered, if in memory

    def add(self, ids: Int64) -> None:
        self._all = None
        while (ids := self._table.add(ids)).size:
            self._spill()

    @property
    def seen(self) -> int:
        """Return a lower bound of the size, without merging."""
        return max([self._table.size, *(end - begin for begin, end in self._runs)])

    @property
    def size(self) -> int:
        """Return the number of ids; merges the runs on disk."""
        return self._merged().size if self._runs else self._table.size

    @property
    def largest(self) -> int:
        """Return the largest id; the set must not be empty."""
        return int(self.read(self.size - 1, self.size)[0])

    @property
    def at_a_time(self) -> int | None:
        """Batch size for lookups that limits the passes over the disk; None: any."""
        return self._memory // BYTES_PER_LOOKUP if self._runs else None

    def read(self, first: int, last: int) -> Int64:
        """Return the ids of ranks first .. last-1, shape (last - first,)."""
        return self._merged().read(first, last) if self._runs else self._counted()[first:last]

    def at(self, places: Int64) -> Int64:
        """Return the ids of arbitrary ranks, shape (places,)."""
        if not self._runs:
            return self._counted()[places]
        out = np.empty_like(places)
        for first, ids in self._slices(int(places.min(initial=0)), int(places.max(initial=-1)) + 1):
            here = np.flatnonzero((places >= first) & (places < first + ids.size))
            out[here] = ids[places[here] - first]
        return out

    def numbers(self, ids: Int64) -> NDArray[np.int32]:
        """Return the ranks of ids, shape (ids,)."""
        if not self._runs:
            self._counted()
            return self._table.numbers(ids)
        out = np.empty(ids.size, np.int32)
        order = np.argsort(ids)
        wanted = ids[order]
        done = 0
        for first, some in self._slices(0, self.size):
            upto = int(np.searchsorted(wanted, some[-1], side="right"))
            out[order[done:upto]] = first + np.searchsorted(some, wanted[done:upto])
            done = upto
        return out

    def _counted(self) -> Int64:
        if self._all is None:
            self._all = self._table.sorted()
            self._table.number(self._all)
        return self._all

    def _slices(self, first: int, last: int) -> Iterator[tuple[int, Int64]]:
        """Yield the ids of ranks first .. last-1 in pieces, each with its first rank."""
        step = max(1, self._memory // BYTES_PER_SLICE)
        for start in range(first, last, step):
            yield start, self.read(start, min(start + step, last))

    def _spill(self) -> None:
        if self._file is None:
            self._file = TemporaryNumbers(self._folder)
        first = self._file.size
        self._file.append(self._table.sorted())
        self._runs.append((first, self._file.size))
        self._table = IdTable(self._places)

    def _merged(self) -> TemporaryNumbers:
        """Merge all ids, including the table, into one run on disk."""
        if self._table.size:
            self._spill()
        assert self._file is not None
        if len(self._runs) > 1:
            window = max(LEAST_WINDOW, self._memory // (BYTES_PER_PLACE * len(self._runs)))
            merged = TemporaryNumbers(self._folder)
            for piece in merge_sorted(self._file, self._runs, window):
                merged.append(piece)
            self._file.close()
            self._file, self._runs = merged, [(0, merged.size)]
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def merge_sorted(
    file: TemporaryNumbers, runs: Sequence[tuple[int, int]], window: int
) -> Iterator[Int64]:
    """Merge increasing runs of a file: yield each number once, increasing.

    runs : begin and end of each; window : numbers of each run held in memory
    """
    begins = [begin for begin, _ in runs]
    held = [np.empty(0, np.int64) for _ in runs]
    while True:
        for k, (_, end) in enumerate(runs):
            if not held[k].size and begins[k] < end:
                last = min(begins[k] + window, end)
                held[k] = file.read(begins[k], last)
                begins[k] = last
        waiting = [k for k, numbers in enumerate(held) if numbers.size]
        if not waiting:
            return
        # numbers are complete only up to the smallest last value of the windows
        least = min(held[k][-1] for k in waiting)
        parts = []
        for k in waiting:
            count = int(np.searchsorted(held[k], least, side="right"))
            parts.append(held[k][:count])
            held[k] = held[k][count:]
        merged = np.concatenate(parts)
        merged.sort()  # `unique` may hash, which needs several times the memory
        yield merged[np.r_[True, merged[1:] > merged[:-1]]]
