"""Packed data arrives unchanged and in fewer bytes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.executors.sent import nbytes, received, to_send, total_to_send
from mapper.partitioning.kway_refinement import Moves
from mapper.partitioning.label_propagation import Proposals


def same(found: Any, expected: Any) -> bool:
    """Whether two trees are equal, arrays with their types and shapes."""
    if isinstance(expected, np.ndarray):
        return (
            found.dtype == expected.dtype
            and found.shape == expected.shape
            and found.tolist() == expected.tolist()
        )
    if isinstance(expected, tuple | list):
        alike = type(found) is type(expected) and len(found) == len(expected)
        return alike and all(map(same, found, expected))
    if isinstance(expected, Moves):
        ends = (expected.outside, expected.everything)
        return (found.outside, found.everything) == ends and same(found.table, expected.table)
    return bool(found == expected)


def sent(value: Any) -> Any:
    return received(pickle.loads(pickle.dumps(to_send(value))))


@given(
    st.integers(0, 2**32), st.sampled_from([0, 1, 63, 64, 65, 300]),
    st.sampled_from([(0, 9), (-1, 40), (5, 2**31), (-(2**31), 2**31), (-(2**31), -(2**31) + 2)]),
    st.sampled_from([np.int32, np.int64]), st.booleans(),
)  # fmt: skip
def test_numbers_arrive(
    seed: int, count: int, ends: tuple[int, int], dtype: Any, ascending: bool
) -> None:
    values = np.random.default_rng(seed).integers(*ends, count).astype(dtype)
    if ascending:
        values.sort()
    assert same(sent(values), values)
    assert same(sent(values[::2]), values[::2])
    both = np.stack([values, values[::-1]])
    assert same(sent(both[:, : count // 2]), both[:, : count // 2])
    if count % 3 == 0:
        assert same(sent(values.reshape(-1, 3)), values.reshape(-1, 3))
        deep = values.reshape(3, -1, 1)
        assert same(sent(deep), deep)


@pytest.mark.parametrize("value", [2**62, -(2**62)])
def test_numbers_with_large_gaps_arrive(value: int) -> None:
    values = np.arange(100, dtype=np.int64)
    values[7] = value
    assert same(sent(values), values)


def test_all_task_results_arrive() -> None:
    rng = np.random.default_rng(1)
    vertices = np.flatnonzero(rng.random(1000) < 0.5).astype(np.int32)
    targets = rng.integers(0, 1000, vertices.size).astype(np.int32)
    favourite = rng.integers(-1, 1000, 1000).astype(np.int32)
    table = rng.integers(0, 9, (4, 1000)).astype(np.int32)[:, :500]
    found = [
        Proposals(vertices, targets, 1000, favourite), Moves(table, 2**40, 2**50), None,
        np.array([0.5] * 100), (3, [np.zeros(100, np.int64)]),
    ]  # fmt: skip
    assert same(sent(found), found)
    assert nbytes(to_send(found[0])) < 0.8 * nbytes(found[0])
    assert nbytes(to_send(found[1])) < 0.3 * nbytes(found[1])
    for shape in ((1000, 4), (4, 40, 25)):  # small numbers in any memory layout
        assert nbytes(to_send(rng.integers(0, 9, shape))) < 0.2 * 8 * 4000


@pytest.mark.parametrize("share", [0.0, 0.03, 0.9])
@pytest.mark.parametrize("shape", [(300,), (40, 30)])
def test_sums_arrive(shape: tuple[int, ...], share: float) -> None:
    rng = np.random.default_rng(2)
    total = rng.integers(0, 2**40, shape) * (rng.random(shape) < share)
    assert same(received(total_to_send(total)), total)
    assert nbytes(total_to_send(np.zeros((100, 100), np.int64))) < 100
