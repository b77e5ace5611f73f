"""Each kernel compared with its reference implementation in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.graph import Block, BlockArrays, _merge_directions, _select_outgoing
from storage.sorting.radix import _sort_pass, sort_pairs
from storage.sorting.ranges import _merge_sorted
from storage.store.codec import (
    _OK,
    _decode,
    _decode_lists,
    _decode_numbers,
    _encode,
    _encode_numbers,
    _get,
    _most_bytes,
    _put,
    _put_short,
    _varint_length,
)
from tests.reference import storage as naive
from tests.storage.strategies import LARGEST, BlockCase, blocks, numbers

# the first example waits for the compiler or its cache
several = settings(max_examples=60)


def bytes_of(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)


def ints(values: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)


@several
@given(numbers, st.integers(0, 3))
def test_put_and_length(value: int, at: int) -> None:
    out = np.zeros(at + 10, np.uint8)
    end = _put(out, at, np.int64(value))
    assert out[at:end].tobytes() == naive.put(value)
    assert end - at == _varint_length(np.int64(value))
    out = np.zeros(at + 11, np.uint8)
    assert _put_short(out, at, np.int64(value)) == end
    assert out[at:end].tobytes() == naive.put(value)


@several
@given(st.one_of(st.binary(max_size=12), st.lists(st.just(255), max_size=11).map(bytes)))
def test_get(data: bytes) -> None:
    found, end = _get(bytes_of(data), 0)
    try:
        value, stop = naive.get(data, 0)
    except naive.Malformed:
        assert end < 0
    else:
        assert (found, end) == (value, stop)


@several
@given(blocks())
def test_encode(case: BlockCase) -> None:
    block = naive.block_of(case.first, case.records)
    defaults = case.default_size, case.default_weight
    expected = naive.encode(case.records, *defaults)
    arrays = block.indptr, block.ids, block.weights
    assert _most_bytes(*arrays, block.sizes) > len(expected)
    out = np.empty(len(expected) + 1, np.uint8)
    assert _encode(*arrays, block.incoming, block.sizes, *defaults, out) == len(expected)
    assert out[:-1].tobytes() == expected


@several
@given(blocks())
def test_decode(case: BlockCase) -> None:
    data = naive.encode(case.records, case.default_size, case.default_weight)
    empty = naive.block_of(case.first, case.records)
    arrays = BlockArrays.empty(len(case.records), empty.ids.size)
    status, _, sized = _decode(
        bytes_of(data),
        case.first,
        case.vertices,
        case.default_size,
        case.default_weight,
        arrays,
    )
    assert status == _OK
    given_sizes = [link.size for record in case.records for link in record]
    assert sized == any(size != case.default_size for size in given_sizes)
    found = Block(case.first, *arrays)
    assert naive.records_of(found) == case.records


@several
@given(st.lists(numbers, max_size=8))
def test_numbers(values: list[int]) -> None:
    expected = b"".join(map(naive.put, values))
    out = np.empty(10 * len(values), np.uint8)
    assert out[: _encode_numbers(ints(values), out)].tobytes() == expected
    back = np.empty(len(values), np.int64)
    assert _decode_numbers(bytes_of(expected), back)[0] == _OK
    assert back.tolist() == values


@several
@given(st.binary(max_size=12), st.integers(0, 6))
def test_numbers_of_any_bytes(data: bytes, count: int) -> None:
    back = np.empty(count, np.int64)
    status, _ = _decode_numbers(bytes_of(data), back)
    try:
        at, values = 0, []
        for _ in range(count):
            value, at = naive.get(data, at)
            values.append(value)
        good = at == len(data)
    except naive.Malformed:
        good = False
    assert (status == _OK) == good
    if good:
        assert back.tolist() == values


@several
@given(blocks())
def test_directions(case: BlockCase) -> None:
    halved = [
        [link._replace(weight=link.weight // 2) for link in record] for record in case.records
    ]
    block = naive.block_of(case.first, halved)
    arrays = block.indptr, block.ids, block.weights
    kernel: Any
    for kernel, more, expected in (
        (_merge_directions, (), naive.merged_directions(halved)),
        (_select_outgoing, (block.incoming,), naive.outgoing(halved)),
    ):
        indptr, ids, weights = (np.empty_like(array) for array in arrays)
        used = kernel(*arrays, *more, indptr, ids, weights)
        assert naive.lists_of(indptr, ids[:used], weights[:used]) == expected
    assert naive.lists_of(*block.undirected()) == naive.merged_directions(halved)
    data = naive.encode(halved, case.default_size, case.default_weight)
    for outgoing, expected in (
        (0, naive.merged_directions(halved)),
        (1, naive.outgoing(halved)),
    ):
        for wanted in (0, block.ids.size):
            lists = indptr, ids, weights = tuple(np.empty_like(array) for array in arrays)
            shares = np.empty(wanted, np.int64)
            status, _ = _decode_lists(
                bytes_of(data), case.first, case.vertices, case.default_weight, outgoing, lists,
                shares,
            )  # fmt: skip
            assert status == _OK
            used = int(indptr[-1])
            assert naive.lists_of(indptr, ids[:used], weights[:used]) == expected
            if wanted and not outgoing:
                assert shares[:used].tolist() == naive.shares(halved)
    assert naive.lists_of(*block.outgoing()) == naive.outgoing(halved)


pairs = st.lists(st.tuples(st.one_of(st.integers(0, 99), numbers), numbers), max_size=30)


@several
@given(pairs, st.integers(0, 55), st.integers(1, 7))
def test_sort_pass(given_pairs: list[tuple[int, int]], shift: int, bits: int) -> None:
    keys = ints([key for key, _ in given_pairs])
    values = ints([value for _, value in given_pairs])
    out = np.empty_like(keys), np.empty_like(keys)
    mask = (1 << bits) - 1
    expected = naive.sort_pass(given_pairs, shift, mask)
    if _sort_pass(keys, values, *out, shift, mask):
        out = keys, values
        assert len({(key >> shift) & mask for key, _ in given_pairs}) <= 1
    assert list(zip(*(array.tolist() for array in out), strict=True)) == expected


@several
@given(pairs, st.sampled_from([0, 1, 20]))
def test_sort_pairs(given_pairs: list[tuple[int, int]], low_bit: int) -> None:
    keys = ints([key for key, _ in given_pairs])
    values = ints([value for _, value in given_pairs])
    found = sort_pairs(keys, values, low_bit)
    expected = naive.sort_pass(given_pairs, low_bit, LARGEST)
    assert list(zip(*(array.tolist() for array in found), strict=True)) == expected


@pytest.mark.heavy
@several
@given(st.data(), st.integers(1, 6), st.integers(0, 9), st.integers(1, 20), st.booleans())
def test_merge_sorted(data: st.DataObject, count: int, first: int, bits: int, packed: bool) -> None:
    low = 20 if packed else 0  # bits of a weight below its key
    owner = st.integers(first, first + count - 1)
    other = st.integers(0, min(2**bits - 1, 3))
    link = st.tuples(owner, other, st.integers(0, 1), st.integers(0, 2 ** (low or 40) - 1))
    given_links = sorted(data.draw(st.lists(link, max_size=30)))
    given_pairs = [((u << bits + 1) | (v << 1) | way, w) for u, v, way, w in given_links]
    keys = ints([key << low | (value if packed else 0) for key, value in given_pairs])
    values = ints([] if packed else [value for _, value in given_pairs])
    arrays = BlockArrays.empty(count, keys.size)
    used = _merge_sorted(keys, values, low, bits, first, arrays)
    block = arrays.block(first, used, sized=True)
    expected = naive.merge_sorted(given_pairs, bits, first, count)
    assert naive.records_of(block) == expected
