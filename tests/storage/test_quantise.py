"""Units: whole numbers and decimals are exact, others keep 24 bits relative to the largest."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError
from storage.quantise import MAX_STORED, Rounding, UnitFinder, to_units
from tests.reference import storage as naive

several = settings(max_examples=150)


def unit_of(*chunks: Any) -> float:
    finder = UnitFinder()
    for chunk in chunks:
        finder.observe(np.array(chunk), "weight")
    return finder.unit()


@several
@given(st.lists(st.integers(0, 2**52 - 1), min_size=1), st.booleans())
def test_whole_numbers(values: list[int], real: bool) -> None:
    array: Any = np.array(values, np.float64 if real else np.int64)
    assert unit_of(array) == 1.0
    stored, found = to_units(array, 1.0)
    assert (stored.tolist(), found, stored.dtype.name) == (values, Rounding(), "int64")


@several
@given(st.integers(1, 6), st.data())
def test_decimals(places: int, data: st.DataObject) -> None:
    largest = 10**6 * 10**places
    wholes = data.draw(st.lists(st.integers(0, largest), min_size=1))
    values = [float(f"{whole}e-{places}") for whole in wholes]
    unit = unit_of(values)
    assert unit in [1.0, *(float(f"1e-{k}") for k in range(1, places + 1))]
    stored, found = to_units(np.array(values), unit)
    assert found == Rounding()
    scale = round(1 / unit)
    assert [Fraction(n, scale) for n in stored.tolist()] == [
        Fraction(whole, 10**places) for whole in wholes
    ]


@several
@given(st.lists(st.floats(0, allow_infinity=False), min_size=1), st.integers(0, 9))
def test_real_numbers(values: list[float], cut: int) -> None:
    """Also very small and very large values; results do not depend on chunks."""
    unit = unit_of(values)
    assert unit == unit_of(values[:cut], values[cut:]) == unit_of(values[::-1])
    assert 0 < unit < math.inf
    stored, found = to_units(np.array(values), unit)
    assert stored.tolist() == [naive.in_units(value, unit) for value in values]
    assert stored.max() <= MAX_STORED
    small = [value for value in values if value > 0 and round(value / unit) == 0]
    assert found.raised == len(small) <= found.rounded
    if unit < 1e-6 or unit > 1:  # a power of two
        assert math.frexp(unit)[0] == 0.5
        assert max(values) <= unit * 2**24
    for value, number in zip(values, stored.tolist(), strict=True):
        if value not in small:
            error = abs(number * Fraction(unit) - Fraction(value))
            assert error <= 2.0**-24 * max(values)


@pytest.mark.parametrize(
    ("chunks", "unit"),
    [
        ([[]], 1.0),
        ([[0.0]], 1.0),
        ([[0, 7], [2.0, 9.0]], 1.0),
        ([[1, 2], [0.5]], 0.1),
        ([[0.25], [0.5]], 0.01),
        ([[0.1 + 0.2]], 0.1),
        ([[0.000001, 3]], 1e-6),
        ([[1e-10, 5e-10]], 2.0 ** (-30 - 24)),  # small values are not whole
        ([[1e-10, 1.0]], 2.0 ** (1 - 24)),
        ([[1 / 3]], 2.0 ** (-1 - 24)),
        ([[124999.9999]], 1e-4),  # nearly whole values are not whole
        ([[999999999.999999]], 1e-6),
        ([[1e308]], 2.0 ** (1024 - 24)),
        ([[1e308, 1e-3]], 2.0 ** (1024 - 24)),
        ([[5e-324]], 5e-324),
        ([np.array([0.5, 0.1], np.float32)], 0.1),
        ([np.array([True, False])], 1.0),
        ([[2**52]], 2.0 ** (53 - 24)),
        ([[2**63 - 1, 2**63 - 1]], 2.0 ** (64 - 24)),
    ],
)
def test_units(chunks: list[Any], unit: float) -> None:
    assert unit_of(*chunks) == unit


def test_joined_finders() -> None:
    """Any distribution of values over finders is equal; a broadcast value is checked once."""
    chunks = [[1.0, 2.5], [0.125, 7.0], [3.0], np.broadcast_to(np.float64(0.01), 9)]
    for order in itertools.permutations(chunks):
        whole = UnitFinder()
        for chunk in order:
            own = UnitFinder()
            own.observe(np.asarray(chunk), "value")
            whole.join(own)
        assert whole.unit() == unit_of(*chunks) == 1e-3
    with pytest.raises(BadInputError, match=r"-1\.0 is negative"):
        UnitFinder().observe(np.broadcast_to(np.float64(-1), 9), "value")


def test_clamped() -> None:
    values = np.array([0.0, 0.4, 0.5, 0.51, 1e-9, 3.0])
    stored, found = to_units(values, 1.0)
    assert (stored.tolist(), found.raised) == ([0, 1, 1, 1, 1, 3], 3)
    assert found.rounded == 4
    assert found.error == pytest.approx(1e9)


@pytest.mark.parametrize(
    ("values", "rounded"),
    [
        ([2**60], 0),
        ([2**60 + 1], 1),  # its last digit does not fit in a float64
        ([2**53 + 1, 3], 2),
        ([2**63 - 1, 2**62], 1),
        ([0, 1, 2**51], 0),
        ([1e12, 1e-12], 2),
        ([0.5, 0.25], 0),
        ([0.1 + 0.2, 7.3], 0),
        ([1 / 3, 0.5], 1),
        ([0.0, 1.0], 0),
    ],
)
def test_errors_of_units(values: list[Any], rounded: int) -> None:
    array, unit = np.array(values), unit_of(values)
    stored, found = to_units(array, unit)
    errors = [
        abs(number * Fraction(unit) / Fraction(value) - 1)
        for number, value in zip(stored.tolist(), values, strict=True)
        if value
    ]
    assert found.rounded == rounded
    assert found.error == pytest.approx(float(max(errors)) if rounded else 0.0)


def test_errors_of_several_parts() -> None:
    one, other = Rounding(1, 2, 0.25), Rounding(0, 3, 0.5)
    assert one.joined(other) == other.joined(one) == Rounding(1, 5, 0.5)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "^rate nan is not finite; give finite values$"),
        (float("inf"), "^rate inf is not finite"),
        (-1e-9, "^rate -1e-09 is negative, but traffic cannot be; use its magnitude$"),
        (-3, "^rate -3"),
    ],
)
def test_refused(value: float, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        UnitFinder().observe(np.array([value, 1.0 if isinstance(value, float) else 1]), "rate")
