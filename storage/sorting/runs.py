"""Runs of the external sort: compact records of connections in buckets of consecutive owners.

A run holds the connections of one full buffer, ordered only by bucket: bucket b has the owners
b * 2^shift .. (b+1) * 2^shift - 1. A record is the key `owner within the bucket, other end,
direction` in the fewest bytes, then the weight in as many bytes as the largest one needs. A typical
record has five bytes, for a million vertices and weights below 256. Runs stay in memory while they
fit; the others are in a file (`records`).
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

OUT, IN, DIRECTED, UNDIRECTED = range(4)  # placement of an edge; the last two: at both ends
BUCKET_BITS = 10  # about a thousand buckets: their write positions stay in the L2 cache
MOST_BUCKET_BITS = 12  # limit for graphs whose buckets would become too large
EXACT_BELOW = 2.0**50  # multiples of a decimal unit survive float64 arithmetic below this
_RAW = -1  # value of decimals: weights are float64 bits


class RecordLayout(NamedTuple):
    """Layout of a record.

    shift : from an owner to its bucket; bits : of a vertex id
    key_bytes, weight_bytes : of the two parts of a record
    """

    shift: int
    bits: int
    key_bytes: int
    weight_bytes: int


class Unpacking(NamedTuple):
    """Parameters of unpacking records.

    base : first owner of the first bucket, relative to the first wanted one; may be negative
    limit : number of owners wanted
    constant : the weight if records hold none
    factor : multiplies the weights
    low : bits of a weight below the key; 0 if weights are separate
    """

    base: int
    limit: int
    constant: int
    factor: int
    low: int


@njit(cache=True, nogil=True)
def _count_buckets(source, target, mode, shift, counts):
    """Add the number of connections of these edges in each bucket to `counts`."""
    for i in range(source.size):
        counts[source[i] >> shift] += 1
    if mode >= DIRECTED:
        for i in range(target.size):
            counts[target[i] >> shift] += 1


@njit(cache=True, nogil=True)
def _store(out, at, value, width):
    if width >= 4:  # the compiler merges the first four stores
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
    cursors : ndarray[int64], shape (buckets,), next record of each bucket, advanced
    out : ndarray[uint8], shape (records * record bytes,), output
    """
    shift, bits, key_bytes, weight_bytes = layout
    low = (np.int64(1) << shift) - 1
    width = key_bytes + weight_bytes
    joint = width <= 7  # key and weight form one non-negative number
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
    """Load eight bytes as one number; the compiler merges the loads."""
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
    """Unpack records whose owner, relative to the first one wanted, is in 0 .. limit-1.

    data : ndarray[uint8], records of consecutive buckets; the first `skip` are skipped
    starts : ndarray[int64], shape (buckets + 1,), offset of each bucket, from any origin
    keys, values : ndarray[int64], filled from `at`; `values` only if weights are separate
    Returns (end of the entries, records done): fewer than all if `keys` is full.
    """
    shift, bits, key_bytes, weight_bytes = layout
    base, limit = unpacking.base, unpacking.limit
    constant, factor, low = unpacking.constant, unpacking.factor, unpacking.low
    width = key_bytes + weight_bytes
    end_key = limit << (bits + 1)
    short = (data.size - 8) // width + 1 if width <= 7 else 0  # records readable with one load
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
    """Fill `out` with whole k < 2^50, values = k / power; return whether this is exact."""
    for i in range(values.size):
        k = np.rint(values[i] * power)
        if not k < EXACT_BELOW or k / power != values[i]:
            return False
        out[i] = np.int64(k)
    return True


def key_width(bits: int, shift: int) -> int:
    """Return the bytes of a key: owner within the bucket, other end, direction."""
    return -(-(shift + bits + 1) // 8)


@dataclass(frozen=True, slots=True)
class Run:
    """Location and format of the records of one buffer.

    starts : ndarray[int64], first record of each bucket and the end of the last, from bucket
        `first`: of all buckets or only of wanted ones
    decimals : weights are whole multiples of 10^-decimals; signed weights have the sign in the
        lowest bit; _RAW: float64 bits
    constant : the weight of all records if `weight_bytes` is 0
    largest : the largest weight as stored
    data : the records, None if they are in `records` from byte `offset`
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
        """Return records `begin` .. `end`-1."""
        start, size = begin * self.width, (end - begin) * self.width
        if self.data is not None:
            return self.data[start : start + size]
        assert self.records is not None
        return self.records.read(self.offset + start, size)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Edges waiting to become a run.

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
    """Return magnitudes below 2^62 with the signs, if any, as lowest bits."""
    return magnitude if negative is None else magnitude << 1 | negative


class RunStore(Closing):
    """Converts buffers to runs. Safe to use from several threads.

    vertices : of the graph
    memory : bytes of runs that may stay in memory
    signed : whether weights may be negative
    file : for the other runs
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
        """Return the buckets of owners `first` .. `last`-1; the range must not be empty."""
        return range(first >> self.shift, ((last - 1) >> self.shift) + 1)

    def make(self, buffer: Buffer) -> tuple[Run, int, float]:
        """Return a run of the buffer's edges, its number of records and the sum of weights."""
        counts = np.zeros(self.buckets + 1, np.int64)
        total = 0.0
        for begin, end, mode in buffer.parts:
            source, target = buffer.source[begin:end], buffer.target[begin:end]
            _count_buckets(source, target, mode, self.shift, counts[1:])
            weights: Any = buffer.weight[begin:end]
            with np.errstate(over="ignore"):  # an infinite total is rejected later
                total += float(weights.sum(dtype=np.float64)) * (2 if mode >= DIRECTED else 1)
        starts = np.cumsum(counts)
        weight, decimals = self._whole(buffer.weight)
        low, high = int(weight.min()), int(weight.max())
        weight_bytes = 0 if low == high else -(-high.bit_length() // 8)
        if self._signed and decimals == _RAW:
            weight_bytes = 8  # the sign is the top bit
        key_bytes = key_width(self.bits, self.shift)
        layout = RecordLayout(self.shift, self.bits, key_bytes, weight_bytes)
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
        """Return weights as small integers, and their decimals."""
        negative = weight < 0 if self._signed else None
        magnitude = weight if negative is None else np.abs(weight)
        if weight.dtype == np.int64:
            return _with_signs(magnitude, negative), 0
        out = np.empty(weight.size, np.int64)
        for decimals in range(self._decimals, MAX_DECIMALS + 1):
            with np.errstate(over="ignore"):  # overflow above 1e302: not decimal then
                exact = _as_decimals(magnitude, 10.0**decimals, out)
            if exact:
                self._decimals = decimals  # hint for later runs, whose weights are usually similar
                return _with_signs(out, negative), decimals
        return (weight + 0.0).view(np.int64), _RAW  # -0.0 would be a negative integer

    def _keeps(self, size: int) -> bool:
        """Reserve `size` bytes of memory; return whether they fit."""
        with self._lock:
            kept = size <= self._memory_left
            if kept:
                self._memory_left -= size
        return kept

    def close(self) -> None:
        """Drop all runs."""
        for run in self.runs:
            if run.records is not None:
                run.records.close()
        self.runs.clear()
