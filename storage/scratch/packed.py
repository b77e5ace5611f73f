"""Neighbour lists in scratch, in a form that is cheap to read again and again.

The partitioner passes over a network a dozen times or more. Varints behind zstd, as levels have
them, take 11.4 ns a connection to read; the form here takes 2.1, in 3.2 bytes instead of 2.1 where
ids are in natural order and 3.0 instead of 3.1 where they are shuffled (sheet of a million neurons,
100 neighbours each).

Lists of numbers (degrees; differences of neighbouring ids; weights) have 1, 2 or 4 bytes a number,
chosen for each list of each block. A number that does not fit is written as the largest of the
unit and follows in a list of its own, so that all others stay where they are expected. This is the
patching of Zukowski, Heman, Nes and Boncz (ICDE 2006) with bytes for bits.

The zstd frame around it is of the fastest kind, which copies more than it compresses: level 1 would
save 40 % of the bytes in natural order, and take 4.8 ns to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.errors import CorruptError
from storage.parallel import map_ordered
from storage.scratch.scratch import Scratch, compress

FAST = -20  # level of zstd
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


def unpack(raw: bytes) -> NDArray[np.int32]:
    """What `pack` was given."""
    main, escape, extra = _Packed(raw).next()
    values = np.empty(main.size, np.int32)
    _unpack(main, escape, extra, values)
    return values


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


class PackedRows:
    """Neighbour lists of all vertices, kept in scratch block by block; see `write_packed`.

    vertices, entries : in all; block_size : vertices of a block, the last may have fewer
    heaviest : the largest weight
    """

    def __init__(self, scratch: Scratch, name: str) -> None:
        """Raises `KeyError` if there are none of this name."""
        about = scratch.get_json(f"{name}/rows")
        self.vertices = int(about["vertices"])
        self.entries = int(about["entries"])
        self.block_size = int(about["block_size"])
        self.heaviest = int(about["heaviest"])
        self._scratch = scratch
        self._name = name

    @property
    def block_count(self) -> int:
        return -(-self.vertices // self.block_size)

    def degrees(self) -> NDArray[np.int32]:
        """Neighbours of each vertex, shape (vertices,)."""
        found: NDArray[np.int32] = self._scratch.get_array(f"{self._name}/degrees")
        return found

    def read(self, index: int) -> Lists:
        """Block `index`: indptr (int64), ids and weights (int32); by any number of threads.

        Raises `CorruptError` if its bytes are damaged.
        """
        key = _key(self._name, index)
        try:
            return unpack_lists(self._scratch.get(key))
        except KeyError as error:
            raise CorruptError(f"{self._scratch.path}: {key} is missing; run again") from error


def _key(name: str, index: int) -> str:
    return f"{name}/packed/{index:08d}"


class PackedBlock(NamedTuple):
    """The lists of a block as they are kept.

    degrees : ndarray[int32], their lengths; heaviest : the largest weight
    """

    number: int
    degrees: NDArray[np.int32]
    heaviest: int
    packed: bytes


def pack_block(
    number: int, indptr: NDArray[np.int64], ids: NDArray[np.int32], weights: NDArray[np.int32]
) -> PackedBlock:
    """Block `number`; ids increasing in each list, weights not negative."""
    degrees = np.diff(indptr).astype(np.int32)
    packed = compress(pack_lists(indptr, ids, weights), FAST)
    return PackedBlock(number, degrees, int(weights.max(initial=0)), packed)


def keep_packed(
    scratch: Scratch, name: str, vertices: int, block_size: int, blocks: Iterable[PackedBlock]
) -> PackedRows:
    """Keep all blocks of neighbour lists, in any order; returns them opened for reading."""
    degrees = np.empty(vertices, np.int32)
    heaviest = [0]

    def items() -> Iterable[tuple[str, bytes]]:
        for block in blocks:
            heaviest.append(block.heaviest)
            degrees[block.number * block_size :][: block.degrees.size] = block.degrees
            yield _key(name, block.number), block.packed

    scratch.put_compressed(items())
    scratch.put_array(f"{name}/degrees", degrees)
    entries = int(degrees.sum(dtype=np.int64))
    about = {
        "vertices": vertices, "entries": entries, "block_size": block_size,
        "heaviest": max(heaviest),
    }  # fmt: skip
    scratch.put_json(f"{name}/rows", about)  # last: without it the rows do not exist
    return PackedRows(scratch, name)


def write_packed(
    scratch: Scratch,
    name: str,
    vertices: int,
    block_size: int,
    read: Callable[[int], Lists],
    threads: int = 1,
    advance: Callable[[int], None] = lambda done: None,
) -> PackedRows:
    """Keep neighbour lists; returns them opened for reading.

    read : gives block i, for 0 <= i < ceil(vertices / block_size); called by several threads
    advance : called with the entries of each block
    """

    def packed(index: int) -> PackedBlock:
        lists = read(index)
        advance(lists[1].size)
        return pack_block(index, *lists)

    blocks = range(-(-vertices // block_size))
    return keep_packed(scratch, name, vertices, block_size, map_ordered(packed, blocks, threads))


class RowCache:
    """Neighbour lists that are kept in scratch once they have been read, block by block."""

    def __init__(self, scratch: Scratch, name: str, read: Callable[[int], Lists]) -> None:
        """read : gives block i where it is not kept yet; called by several threads."""
        self._scratch, self._name, self._read = scratch, name, read

    def read(self, index: int) -> Lists:
        """Block `index`; by any number of threads."""
        key = _key(self._name, index)
        if key in self._scratch:
            return unpack_lists(self._scratch.get(key))
        lists = self._read(index)
        self._scratch.put_compressed([(key, compress(pack_lists(*lists), FAST))])
        return lists


class UnitCache:
    """Neighbour lists that are made some blocks at a time, and then kept in scratch."""

    def __init__(
        self,
        scratch: Scratch,
        name: str,
        blocks: int,
        together: int,
        make: Callable[[int], Iterable[Lists]],
    ) -> None:
        """together : blocks of a unit, of which the last may have fewer

        make : gives the blocks of unit i, one by one; of several units by several threads
        """
        self._scratch, self._name, self._together, self._make = scratch, name, together, make
        self._locks = [Lock() for _ in range(-(-blocks // together))]

    def read(self, index: int) -> Lists:
        """Block `index`; by any number of threads."""
        key = _key(self._name, index)
        if key not in self._scratch:
            unit = index // self._together
            with self._locks[unit]:
                if key not in self._scratch:
                    made = enumerate(self._make(unit), unit * self._together)
                    self._scratch.put_compressed(
                        (_key(self._name, at), compress(pack_lists(*lists), FAST))
                        for at, lists in made
                    )
        return unpack_lists(self._scratch.get(key))
