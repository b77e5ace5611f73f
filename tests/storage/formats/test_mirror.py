"""Edges listed at both ends: the kernel compared with its reference implementation."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.formats.mirror import _SALTS, Mirror, _balance
from storage.hashing import scrambled

MASK = 2**64 - 1
entries = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2**40)))


def mixed(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def digest(low: int, high: int, weight: int) -> int:
    value = 0
    for part, salt in zip((low, high, weight), _SALTS.tolist(), strict=True):
        value = mixed(value + part + salt & MASK)
    return value


@settings(max_examples=60)
@given(entries, st.integers(0, MASK))
def test_balance(given_entries: list[tuple[int, int, int]], value: int) -> None:
    with np.errstate(over="ignore"):
        assert int(scrambled(np.uint64(value))) == mixed(value)
        sums = np.zeros(2, np.uint64)
        columns = np.array(given_entries, np.int64).reshape(-1, 3).T.copy()
        loops = _balance(*columns, _SALTS, sums)
    assert loops == sum(u == v for u, v, _ in given_entries)
    up = sum(digest(u, v, w) for u, v, w in given_entries if u < v)
    down = sum(digest(v, u, w) for u, v, w in given_entries if u > v)
    assert sums.tolist() == [up & MASK, down & MASK]


@settings(max_examples=60)
@given(entries, st.booleans(), st.randoms(use_true_random=False))
def test_mirror(given_entries: list[tuple[int, int, int]], whole: bool, shuffle) -> None:  # type: ignore[no-untyped-def]
    listed = given_entries + [(v, u, w) for u, v, w in given_entries if u != v and whole]
    shuffle.shuffle(listed)
    mirror = Mirror()
    half = len(listed) // 2
    for part in (listed[:half], listed[half:]):
        mirror.add(*np.array(part, np.int64).reshape(-1, 3).T)
    assert mirror.entries == len(listed)
    ups = sorted((u, v, w) for u, v, w in listed if u < v)
    downs = sorted((v, u, w) for u, v, w in listed if u > v)
    assert mirror.agrees == (ups == downs)
