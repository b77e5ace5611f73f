"""Neighbour lists on disk in a form that is cheap to read again and again.

The partitioner passes over a network a dozen times or more. Varints behind zstd, as levels and
network files have them, take 11.4 ns a connection to read; the form here takes 2.2, in 3.2 bytes
instead of 2.1 where ids are in natural order and 3.1 in both where they are shuffled (sheet of a
million neurons, 100 neighbours each).

Lists of numbers (degrees; differences of neighbouring ids; weights) have 1, 2 or 4 bytes a number,
chosen for each list of each block. A number that does not fit is written as the largest of the
unit and follows in a list of its own, so that all others stay where they are expected. This is the
patching of Zukowski, Heman, Nes and Boncz (ICDE 2006) with bytes for bits.

File: the blocks; the end of each (int64) and the CRC-32 of each (int64); the degrees (int32);
vertices, entries and vertices a block (int64); MAGIC. It is read by the machine that wrote it
and gone with the run. Files appear under their name when they are complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from isal import isal_zlib
from numba import njit
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import CorruptError
from storage.files import PartialFile
from storage.parallel import map_ordered

MAGIC = b"MAPROWS1"
TAIL = 32
UNITS = (np.uint8, np.uint16, np.uint32)
EXTRA_COST = 16  # a number that does not fit costs as much as so many bytes: a branch goes wrong
ALIGNMENT = 4
HEAD = 4  # numbers before a list: numbers, bytes of each, extras, 0

Lists = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]


@njit(cache=True, nogil=True)
def _large(values):
    """How many values do not fit a byte, and two."""
    one = two = 0
    for value in values:
        one += value >= 0xFF
        two += value >= 0xFFFF
    return one, two


@njit(cache=True, nogil=True)
def _pack(values, escape, main, extra):
    at = 0
    for i in range(values.size):
        value = values[i]
        if value < escape:
            main[i] = value
        else:
            main[i] = escape
            extra[at] = value
            at += 1


@njit(cache=True, nogil=True)
def _unpack(main, escape, extra, values):
    at = 0
    for i in range(main.size):
        value = np.int64(main[i])
        if value == escape:
            value = np.int64(extra[at])
            at += 1
        values[i] = value


@njit(cache=True, nogil=True)
def _gaps(indptr, ids, gaps):
    """Ids of a row are increasing: the first, then differences less one."""
    for v in range(indptr.size - 1):
        previous = np.int64(-1)
        for e in range(indptr[v], indptr[v + 1]):
            gaps[e] = ids[e] - previous - 1
            previous = ids[e]


@njit(cache=True, nogil=True)
def _unpack_gaps(main, escape, extra, indptr, ids):
    """`_unpack` and the inverse of `_gaps` in one go."""
    at = 0
    for v in range(indptr.size - 1):
        stored = main[indptr[v] : indptr[v + 1]]
        row = ids[indptr[v] : indptr[v + 1]]
        previous = np.int64(-1)
        for e in range(stored.size):
            gap = np.int64(stored[e])
            if gap == escape:
                gap = np.int64(extra[at])
                at += 1
            previous += gap + 1
            row[e] = previous


def pack(values: NDArray[np.int32]) -> bytes:
    """A list of numbers that are not negative."""
    one, two = _large(values)
    cost = [size * values.size + EXTRA_COST * n for size, n in ((1, one), (2, two), (4, 0))]
    choice = cost.index(min(cost))
    unit, extras = UNITS[choice], (one, two, 0)[choice]
    main, extra = np.empty(values.size, unit), np.empty(extras, np.uint32)
    _pack(values, np.iinfo(unit).max, main, extra)
    head = np.array([values.size, main.itemsize, extras, 0], np.uint32)
    return b"".join(
        (head.tobytes(), extra.tobytes(), main.tobytes(), bytes(-main.nbytes % ALIGNMENT))
    )


class _Packed:
    """The lists of a block, one after the other; its bytes are known to be whole."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def _take(self, dtype: type[np.unsignedinteger], count: int) -> NDArray[np.unsignedinteger]:
        found: NDArray[np.unsignedinteger] = np.frombuffer(self._raw, dtype, count, self._at)
        self._at += found.nbytes + -found.nbytes % ALIGNMENT
        return found

    def next(self) -> tuple[NDArray[np.unsignedinteger], int, NDArray[np.unsignedinteger]]:
        """Numbers, the one that stands for an extra, and the extras."""
        count, size, extras, _ = self._take(np.uint32, HEAD).tolist()
        extra = self._take(np.uint32, extras)
        unit = UNITS[size // 2]
        return self._take(unit, count), int(np.iinfo(unit).max), extra


def pack_lists(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], weights: NDArray[np.int32]
) -> bytes:
    """Neighbour lists: ids increasing in each, weights not negative."""
    gaps = np.empty(ids.size, np.int32)
    _gaps(indptr, ids, gaps)
    return b"".join(map(pack, (np.diff(indptr).astype(np.int32), gaps, weights)))


def unpack_lists(raw: bytes) -> Lists:
    """What `pack_lists` was given."""
    packed = _Packed(raw)
    main, escape, extra = packed.next()
    indptr = np.zeros(main.size + 1, np.int64)
    _unpack(main, escape, extra, indptr[1:])
    np.cumsum(indptr, out=indptr)
    main, escape, extra = packed.next()
    ids = np.empty(main.size, np.int32)
    _unpack_gaps(main, escape, extra, indptr, ids)
    main, escape, extra = packed.next()
    weights = np.empty(main.size, np.int32)
    _unpack(main, escape, extra, weights)
    return indptr, ids, weights


class RowFile(Closing):
    """Neighbour lists of all vertices, block by block; see `write_rows`.

    vertices, entries : in all; block_size : vertices of a block, the last may have fewer
    """

    def __init__(self, path: Path) -> None:
        """Raises `FileNotFoundError` if there is none, `CorruptError` if it is damaged."""
        self.path = path
        self._file = os.open(path, os.O_RDONLY)
        end = os.fstat(self._file).st_size - TAIL
        tail = self._pread(TAIL, max(end, 0))
        if len(tail) < TAIL or tail[-8:] != MAGIC:
            self.close()
            raise CorruptError(f"{path}: is no file of neighbour lists; run again")
        self.vertices, self.entries, self.block_size = np.frombuffer(tail, np.int64, 3).tolist()
        self._degrees = end - 4 * self.vertices
        about = self._pread(16 * self.block_count, self._degrees - 16 * self.block_count)
        self._ends, self._sums = np.frombuffer(about, np.int64).reshape(2, -1)

    @property
    def block_count(self) -> int:
        return -(-self.vertices // self.block_size)

    def _pread(self, count: int, at: int) -> bytes:
        """So many bytes, however many the system reads at once."""
        data = os.pread(self._file, count, at)
        while len(data) < count:
            more = os.pread(self._file, count - len(data), at + len(data))
            if not more:
                break
            data += more
        return data

    def degrees(self) -> NDArray[np.int32]:
        """Neighbours of each vertex, shape (vertices,)."""
        return np.frombuffer(self._pread(4 * self.vertices, self._degrees), np.int32)

    def read(self, index: int) -> Lists:
        """Block `index`: indptr (int64), ids and weights (int32); by any number of threads.

        Raises `CorruptError` if its bytes are damaged.
        """
        start = int(self._ends[index - 1]) if index else 0
        raw = self._pread(int(self._ends[index]) - start, start)
        if isal_zlib.crc32(raw) != self._sums[index]:
            raise CorruptError(f"{self.path}: block {index} is damaged; run again")
        return unpack_lists(raw)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def write_rows(
    path: Path,
    vertices: int,
    block_size: int,
    read: Callable[[int], Lists],
    threads: int = 1,
    advance: Callable[[int], None] = lambda done: None,
) -> None:
    """Write a `RowFile`.

    read : gives block i, for 0 <= i < ceil(vertices / block_size); called by several threads
    advance : called with the entries of each block

    Not synced: after a power cut the file may be damaged, which its checksums would tell.
    Raises `WriteError`, and leaves no file, if the disk is full.
    """
    degrees = np.empty(vertices, np.int32)

    def packed(index: int) -> tuple[int, bytes, int]:
        indptr, ids, weights = read(index)
        degrees[index * block_size :][: indptr.size - 1] = np.diff(indptr)
        raw = pack_lists(indptr, ids, weights)
        return ids.size, raw, isal_zlib.crc32(raw)

    def parts(file: PartialFile) -> Iterator[tuple[int, int]]:
        for entries, raw, crc in map_ordered(packed, range(-(-vertices // block_size)), threads):
            file.write(raw)
            advance(entries)
            yield file.position, crc

    with PartialFile(path) as file:
        ends, sums = np.array(list(parts(file)), np.int64).reshape(-1, 2).T
        counts = np.array([vertices, degrees.sum(dtype=np.int64), block_size], np.int64)
        for array in (ends, sums, degrees, counts):
            file.write(array.tobytes())
        file.write(MAGIC)
        file.commit(sync=False)
