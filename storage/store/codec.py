"""Record encoding of graph blocks: flagged connections as unsigned varints.

Layout (docs/format.md): for each vertex the number of its connections, then for each connection
flag, id, size, weight. A varint holds seven bits per byte, least significant group first; the top
bit of each byte except the last is 1. Kernels and their callees are in the same module, because
numba's file cache does not detect changes of callees in other modules.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.errors import CorruptError
from storage.graph import Block, BlockArrays, Csr

INCOMING = 1  # the connection ends here: the other vertex is its source
GAP = 2  # the id is the difference to the previous id of this list
DEFAULT_SIZE = 4  # size omitted
DEFAULT_WEIGHT = 8  # weight omitted

ABSENT = -1  # outgoing share of a weight without an outgoing connection
REPEATED = -2  # the same with several, which no network file has

_OK, _TRUNCATED, _OVERLONG, _BAD_FLAG, _BAD_ID, _UNSORTED, _TRAILING, _SELF = range(8)
_REASONS = {
    _TRUNCATED: "the block ends inside a record",
    _OVERLONG: "a number is longer than 10 bytes or exceeds 2^63 - 1",
    _BAD_FLAG: "a connection has an unknown flag",
    _BAD_ID: "a connection leads to a vertex beyond the vertex count",
    _UNSORTED: "the ids of a vertex are not in increasing order",
    _TRAILING: "bytes are left over after the last record",
    _SELF: "a vertex is connected to itself",
}


@njit(cache=True, nogil=True)
def _varint_length(value):
    length = 1
    while value >= 128:
        value >>= 7
        length += 1
    return length


@njit(cache=True, nogil=True)
def _put(out, at, value):
    while value >= 128:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@njit(cache=True, nogil=True)
def _get(data, at):
    """Return value and next position; a negative position is an error code."""
    end = data.size
    value = np.int64(0)
    shift = 0
    while at < end:
        byte = np.int64(data[at])
        at += 1
        if shift == 63 and byte != 0:  # nine groups hold the 63 bits of a signed number
            return value, -_OVERLONG
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return value, -_TRUNCATED


@njit(cache=True, nogil=True)
def _put_short(out, at, value):
    """`_put` without a branch for the usual lengths; may write one byte after the number."""
    if value >= 16384:
        return _put(out, at, value)
    long = np.int64(value >= 128)
    out[at] = (value & 127) | (long << 7)
    out[at + 1] = value >> 7
    return at + 1 + long


@njit(cache=True, nogil=True)
def _most_bytes(indptr, ids, weights, sizes):
    """Return an upper bound of the bytes of `_encode`, from the largest number of each kind."""
    edges = ids.size
    largest_weight = np.int64(0)
    largest_size = np.int64(0)
    for e in range(edges):
        largest_weight = max(largest_weight, weights[e])
        largest_size = max(largest_size, sizes[e])
    longest = 1 + 5 + _varint_length(largest_weight) + _varint_length(largest_size)
    return 5 * indptr.size + longest * edges + 8


@njit(cache=True, nogil=True)
def _encode(indptr, ids, weights, incoming, sizes, default_size, default_weight, out):
    """Write the records; `out` is one byte longer than their upper bound."""
    at = 0
    for v in range(indptr.size - 1):
        at = _put(out, at, indptr[v + 1] - indptr[v])
        previous = np.int64(0)
        flag_gap = 0
        for e in range(indptr[v], indptr[v + 1]):
            other = np.int64(ids[e])
            size = sizes[e]
            weight = weights[e]
            light = np.int64(weight == default_weight)
            flag = np.int64(incoming[e]) | flag_gap | light << 3
            if size == default_size:
                flag |= DEFAULT_SIZE
            out[at] = flag
            at = _put_short(out, at + 1, other - previous)
            previous = other
            flag_gap = GAP
            if size != default_size:
                at = _put(out, at, size)
            if weight < 128:  # written in any case, to avoid a branch
                out[at] = weight
                at += 1 - light
            elif not light:
                at = _put_short(out, at, weight)
    return at


@njit(cache=True, nogil=True)
def _decode(data, first, vertices, default_size, default_weight, lists):
    """Fill the lists; return (status, vertex of the error, whether any size is stored)."""
    indptr, ids, weights, incoming, sizes = lists
    end = data.size
    at = 0
    edge = 0
    sized = False
    indptr[0] = 0
    for v in range(indptr.size - 1):
        count, at = _get(data, at)
        if at < 0:
            return -at, v, sized
        later = indptr.size - 2 - v  # remaining vertices, at least a byte each
        if count > (end - at - later) // 2:
            return _TRUNCATED, v, sized
        previous = np.int64(-1)
        for _ in range(count):
            if at >= end:
                return _TRUNCATED, v, sized
            flag = np.int64(data[at])
            at += 1
            if flag > 15:
                return _BAD_FLAG, v, sized
            if at < end and data[at] < 128:  # usually one or two bytes
                other = np.int64(data[at])
                at += 1
            elif at + 1 < end and data[at + 1] < 128:
                other = np.int64(data[at]) & 127 | np.int64(data[at + 1]) << 7
                at += 2
            else:
                other, at = _get(data, at)
                if at < 0:
                    return -at, v, sized
            if flag & GAP:
                if previous < 0:
                    return _BAD_FLAG, v, sized
                if other >= vertices:
                    return _BAD_ID, v, sized
                other += previous
            if other >= vertices:
                return _BAD_ID, v, sized
            if other < previous:
                return _UNSORTED, v, sized
            if other == first + v:
                return _SELF, v, sized
            previous = other
            size = default_size
            if not flag & DEFAULT_SIZE:
                size, at = _get(data, at)
                if at < 0:
                    return -at, v, sized
                sized = True
            weight = default_weight
            if not flag & DEFAULT_WEIGHT:
                if at < end and data[at] < 128:
                    weight = np.int64(data[at])
                    at += 1
                else:
                    weight, at = _get(data, at)
                    if at < 0:
                        return -at, v, sized
            ids[edge] = other
            weights[edge] = weight
            incoming[edge] = flag & INCOMING
            sizes[edge] = size
            edge += 1
        indptr[v + 1] = edge
    if at != end:
        return _TRAILING, indptr.size - 2, sized
    return _OK, 0, sized


@njit(cache=True, nogil=True)
def _decode_lists(data, first, vertices, default_weight, outgoing, lists, shares):
    """Decode only lists: outgoing, or both directions of a pair added; (status, vertex).

    lists : the arrays indptr, ids and weights, filled
    shares : the outgoing part of each weight, filled unless empty
    """
    indptr, ids, weights = lists
    end = data.size
    at = 0
    edge = 0
    indptr[0] = 0
    for v in range(indptr.size - 1):
        count, at = _get(data, at)
        if at < 0:
            return -at, v
        later = indptr.size - 2 - v  # remaining vertices, at least a byte each
        if count > (end - at - later) // 2:
            return _TRUNCATED, v
        previous = np.int64(-1)
        for _ in range(count):
            if at >= end:
                return _TRUNCATED, v
            flag = np.int64(data[np.uint32(at)])
            at += 1
            if flag > 15:
                return _BAD_FLAG, v
            if at < end and data[np.uint32(at)] < 128:
                other = np.int64(data[np.uint32(at)])
                at += 1
            elif at + 1 < end and data[np.uint32(at + 1)] < 128:
                other = np.int64(data[np.uint32(at)]) & 127 | np.int64(data[np.uint32(at + 1)]) << 7
                at += 2
            else:
                other, at = _get(data, at)
                if at < 0:
                    return -at, v
            if flag & GAP:
                if previous < 0:
                    return _BAD_FLAG, v
                if other >= vertices:
                    return _BAD_ID, v
                other += previous
            if other >= vertices:
                return _BAD_ID, v
            if other < previous:
                return _UNSORTED, v
            if other == first + v:
                return _SELF, v
            if not flag & DEFAULT_SIZE:
                _, at = _get(data, at)
                if at < 0:
                    return -at, v
            weight = default_weight
            if not flag & DEFAULT_WEIGHT:
                if at < end and data[np.uint32(at)] < 128:
                    weight = np.int64(data[np.uint32(at)])
                    at += 1
                else:
                    weight, at = _get(data, at)
                    if at < 0:
                        return -at, v
            if other == previous and not outgoing:
                weights[np.uint32(edge - 1)] += weight
                if shares.size > 0 and not flag & INCOMING:
                    known = shares[np.uint32(edge - 1)]
                    shares[np.uint32(edge - 1)] = weight if known == ABSENT else REPEATED
            else:
                if shares.size > 0:
                    shares[np.uint32(edge)] = ABSENT if flag & INCOMING else weight
                ids[np.uint32(edge)] = other
                weights[np.uint32(edge)] = weight
                edge += 1 - (
                    flag & INCOMING & outgoing
                )  # branchless: the direction is unpredictable
            previous = other
        indptr[v + 1] = edge
    if at != end:
        return _TRAILING, indptr.size - 2
    return _OK, 0


@njit(cache=True, nogil=True)
def _encode_numbers(values, out):
    at = 0
    for i in range(values.size):
        at = _put(out, at, values[i])
    return at


@njit(cache=True, nogil=True)
def _decode_numbers(data, values):
    at = 0
    for i in range(values.size):
        values[i], at = _get(data, at)
        if at < 0:
            return -at, i
    if at != data.size:
        return _TRAILING, values.size
    return _OK, 0


def encode_block(block: Block, default_size: int = 1, default_weight: int = 1) -> bytes:
    """Return the records of a block's vertices, in the layout of docs/format.md."""
    sizes = block.sizes
    if sizes is None:
        sizes = np.broadcast_to(np.int64(1), block.ids.shape)
    arrays = block.indptr, block.ids, block.weights
    out = np.empty(_most_bytes(*arrays, sizes), np.uint8)
    written = _encode(*arrays, block.incoming, sizes, default_size, default_weight, out)
    return out[:written].tobytes()


def _most_connections(data: bytes, vertices: int) -> int:
    """Return the most connections of a block of this size: each needs at least two bytes."""
    return max(0, len(data) - vertices) // 2


def decode_block(
    data: bytes,
    first: int,
    count: int,
    vertices: int,
    *,
    default_size: int = 1,
    default_weight: int = 1,
    where: str = "block",
) -> Block:
    """Return the block of vertices first .. first+count-1 of a graph of `vertices` vertices.

    Raises `CorruptError` with `where` and the vertex if the bytes violate the format.
    """
    raw = np.frombuffer(data, np.uint8)
    lists = BlockArrays.empty(count, _most_connections(data, count))
    status, vertex, sized = _decode(raw, first, vertices, default_size, default_weight, lists)
    if status != _OK:
        raise CorruptError(f"{where}: {_REASONS[status]} (vertex {first + vertex})")
    return lists.block(first, int(lists.indptr[-1]), sized or default_size != 1)


def decode_lists(
    data: bytes, first: int, count: int, vertices: int, *, outgoing: bool, default_weight: int = 1,
    where: str = "block",
) -> Csr:  # fmt: skip
    """Return ``decode_block(...).outgoing()`` or ``.undirected()`` without the block.

    Raises `CorruptError` with `where` and the vertex if the bytes violate the format.
    """
    shares = np.empty(0, np.int64)
    return _lists(data, (first, count, vertices), outgoing, default_weight, shares, where)


def decode_shares(
    data: bytes, first: int, count: int, vertices: int, *, default_weight: int = 1,
    where: str = "block",
) -> tuple[Csr, NDArray[np.int64]]:  # fmt: skip
    """Return ``decode_block(...).undirected()``, and the outgoing part of each weight.

    The part is `ABSENT` without an outgoing connection, `REPEATED` with several. Errors as in
    `decode_lists`.
    """
    shares = np.empty(_most_connections(data, count), np.int64)
    lists = _lists(data, (first, count, vertices), False, default_weight, shares, where)
    return lists, shares[: lists[1].size]


def _lists(
    data: bytes, vertices: tuple[int, int, int], outgoing: bool, default_weight: int,
    shares: NDArray[np.int64], where: str,
) -> Csr:  # fmt: skip
    """vertices : the first of the block, their number, and the number in the graph"""
    first, count, every = vertices
    raw = np.frombuffer(data, np.uint8)
    most = _most_connections(data, count)
    lists = np.empty(count + 1, np.int64), np.empty(most, np.int32), np.empty(most, np.int64)
    status, vertex = _decode_lists(raw, first, every, default_weight, int(outgoing), lists, shares)
    if status != _OK:
        raise CorruptError(f"{where}: {_REASONS[status]} (vertex {first + vertex})")
    used = int(lists[0][-1])
    return lists[0], lists[1][:used], lists[2][:used]


def encode_numbers(values: NDArray[np.int64]) -> bytes:
    """Encode non-negative values as plain varints."""
    out = np.empty(10 * values.size, np.uint8)
    return out[: _encode_numbers(values, out)].tobytes()


def decode_numbers(data: bytes, count: int, where: str) -> NDArray[np.int64]:
    """Decode `count` varints; raise `CorruptError` if there are fewer, more, or malformed ones."""
    values = np.empty(count, np.int64)
    status, index = _decode_numbers(np.frombuffer(data, np.uint8), values)
    if status != _OK:
        raise CorruptError(f"{where}: {_REASONS[status]} (value {index})")
    return values
