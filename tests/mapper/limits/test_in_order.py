"""The first mapping of a run with a time limit, compared with a loop over vertices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mapper.limits.in_order import fill_in_order


def slow(sizes: list[int], capacity: int, cores: list[int]) -> list[int] | None:
    left, free, found = 0, list(cores), []
    for index, size in enumerate(sizes):
        while (index == 0 and not left) or size > left:
            if not free:
                return None
            core, left = free.pop(0), capacity
        left -= size
        found.append(core)
    return found


@given(
    st.lists(st.integers(0, 7), max_size=40),
    st.integers(7, 20),
    st.lists(st.integers(0, 99), max_size=12, unique=True),
)
def test_as_a_loop_over_vertices(sizes: list[int], capacity: int, cores: list[int]) -> None:
    found = fill_in_order(np.array(sizes, np.int64), capacity, np.array(cores, np.int64))
    expected = slow(sizes, capacity, cores)
    assert (None if found is None else found.tolist()) == expected
