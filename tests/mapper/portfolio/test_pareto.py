"""The Pareto front, compared with all pairs of points."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mapper.portfolio.pareto import pareto_front

Point = tuple[int, int, int]


def dominates(one: Point, other: Point) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


@given(st.lists(st.tuples(*(st.integers(0, 4) for _ in range(3))), max_size=30))
def test_as_all_pairs(points: list[Point]) -> None:
    expected = [not any(dominates(other, one) for other in points) for one in points]
    assert pareto_front(points) == expected
