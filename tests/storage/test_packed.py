"""Packed neighbour lists: round trips of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.compression import compress
from storage.errors import CorruptError
from storage.parallel import map_ordered
from storage.scratch.packed import (
    EXTRA_COST,
    Lists,
    PackedBlock,
    PackedRows,
    UnitCache,
    _gaps,
    _large,
    _unpack,
    _unpack_gaps,
    keep_packed,
    pack,
    pack_block,
    pack_lists,
    unpack_lists,
    write_packed,
)
from storage.scratch.scratch import Scratch

Rows = list[list[tuple[int, int]]]
EDGES = [0, 1, 254, 255, 256, 65534, 65535, 65536, 2**31 - 1]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, 300), st.integers(0, 2**31 - 1))
VERTICES = 2**31 - 1


def lists_of(rows: Rows) -> Lists:
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    pairs = [pair for row in rows for pair in row]
    return indptr, *(np.array([p[k] for p in pairs], np.int32) for k in (0, 1))  # type: ignore[return-value]


def rows_of(lists: Lists) -> Rows:
    indptr, ids, weights = (array.tolist() for array in lists)
    return [list(zip(ids[a:b], weights[a:b], strict=True)) for a, b in pairwise(indptr)]


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    made: Rows = []
    for _ in range(draw(st.integers(0, 12))):
        ids = sorted(draw(st.sets(numbers.filter(lambda v: v < VERTICES), max_size=12)))
        made.append([(v, draw(numbers)) for v in ids])
    return made


def naive_pack(values: list[int]) -> bytes:
    """Pack with the layout documented in the module."""
    best: tuple[int, int] | None = None
    for size in (1, 2, 4):
        largest = 2 ** (8 * size) - 1
        cost = size * len(values) + EXTRA_COST * sum(v >= largest for v in values)
        if best is None or cost < best[0]:
            best = cost, size
    assert best is not None
    size = best[1]
    largest = 2 ** (8 * size) - 1
    extras = [v for v in values if v >= largest]
    raw = b"".join(n.to_bytes(4, "little") for n in (len(values), size, len(extras), 0, *extras))
    raw += b"".join(min(v, largest).to_bytes(size, "little") for v in values)
    return raw + bytes(-len(raw) % 4)


@given(st.lists(numbers, max_size=60))
def test_layout(values: list[int]) -> None:
    assert pack(np.array(values, np.int32)) == naive_pack(values)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@given(rows())
def test_lists_round_trip(made: Rows) -> None:
    lists = lists_of(made)
    found = unpack_lists(pack_lists(*lists))
    assert [array.dtype for array in found] == [np.int64, np.int32, np.int32]
    assert rows_of(found) == made


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@given(rows())
def test_kernels(made: Rows) -> None:
    indptr, ids, weights = lists_of(made)
    one, two = _large(weights)
    assert (one, two) == tuple(sum(w >= limit for w in weights.tolist()) for limit in (255, 65535))
    gaps = np.empty(ids.size, np.int32)
    _gaps(indptr, ids, gaps)
    expected = [
        other - before - 1
        for row in made
        for before, other in zip([-1, *(v for v, _ in row)], [v for v, _ in row], strict=False)
    ]
    assert gaps.tolist() == expected
    for size in (1, 2, 4):
        unit = np.dtype(f"u{size}")
        largest = int(np.iinfo(unit).max)
        main = np.minimum(gaps.astype(np.int64), largest).astype(unit)
        extra = gaps[gaps >= largest].astype(np.uint32)
        values, again = np.empty_like(gaps), np.empty_like(ids)
        _unpack(main, largest, extra, values)
        _unpack_gaps(main, largest, extra, indptr, again)
        assert values.tolist() == gaps.tolist()
        assert again.tolist() == ids.tolist()


def write(
    scratch: Scratch, made: Rows, block_size: int, threads: int = 1
) -> tuple[PackedRows, list[int]]:
    advanced: list[int] = []
    rows = write_packed(
        scratch,
        "rows",
        len(made),
        block_size,
        lambda index: pack_block(index, lists_of(made[index * block_size :][:block_size])),
        threads,
        advanced.append,
    )
    return rows, advanced


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=50)
@given(rows(), st.sampled_from([1, 2, 5, 64]), st.sampled_from([1, 3]))
def test_rows_round_trip_through_scratch(
    tmp_path_factory: pytest.TempPathFactory, made: Rows, block_size: int, threads: int
) -> None:
    path = tmp_path_factory.mktemp("rows") / "scratch"
    with Scratch(path) as scratch:
        with pytest.raises(KeyError, match="rows/rows"):
            PackedRows(scratch, "rows")
        _, advanced = write(scratch, made, block_size, threads)
        found = PackedRows(scratch, "rows")
        assert (found.vertices, found.block_size) == (len(made), block_size)
        assert found.entries == sum(map(len, made)) == sum(advanced)
        assert found.degrees().tolist() == [len(row) for row in made]
        assert found.degrees().dtype == np.int32
        read = [row for index in range(found.block_count) for row in rows_of(found.read(index))]
    assert read == made


def test_blocks_may_come_in_any_order(tmp_path: Path) -> None:
    blocks = [pack_block(index, lists_of(MADE[2 * index : 2 * index + 2])) for index in range(2)]
    with Scratch(tmp_path / "scratch") as scratch:
        found = keep_packed(scratch, "rows", 4, 2, blocks[::-1])
        read = [row for index in range(found.block_count) for row in rows_of(found.read(index))]
        assert read == MADE[:4]
        assert found.degrees().tolist() == [len(row) for row in MADE[:4]]


def test_an_interrupted_write_leaves_no_rows(tmp_path: Path) -> None:
    def fail(index: int) -> PackedBlock:
        if index:
            raise KeyboardInterrupt
        return pack_block(index, lists_of(MADE[:2]))

    with Scratch(tmp_path / "scratch") as scratch:
        with pytest.raises(KeyboardInterrupt):
            write_packed(scratch, "rows", 4, 2, fail)
        with pytest.raises(KeyError):
            PackedRows(scratch, "rows")


def test_missing_and_damaged_blocks(tmp_path: Path) -> None:
    with Scratch(tmp_path / "scratch") as scratch:
        found, _ = write(scratch, MADE, 2)
        good = compress(pack_lists(*lists_of(MADE[:2])))
        scratch.put_compressed([("rows/packed/00000001", good[:-1] + bytes([good[-1] ^ 1]))])
        with pytest.raises(CorruptError, match=r"rows/packed/00000001: .*; run again$"):
            found.read(1)
        assert rows_of(found.read(0)) == MADE[:2]
        found.block_size = 1
        with pytest.raises(CorruptError, match=r"rows/packed/00000002 is missing; run again$"):
            found.read(2)


def test_units_are_built_once(tmp_path: Path) -> None:
    """Five blocks, two per unit: all threads read all of them, in different orders."""
    made: list[int] = []

    def make(unit: int) -> Iterator[Lists]:
        made.append(unit)
        for index in range(2 * unit, min(2 * unit + 2, 5)):
            time.sleep(0.01)  # so that other threads arrive meanwhile
            yield lists_of([[(index, 7)], MADE[0]])

    def read(first: int) -> list[Rows]:
        wanted = [(first + step) % 5 for step in range(5)]
        found = {index: rows_of(cache.read(index)) for index in wanted}
        return [found[index] for index in range(5)]

    with Scratch(tmp_path / "scratch") as scratch:
        cache = UnitCache(scratch, "rows", 5, 2, make)
        for found in map_ordered(read, range(8), 4):
            assert found == [[[(index, 7)], MADE[0]] for index in range(5)]
        again = UnitCache(scratch, "rows", 5, 2, make)
        assert rows_of(again.read(4)) == [[(4, 7)], MADE[0]]
    assert sorted(made) == [0, 1, 2]


MADE: Rows = [[(1, 5), (70000, 1)], [(0, 5)], [], [(2, 300)]]
