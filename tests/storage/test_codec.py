"""Varints and blocks: round trips, and malformed bytes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage.errors import CorruptError
from storage.store.codec import (
    REPEATED,
    decode_block,
    decode_lists,
    decode_numbers,
    decode_shares,
    encode_block,
    encode_numbers,
)
from tests.reference import storage as naive
from tests.storage.strategies import LARGEST, BlockCase, blocks, numbers

several = settings(max_examples=80)


@several
@given(st.integers(0, LARGEST))
@example(0)
@example(LARGEST)
def test_varint_round_trip(value: int) -> None:
    data = encode_numbers(np.array([value], np.int64))
    assert data == naive.put(value)
    assert len(data) <= 9
    assert decode_numbers(data, 1, "here").tolist() == [value]


@several
@given(numbers)
def test_truncated_varint(value: int) -> None:
    data = naive.put(value)
    for end in range(len(data)):
        with pytest.raises(CorruptError, match=r"^here: the block ends inside a record \(value 0"):
            decode_numbers(data[:end], 1, "here")


@pytest.mark.parametrize(
    "data",
    [b"\x80" * 9 + b"\x01", b"\xff" * 9 + b"\x01", b"\x80" * 10 + b"\x00", b"\xff" * 20],
)
def test_overlong_varint(data: bytes) -> None:
    with pytest.raises(CorruptError, match="longer than 10 bytes or exceeds 2"):
        decode_numbers(data, 1, "here")


def test_left_over_bytes() -> None:
    with pytest.raises(CorruptError, match="bytes are left over after the last record"):
        decode_numbers(b"\0\0", 1, "here")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@several
@given(blocks())
def test_block_round_trip(case: BlockCase) -> None:
    options: dict[str, Any] = {
        "default_size": case.default_size,
        "default_weight": case.default_weight,
    }
    data = encode_block(naive.block_of(case.first, case.records), **options)
    assert data == naive.encode(case.records, *options.values())
    count = len(case.records)
    back = decode_block(data, case.first, count, case.vertices, **options)
    assert naive.records_of(back) == case.records
    assert [part.dtype for part in (back.indptr, back.ids, back.weights, back.incoming)] == [
        np.int64,
        np.int32,
        np.int64,
        np.uint8,
    ]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@several
@given(blocks())
def test_omitted_sizes(case: BlockCase) -> None:
    """Missing sizes in memory are sizes of 1."""
    block = naive.block_of(case.first, case.records, sized=False)
    for default in (1, case.default_size):
        data = encode_block(block, default)
        count = len(case.records)
        back = decode_block(data, case.first, count, case.vertices, default_size=default)
        assert default != 1 or back.sizes is None
        assert naive.records_of(back) == naive.records_of(block)


# small numbers are often valid, arbitrary bytes rarely
likely = st.lists(st.one_of(st.integers(0, 15), st.integers(0, 255)), max_size=40).map(bytes)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=300)
@given(likely, st.integers(0, 5), st.integers(1, 24), st.integers(0, 90))
@example(bytes([40]) + bytes([12, 1] * 40), 0, 81, 81)  # more connections than allocated
@example(bytes([4, 12, 1] + [14, 1] * 3), 0, 10, 10)
def test_any_bytes(data: bytes, first: int, count: int, more: int) -> None:
    vertices = first + count + more
    try:
        expected = naive.decode(data, first, count, vertices, 1, 1)
    except naive.Malformed:
        with pytest.raises(CorruptError, match=r"^here: .* \(vertex \d+\)$") as caught:
            decode_block(data, first, count, vertices, where="here")
        for outgoing in (False, True):
            with pytest.raises(CorruptError) as same:
                decode_lists(data, first, count, vertices, outgoing=outgoing, where="here")
            assert str(caught.value) == str(same.value)
        with pytest.raises(CorruptError) as same:
            decode_shares(data, first, count, vertices, where="here")
        assert str(caught.value) == str(same.value)
    else:
        block = decode_block(data, first, count, vertices, where="here")
        assert naive.records_of(block) == expected
        for outgoing, lists in ((False, block.undirected()), (True, block.outgoing())):
            found = decode_lists(data, first, count, vertices, outgoing=outgoing, where="here")
            assert naive.lists_of(*found) == naive.lists_of(*lists)
        found, shares = decode_shares(data, first, count, vertices, where="here")
        assert naive.lists_of(*found) == naive.lists_of(*block.undirected())
        single = [len(dict(row)) == len(row) for row in naive.outgoing(expected)]
        assert (REPEATED in shares) == (not all(single))
        if all(single):
            assert shares.tolist() == naive.shares(expected)


@pytest.mark.heavy
@several
@given(blocks(), st.data())
def test_altered_block(case: BlockCase, data: st.DataObject) -> None:
    raw = bytearray(naive.encode(case.records, 1, 1))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255))
    count = len(case.records)
    try:
        expected = naive.decode(bytes(raw), case.first, count, case.vertices, 1, 1)
    except naive.Malformed:
        with pytest.raises(CorruptError):
            decode_block(bytes(raw), case.first, count, case.vertices)
    else:
        block = decode_block(bytes(raw), case.first, count, case.vertices)
        assert naive.records_of(block) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1, 12], "the block ends inside a record"),
        ([1, 28, 1, 0], "a connection has an unknown flag"),
        ([1, 14, 1, 0], "a connection has an unknown flag"),
        ([1, 12, 9, 0], "a connection leads to a vertex beyond the vertex count"),
        ([2, 12, 5, 14, 9, 0], "a connection leads to a vertex beyond the vertex count"),
        ([2, 12, 5, 12, 4, 0], "the ids of a vertex are not in increasing order"),
        ([1, 12, 3, 0], "a vertex is connected to itself"),
        ([0, 0, 0], "bytes are left over after the last record"),
    ],
)
def test_reasons(data: list[int], message: str) -> None:
    for decode in (decode_block, partial(decode_lists, outgoing=False)):
        with pytest.raises(CorruptError, match=rf"^here: {message} \(vertex [34]\)$"):
            decode(bytes(data), 3, 2, 9, where="here")
