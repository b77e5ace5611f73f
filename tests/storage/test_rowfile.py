"""Files of neighbour lists: what is read is what was written, whatever its size and damage."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import CorruptError, WriteError
from storage.rowfile import (
    EXTRA_COST,
    Lists,
    RowFile,
    _gaps,
    _large,
    _unpack,
    _unpack_gaps,
    pack,
    pack_lists,
    unpack_lists,
    write_rows,
)

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
    """The layout as the module's docstring tells it."""
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


@settings(deadline=None)
@given(st.lists(numbers, max_size=60))
def test_layout(values: list[int]) -> None:
    assert pack(np.array(values, np.int32)) == naive_pack(values)


@settings(deadline=None)
@given(rows())
def test_lists_come_back(made: Rows) -> None:
    lists = lists_of(made)
    found = unpack_lists(pack_lists(*lists))
    assert [array.dtype for array in found] == [np.int64, np.int32, np.int32]
    assert rows_of(found) == made


@settings(deadline=None)
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


def write(path: Path, made: Rows, block_size: int, threads: int = 1) -> list[int]:
    advanced: list[int] = []
    write_rows(
        path,
        len(made),
        block_size,
        lambda index: lists_of(made[index * block_size :][:block_size]),
        threads,
        advanced.append,
    )
    return advanced


@settings(deadline=None, max_examples=50)
@given(rows(), st.sampled_from([1, 2, 5, 64]), st.sampled_from([1, 3]))
def test_files_come_back(
    tmp_path_factory: pytest.TempPathFactory, made: Rows, block_size: int, threads: int
) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.bin"
    advanced = write(path, made, block_size, threads)
    assert list(path.parent.iterdir()) == [path]
    with RowFile(path) as file:
        assert (file.vertices, file.block_size) == (len(made), block_size)
        assert file.entries == sum(map(len, made)) == sum(advanced)
        assert file.degrees().tolist() == [len(row) for row in made]
        assert file.degrees().dtype == np.int32
        found = [row for index in range(file.block_count) for row in rows_of(file.read(index))]
    assert found == made


MADE: Rows = [[(1, 5), (70000, 1)], [(0, 5)], [], [(2, 300)]]


def test_damage_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    write(path, MADE, 2)
    whole = path.read_bytes()
    with RowFile(path) as file:
        ends = [int(end) for end in file._ends]
    for at in range(ends[-1]):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with RowFile(path) as file:
            block = int(at >= ends[0])
            with pytest.raises(CorruptError, match=f"block {block} is damaged; run again"):
                file.read(block)
            assert rows_of(file.read(1 - block)) == MADE[2 - 2 * block :][:2]
    for broken in (b"", whole[:20], whole[:-1], whole + b"x"):
        path.write_bytes(broken)
        with pytest.raises(CorruptError, match="no file of neighbour lists; run again"):
            RowFile(path)


def test_a_file_that_was_cut_short_while_open(tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    write(path, MADE, 2)
    with RowFile(path) as file:
        os.truncate(path, 10)
        with pytest.raises(CorruptError, match="block 0 is damaged"):
            file.read(0)


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reads at most 2 GiB at once, and less where it likes."""
    path = tmp_path / "rows.bin"
    write(path, MADE, 2)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, count, at: pread(file, min(count, 7), at))
    with RowFile(path) as file:
        assert rows_of(file.read(0)) == MADE[:2]


def test_closing_twice(tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    write(path, MADE, 2)
    file = RowFile(path)
    file.close()
    file.close()


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    def fail(index: int) -> Lists:
        if index:
            raise OSError(28, "No space left on device")
        return lists_of(MADE[:2])

    with pytest.raises(OSError, match="No space left"):
        write_rows(tmp_path / "rows.bin", 4, 2, fail)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(WriteError, match="cannot write"):
        write(tmp_path / "no" / "rows.bin", MADE, 2)
