"""Outgoing connections of packed rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.scratch.directions import ABSENT, REPEATED, directions_of, outgoing_of
from storage.scratch.packed import Lists, keep_packed, pack_block
from storage.scratch.scratch import Scratch

LARGEST = 2**31 - 1
weights = st.one_of(st.integers(0, 3), st.sampled_from([254, 255, 65535, LARGEST]))

Entry = tuple[int, int, int]
"""Neighbour, weight, and its outgoing part."""


@st.composite
def entries(draw: st.DrawFn) -> list[list[Entry]]:
    rows = []
    for _ in range(draw(st.integers(0, 6))):
        row = []
        for other in sorted(draw(st.sets(st.integers(0, 99), max_size=9))):
            weight = draw(weights)
            part = st.sampled_from([ABSENT, weight])
            row.append((other, weight, draw(st.one_of(part, st.integers(0, weight)))))
        rows.append(row)
    return rows


def lists_of(rows: list[list[Entry]]) -> tuple[Lists, np.ndarray]:
    flat = np.array([entry for row in rows for entry in row], np.int64).reshape(-1, 3)
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return (indptr, flat[:, 0].astype(np.int32), flat[:, 1].astype(np.int32)), flat[:, 2].copy()


def outgoing(rows: list[list[Entry]]) -> list[list[tuple[int, int]]]:
    return [[(other, part) for other, _, part in row if part != ABSENT] for row in rows]


@given(entries())
def test_outgoing_connections_are_selected(rows: list[list[Entry]]) -> None:
    lists, parts = lists_of(rows)
    directions = directions_of(lists[2], parts)
    assert directions is not None
    assert directions.marks.size == -(-parts.size // 4)
    both = [part for row in rows for _, weight, part in row if part not in (ABSENT, weight)]
    assert directions.some.tolist() == both
    indptr, ids, found = outgoing_of(*lists, directions)
    assert (indptr.dtype, ids.dtype, found.dtype) == (np.int64, np.int32, np.int64)
    pairs = list(zip(ids.tolist(), found.tolist(), strict=True))
    assert [pairs[low:high] for low, high in pairwise(indptr.tolist())] == outgoing(rows)


def test_repeated_connections_have_no_directions() -> None:
    assert directions_of(np.array([3, 5], np.int32), np.array([3, REPEATED])) is None


@pytest.mark.parametrize("missing", [None, 0, 2])
def test_rows_are_directed_if_all_blocks_are(tmp_path: Path, missing: int | None) -> None:
    rows = [[(4, 7, 7), (9, 300, 2)], [], [(0, 5, ABSENT)], [(1, LARGEST, 0)], [(2, 1, 1)]]
    blocks = []
    for index in range(3):
        lists, parts = lists_of(rows[2 * index : 2 * index + 2])
        known = None if index == missing else directions_of(lists[2], parts)
        blocks.append(pack_block(index, lists, known))
    with Scratch(tmp_path / "scratch") as scratch:
        found = keep_packed(scratch, "rows", 5, 2, blocks)
        assert found.directed == (missing is None)
        if missing is None:
            read = [found.read_outgoing(index) for index in range(3)]
            ids = [lists[1].tolist() for lists in read]
            assert ids == [[4, 9], [1], [2]]
            assert [lists[2].tolist() for lists in read] == [[7, 2], [0], [1]]
