"""Compact records of connections in buckets of consecutive owners: the runs of the external sort.

A run holds the connections of one full buffer, ordered by bucket and by nothing else: bucket b
has the owners b * 2^shift .. (b+1) * 2^shift - 1. A record is the key `owner within the bucket,
other end, direction` in as few bytes as it needs, then the weight in as few as the largest one
needs: five bytes are usual where a million vertices have weights below 256. Runs stay in memory
while they fit; the others are in a file (`records`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.closing import Closing
from storage.quantise import MAX_DECIMALS
from storage.sorting.records import RecordFile, Records

OUT, IN, DIRECTED, UNDIRECTED = range(4)  # where an edge is put; the last two: at both ends
BUCKET_BITS = 10  # a thousand buckets: what is written to them stays in the second-level cache
MOST_BUCKET_BITS = 12  # of graphs so large that their buckets would become too large
EXACT_BELOW = 2.0**50  # multiples of a decimal unit survive float64 arithmetic below this
_RAW = -1  # in place of decimals: weights are the bits of float64


class Layout(NamedTuple):
    """How a record is made up.

    shift : of an owner, to its bucket; bits : of a vertex
    key_bytes, weight_bytes : of the two parts of a record
    """

    shift: int
    bits: int
    key_bytes: int
    weight_bytes: int


class Unpacking(NamedTuple):
    """Which records are unpacked, and how.

    base : first owner of the first bucket, counted from the first one wanted; may be negative
    limit : how many owners are wanted
    constant : the weight, where records hold none
    factor : multiplies the weights
    low : bits of a weight below the key; 0 if weights are apart
    """

    base: int
    limit: int
    constant: int
    factor: int
    low: int


@njit(cache=True, nogil=True)
def _count_buckets(source, target, mode, shift, counts):
    """Add to `counts` the connections that each bucket gets from these edges."""
    for i in range(source.size):
        counts[source[i] >> shift] += 1
    if mode >= DIRECTED:
        for i in range(target.size):
            counts[target[i] >> shift] += 1


@njit(cache=True, nogil=True)
def _store(out, at, value, width):
    if width >= 4:  # the compiler makes one store of the first four
        out[at] = value & 255
        out[at + 1] = (value >> 8) & 255
        out[at + 2] = (value >> 16) & 255
        out[at + 3] = (value >> 24) & 255
        for k in range(4, width):
            out[at + k] = (value >> (8 * k)) & 255
    else:
        for k in range(width):
            out[at + k] = (value >> (8 * k)) & 255


@njit(cache=True, nogil=True)
def _fetch(data, at, width):
    value = np.int64(0)
    if width >= 4:
        value = (
            np.int64(data[at])
            | np.int64(data[at + 1]) << 8
            | np.int64(data[at + 2]) << 16
            | np.int64(data[at + 3]) << 24
        )
        for k in range(4, width):
            value |= np.int64(data[at + k]) << (8 * k)
    else:
        for k in range(width):
            value |= np.int64(data[at + k]) << (8 * k)
    return value


@njit(cache=True, nogil=True)
def _scatter(source, target, weight, mode, layout, cursors, out):
    """Write the records of these edges to their buckets.

    source, target : ndarray[int32], shape (edges,)
    weight : ndarray[int64], shape (edges,), or (0,) if `weight_bytes` is 0
    cursors : ndarray[int64], shape (buckets,), next record of each bucket; move on
    out : ndarray[uint8], shape (records * record bytes,), is filled
    """
    shift, bits, key_bytes, weight_bytes = layout
    low = (np.int64(1) << shift) - 1
    width = key_bytes + weight_bytes
    joint = width <= 7  # key and weight are one number, and not negative
    value = np.int64(0)
    for i in range(source.size):
        u = np.int64(source[i])
        v = np.int64(target[i])
        if weight_bytes:
            value = weight[i]
        key = ((u & low) << (bits + 1)) | (v << 1) | (1 if mode == IN else 0)
        bucket = u >> shift
        at = cursors[bucket] * width
        cursors[bucket] += 1
        if joint:
            _store(out, at, key | (value << (8 * key_bytes)), width)
        else:
            _store(out, at, key, key_bytes)
            _store(out, at + key_bytes, value, weight_bytes)
        if mode >= DIRECTED:
            key = ((v & low) << (bits + 1)) | (u << 1) | (1 if mode == DIRECTED else 0)
            bucket = v >> shift
            at = cursors[bucket] * width
            cursors[bucket] += 1
            if joint:
                _store(out, at, key | (value << (8 * key_bytes)), width)
            else:
                _store(out, at, key, key_bytes)
                _store(out, at + key_bytes, value, weight_bytes)


@njit(cache=True, nogil=True)
def _fetch_eight(data, at):
    """Eight bytes as one number: the compiler makes one load of them."""
    return (
        np.int64(data[at])
        | np.int64(data[at + 1]) << 8
        | np.int64(data[at + 2]) << 16
        | np.int64(data[at + 3]) << 24
        | np.int64(data[at + 4]) << 32
        | np.int64(data[at + 5]) << 40
        | np.int64(data[at + 6]) << 48
        | np.int64(data[at + 7]) << 56
    )


@njit(cache=True, nogil=True)
def _gather(data, skip, starts, layout, unpacking, keys, values, at):
    """Unpack records whose owner, counted from the first one wanted, is in 0 .. limit-1.

    data : ndarray[uint8], records of consecutive buckets; the first `skip` are left out
    starts : ndarray[int64], shape (buckets + 1,), where each bucket starts; any origin
    keys, values : ndarray[int64], are filled from `at` on; `values` where weights are apart
    Returns (place behind the last entry, records done): fewer than all when `keys` is full.
    """
    shift, bits, key_bytes, weight_bytes = layout
    base, limit = unpacking.base, unpacking.limit
    constant, factor, low = unpacking.constant, unpacking.factor, unpacking.low
    width = key_bytes + weight_bytes
    end_key = limit << (bits + 1)
    short = (data.size - 8) // width + 1 if width <= 7 else 0  # records that one load may read
    key_mask = (np.int64(1) << (8 * min(key_bytes, 7))) - 1
    weight_mask = (np.int64(1) << (8 * min(weight_bytes, 7))) - 1
    i = skip
    for bucket in range(starts.size - 1):
        shifted = (base + (bucket << shift)) << (bits + 1)
        end = starts[bucket + 1] - starts[0]
        while i < end:
            weight = constant
            if i < short:
                record = _fetch_eight(data, i * width)
                key = shifted + (record & key_mask)
                if weight_bytes:
                    weight = record >> (8 * key_bytes) & weight_mask
            else:
                key = shifted + _fetch(data, i * width, key_bytes)
                if weight_bytes:
                    weight = _fetch(data, i * width + key_bytes, weight_bytes)
            if 0 <= key < end_key:
                if at >= keys.size:
                    return at, i
                weight *= factor
                if low:
                    keys[at] = (key << low) | weight
                else:
                    keys[at] = key
                    values[at] = weight
                at += 1
            i += 1
    return at, i


@njit(cache=True, nogil=True)
def _as_decimals(values, power, out):
    """Whether all values are k / power exactly, for whole k below 2^50 that fill `out`."""
    for i in range(values.size):
        k = np.rint(values[i] * power)
        if not k < EXACT_BELOW or k / power != values[i]:
            return False
        out[i] = np.int64(k)
    return True


def key_width(bits: int, shift: int) -> int:
    """Bytes of a key: owner within the bucket, other end, direction."""
    return -(-(shift + bits + 1) // 8)


@dataclass(frozen=True, slots=True)
class Run:
    """Where the records of one buffer are, and how to read them.

    starts : ndarray[int64], first record of each bucket and the last one's end, from bucket `first`
        on: of all buckets, or of those that are wanted
    decimals : weights are whole multiples of 10^-decimals, where they are signed with the sign in
        the lowest bit; _RAW: bits of float64
    constant : the weight of all records if `weight_bytes` is 0
    largest : the largest weight as stored
    data : the records, None if they are in `records` from byte `offset` on
    """

    starts: NDArray[np.int64]
    key_bytes: int
    weight_bytes: int
    decimals: int
    constant: int
    largest: int
    data: NDArray[np.uint8] | None
    offset: int = 0
    records: Records | None = None
    first: int = 0

    @property
    def width(self) -> int:
        return self.key_bytes + self.weight_bytes

    @property
    def raw(self) -> bool:
        return self.decimals == _RAW

    def read(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Records `begin` .. `end`-1."""
        start, size = begin * self.width, (end - begin) * self.width
        if self.data is not None:
            return self.data[start : start + size]
        assert self.records is not None
        return self.records.read(self.offset + start, size)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Edges that wait to become a run.

    source, target : ndarray[int32], shape (edges,)
    weight : ndarray[int64] or ndarray[float64], shape (edges,)
    parts : (begin, end, mode) of pieces of the arrays
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: NDArray[np.int64] | NDArray[np.float64]
    parts: list[tuple[int, int, int]]


def _with_signs(
    magnitude: NDArray[np.int64], negative: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Magnitudes below 2^62 with the signs, where there may be some, as their lowest bits."""
    return magnitude if negative is None else magnitude << 1 | negative


class RunStore(Closing):
    """Makes runs of buffers. Safe to use from several threads.

    vertices : of the graph
    memory : bytes of runs that may stay in memory
    signed : whether weights may be below 0
    file : for the others
    """

    def __init__(self, vertices: int, memory: int, signed: bool, file: RecordFile) -> None:
        self.bits = max(1, (vertices - 1).bit_length())
        self.shift = max(0, min(self.bits - BUCKET_BITS, BUCKET_BITS), self.bits - MOST_BUCKET_BITS)
        self.buckets = ((max(vertices, 1) - 1) >> self.shift) + 1
        self.runs: list[Run] = []
        self._memory_left = memory
        self._file = file
        self._lock = threading.Lock()
        self._decimals = 0
        self._signed = signed

    def buckets_of(self, first: int, last: int) -> range:
        """Those that have owners `first` .. `last`-1, of whom there is one at least."""
        return range(first >> self.shift, ((last - 1) >> self.shift) + 1)

    def make(self, buffer: Buffer) -> tuple[Run, int, float]:
        """A run of the buffer's edges, its records and the sum of their weights."""
        counts = np.zeros(self.buckets + 1, np.int64)
        total = 0.0
        for begin, end, mode in buffer.parts:
            source, target = buffer.source[begin:end], buffer.target[begin:end]
            _count_buckets(source, target, mode, self.shift, counts[1:])
            weights: Any = buffer.weight[begin:end]
            with np.errstate(over="ignore"):  # an infinite total is refused later
                total += float(weights.sum(dtype=np.float64)) * (2 if mode >= DIRECTED else 1)
        starts = np.cumsum(counts)
        weight, decimals = self._whole(buffer.weight)
        low, high = int(weight.min()), int(weight.max())
        weight_bytes = 0 if low == high else -(-high.bit_length() // 8)
        if self._signed and decimals == _RAW:
            weight_bytes = 8  # the sign is the uppermost bit
        key_bytes = key_width(self.bits, self.shift)
        layout = Layout(self.shift, self.bits, key_bytes, weight_bytes)
        out = np.empty(int(starts[-1]) * (key_bytes + weight_bytes), np.uint8)
        cursors = starts[:-1].copy()
        for begin, end, mode in buffer.parts:
            _scatter(
                buffer.source[begin:end], buffer.target[begin:end],
                weight[begin:end] if weight_bytes else weight[:0],
                mode, layout, cursors, out,
            )  # fmt: skip
        kept = (out,) if self._keeps(out.nbytes) else (None, self._file.append(out), self._file)
        run = Run(starts, key_bytes, weight_bytes, decimals, low, high, *kept)
        return run, int(starts[-1]), total

    def _whole(self, weight: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
        """Weights as whole numbers that take few bytes, and their decimals."""
        negative = weight < 0 if self._signed else None
        magnitude = weight if negative is None else np.abs(weight)
        if weight.dtype == np.int64:
            return _with_signs(magnitude, negative), 0
        out = np.empty(weight.size, np.int64)
        for decimals in range(self._decimals, MAX_DECIMALS + 1):
            with np.errstate(over="ignore"):  # beyond 1e302 there are none
                exact = _as_decimals(magnitude, 10.0**decimals, out)
            if exact:
                self._decimals = decimals  # a hint for later runs: their weights will be alike
                return _with_signs(out, negative), decimals
        return (weight + 0.0).view(np.int64), _RAW  # -0.0 would be a negative number

    def _keeps(self, size: int) -> bool:
        """Whether so many bytes fit the memory; from then on they take it."""
        with self._lock:
            kept = size <= self._memory_left
            if kept:
                self._memory_left -= size
        return kept

    def close(self) -> None:
        """Forget everything."""
        for run in self.runs:
            if run.records is not None:
                run.records.close()
        self.runs.clear()
