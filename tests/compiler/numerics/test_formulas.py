"""The integer formulas against Python's integers and fractions."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.compiler.ir.requantisation import ROUNDINGS, Multiplier, Requantisation, Rounding
from mapper.compiler.numerics.formulas import (
    AT_ONCE,
    accumulator_bound,
    add_factors,
    added,
    dequantise,
    folded_bias,
    half_away,
    multiplier,
    quantise,
    requantise,
    rounding_shift,
    saturating_multiplier,
)
from mapper.errors import MapperError
from tests.reference import integer as twin

wide = st.integers(-(2**62) + 1, 2**62 - 1)
shifts = st.integers(0, 63)
roundings = st.sampled_from(ROUNDINGS)
scales = st.floats(2.0**-20, 2.0**10, width=32)


# -- rounding shift --------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_a25_rounding_shift_of_all_small_numbers(rounding: Rounding) -> None:
    x = np.arange(-600, 601)[:, None]
    n = np.arange(0, 13)[None]
    expected = [[twin.rounding_shift(int(a), int(b), rounding) for b in n[0]] for a in x[:, 0]]
    assert rounding_shift(x, n, rounding).tolist() == expected


@given(wide, shifts, roundings)
def test_a25_rounding_shift_of_wide_numbers(x: int, n: int, rounding: Rounding) -> None:
    assert int(rounding_shift(x, n, rounding)) == twin.rounding_shift(x, n, rounding)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("n", [0, 1, 62, 63])
def test_a25_rounding_shift_at_its_ends(rounding: Rounding, n: int) -> None:
    ends = [0, 1, -1, 2**61, -(2**61), 2**61 - 1, 2**62 - 1, -(2**62) + 1, 2**62, -(2**62)]
    expected = [twin.rounding_shift(x, n, rounding) for x in ends]
    assert rounding_shift(ends, n, rounding).tolist() == expected


@given(wide, shifts)
def test_a25_halves_away_from_zero_need_one_addend(x: int, n: int) -> None:
    """The bit pattern that the hardware adds gives the same rounding."""
    assert twin.shift_by_bits(x, n) == int(rounding_shift(x, n, "away"))


def test_a25_halves() -> None:
    halves = [-5, -3, -1, 1, 3, 5]
    assert rounding_shift(halves, 1, "away").tolist() == [-3, -2, -1, 1, 2, 3]
    assert rounding_shift(halves, 1, "up").tolist() == [-2, -1, 0, 1, 2, 3]
    assert rounding_shift(halves, 1, "even").tolist() == [-2, -2, 0, 0, 2, 2]
    assert rounding_shift(halves, 1, "floor").tolist() == [-3, -2, -1, 0, 1, 2]


# -- multiplier ------------------------------------------------------------------------------------


@given(st.floats(2.0**-39, 2.0**23, width=32), st.booleans())
def test_a24_multipliers_are_the_mantissas_of_float32(factor: float, negative: bool) -> None:
    factor = -factor if negative else factor
    made = multiplier(factor, "here")
    assert (int(made.m0), int(made.n)) == twin.multiplier(factor)
    assert 2**23 <= abs(int(made.m0)) < 2**24
    assert int(made.m0) * 2.0 ** -int(made.n) == factor
    bits = struct.unpack("<I", struct.pack("<f", factor))[0]
    assert abs(int(made.m0)) == (bits & 0x7FFFFF | 0x800000)


def test_a24_multipliers_at_the_ends_of_the_shift() -> None:
    for factor, n in ((2.0**-40, 63), (2.0**23, 0), (2.0**24 - 1, 0)):
        made = multiplier([factor, -factor], "here")
        assert made.n.tolist() == [n, n]
        assert (made.m0 * 2.0**-n).tolist() == [factor, -factor]
    assert multiplier(0.0, "here") == (0, 0)


@pytest.mark.parametrize("factor", [2.0**-41, 2.0**24, -(2.0**25), 1e-30])
def test_a24_factors_beyond_the_range_of_shifts_name_the_layer(factor: float) -> None:
    with pytest.raises(MapperError, match=r"conv 'here': scale factor .*e"):
        multiplier([1.0, factor], "conv 'here'")


@pytest.mark.parametrize("factor", [math.nan, math.inf, 1e300])
def test_a24_factors_that_are_not_finite(factor: float) -> None:
    with np.errstate(over="ignore"), pytest.raises(MapperError, match=r"here: .*not finite"):
        multiplier(factor, "here")


beyond = st.floats(0, 2.0**-41, width=32) | st.floats(2.0**24, 2.0**127, width=32)


@given(beyond, st.integers(-(2**38), 2**38), st.sampled_from(("away", "up", "even")))
def test_saturating_multipliers_store_the_same(
    factor: float, total: int, rounding: Rounding
) -> None:
    """Factors outside the range of shifts round every sum to 0, or clip it."""
    how = Requantisation(saturating_multiplier(factor, "here"), 3, -128, 127, rounding)
    exact = 3 + round(max(-1000.0, min(1000.0, factor * total)))
    assert int(requantise([total], how)[0]) == min(max(exact, -128), 127)


def test_saturating_multipliers_of_both_signs() -> None:
    made = saturating_multiplier([2.0**-41, -(2.0**-41), 1e30, -1e30, math.inf, 0.5], "here")
    assert made.m0.tolist() == [0, 0, 2**24 - 1, -(2**24 - 1), 2**24 - 1, 2**23]
    assert made.n.tolist() == [0, 0, 0, 0, 0, 24]
    with pytest.raises(MapperError, match="not finite"):
        saturating_multiplier(math.nan, "here")


# -- requantisation --------------------------------------------------------------------------------


@st.composite
def requantisations(draw: st.DrawFn) -> Requantisation:
    def factor() -> Multiplier:
        m0 = st.integers(2**23, 2**24 - 1)
        signs = draw(st.lists(st.sampled_from([-1, 1]), min_size=3, max_size=3))
        return Multiplier(
            np.array([sign * draw(m0) for sign in signs]),
            np.array([draw(shifts) for _ in range(3)]),
        )

    bits = draw(st.sampled_from([8, 16]))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    zero_point = draw(st.integers(low, high))
    return Requantisation(
        factor(), zero_point, draw(st.sampled_from([low, zero_point])), high,
        draw(roundings), draw(st.integers(0, 16)) if bits == 16 else 0,
        np.array(draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=3, max_size=3))),
        draw(st.none() | st.builds(factor)),
    )  # fmt: skip


@pytest.mark.heavy
@given(requantisations(), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=3, max_size=3))
def test_a23_requantisation(how: Requantisation, sums: list[int]) -> None:
    sums = [one << how.shift for one in sums]
    assert requantise(sums, how).tolist() == [
        twin.requantise(one, how, channel) for channel, one in enumerate(sums)
    ]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a23_all_sums_of_a_layer() -> None:
    """All 16-bit sums, both signs of the factor, in all roundings."""
    sums = np.arange(-(2**15), 2**15)[:, None]
    made = multiplier([0.0031, -0.0172, 0.5], "here")
    for rounding in ROUNDINGS:
        how = Requantisation(made, 17, -128, 127, rounding)
        expected = [
            [twin.requantise(int(one), how, channel) for channel in range(3)]
            for one in sums[::7, 0]
        ]
        assert requantise(sums[::7], how).tolist() == expected


def test_large_maps_are_requantised_part_by_part() -> None:
    sums = np.random.default_rng(7).integers(-(2**30), 2**30, (2, 3, AT_ONCE // 96, 48))
    factor = multiplier(np.linspace(1e-8, 1e-6, 48), "t")
    how = Requantisation(factor, 5, -128, 127, "even", shift=1, offset=np.arange(48))
    made = requantise(sums, how)
    assert made.shape == sums.shape
    assert np.unique(made).size > 200
    assert (made == [[requantise(row, how) for row in frame] for frame in sums]).all()


def test_large_maps_may_have_a_factor_for_each_pixel() -> None:
    """Means that count the pixels inside the map."""
    sums = np.random.default_rng(8).integers(-(2**20), 2**20, (2, 24, AT_ONCE // 24 // 40, 48))
    factor = multiplier(1 / np.linspace(1e4, 9e4, sums[0, :, :, 0].size), "t")
    by_pixel = Multiplier(*(one.reshape(*sums.shape[1:3], 1) for one in factor))
    made = requantise(sums, Requantisation(by_pixel, 3, -128, 127))
    for y, x in ((0, 0), (7, 5), (23, -1)):
        one = Multiplier(*(each[y, x, 0] for each in by_pixel))
        assert (made[:, y, x] == requantise(sums[:, y, x], Requantisation(one, 3, -128, 127))).all()


def test_a23_the_zero_point_is_added_after_the_shift() -> None:
    """Negative halves round away from zero, independent of later addends."""
    half = multiplier(0.5, "here")
    assert requantise([-3, -1, 1, 3], Requantisation(half, 10, -128, 127)).tolist() == [
        8,
        9,
        11,
        12,
    ]


@pytest.mark.parametrize("slope", [0.0, 0.1, 0.25, 1.0])
def test_a41_leaky_relu_is_the_larger_of_two_products(slope: float) -> None:
    """For slopes from 0 to 1: the form for cores without an instruction for it."""
    factor, below = multiplier(0.0043, "here"), multiplier(np.float32(0.0043) * slope, "here")
    sums = np.arange(-70000, 70000, 13)
    fused = requantise(sums, Requantisation(factor, -20, -128, 127, negative=below))
    wide = (-(2**31), 2**31)
    one, other = (requantise(sums, Requantisation(made, -20, *wide)) for made in (factor, below))
    assert np.array_equal(fused, np.clip(np.maximum(one, other), -128, 127))


# -- quantising ------------------------------------------------------------------------------------


@given(st.floats(-1e6, 1e6, width=32), scales, st.sampled_from([8, 16]), st.data())
def test_values_are_stored_like_quantize_linear(
    value: float, scale: float, bits: int, data: st.DataObject
) -> None:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    zero_point = data.draw(st.integers(low, high))
    steps = float(np.float32(value) / np.float32(scale))
    expected = twin.clipped(twin.half_even(steps) + zero_point, low, high)
    assert int(quantise(value, scale, zero_point, bits)) == expected
    back = dequantise(expected, scale, zero_point)
    assert back.dtype == np.float32
    assert float(back) == float(np.float32(scale) * np.float32(expected - zero_point))


def test_infinite_values_are_the_ends() -> None:
    assert quantise([math.inf, -math.inf, 0.0], 0.1, 5, 8).tolist() == [127, -128, 5]


@given(st.floats(-1e9, 1e9) | st.integers(-1000, 1000).map(lambda one: one / 2))
def test_halves_of_biases_go_away_from_zero(value: float) -> None:
    assert int(half_away(value)) == twin.half_away(value)


# -- biases and bounds -----------------------------------------------------------------------------

kernels = st.lists(st.integers(-127, 127), min_size=4, max_size=4)


@given(kernels, kernels, st.integers(-(2**30), 2**30), st.integers(-128, 127))
def test_a22_the_zero_point_of_the_input_is_in_the_bias(
    one: list[int], other: list[int], bias: int, zero_point: int
) -> None:
    weights = np.array([one, other]).reshape(2, 1, 2, 2)
    made = folded_bias([bias, -bias], weights, zero_point)
    assert made.tolist() == [
        twin.folded_bias(bias, one, zero_point), twin.folded_bias(-bias, other, zero_point)
    ]  # fmt: skip
    for bits in (8, 16):
        assert accumulator_bound(weights, made, bits).tolist() == [
            twin.bound(one, int(made[0]), bits), twin.bound(other, int(made[1]), bits)
        ]  # fmt: skip


@given(kernels, st.lists(st.integers(-128, 127), min_size=4, max_size=4), st.integers(-999, 999))
def test_a22_no_sum_exceeds_the_bound(kernel: list[int], data: list[int], bias: int) -> None:
    bound = int(accumulator_bound(np.array([kernel]), np.array([bias]), 8)[0])
    total = bias
    for weight, value in zip(kernel, data, strict=True):
        total += weight * value
        assert abs(total) <= bound


# -- addition --------------------------------------------------------------------------------------

ends = st.tuples(scales, st.integers(-128, 127))


@given(ends, ends, st.integers(-128, 127), st.data())
def test_b15_addition_with_two_scales(
    a: tuple[float, int], b: tuple[float, int], zero_point: int, data: st.DataObject
) -> None:
    result = max(a[0], b[0]) * data.draw(st.floats(0.25, 3.0))
    factors = add_factors(a, b, result, 8, "here")
    assert 2**20 <= max(factors.a, factors.b) < 2**21
    values = data.draw(st.tuples(st.integers(-128, 127), st.integers(-128, 127)))
    made = added(*(np.array(one) for one in values), factors, zero_point, -128, 127)
    assert int(made) == twin.added(*values, (a, b), result, (zero_point, -128, 127, 8))


@given(ends, ends, st.floats(0.25, 3.0), st.sampled_from([8, 16]))
def test_b15_sums_stay_in_32_bits(
    a: tuple[float, int], b: tuple[float, int], share: float, bits: int
) -> None:
    factors = add_factors(a, b, max(a[0], b[0]) * share, bits, "here")
    width, half = (21, 128) if bits == 8 else (13, 32768)
    assert 2 ** (width - 1) <= max(factors.a, factors.b) < 2**width
    rounding = 1 << factors.shift >> 1
    assert (2 * half - 1) * (factors.a + factors.b) + rounding < 2**31


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0.0])
def test_b15_invalid_scales_name_the_addition(scale: float) -> None:
    with pytest.raises(MapperError, match="add 'n': the scales of the addition are not finite"):
        add_factors((scale, 0), (0.0, 0), 1.0, 8, "add 'n'")


@pytest.mark.parametrize("ratio", [2.0**-44, 2.0**22])
def test_b15_scales_too_far_apart_name_the_addition(ratio: float) -> None:
    with pytest.raises(MapperError, match="add 'n': the ratio of addend to sum scale"):
        add_factors((ratio, 0), (ratio, 0), 1.0, 8, "add 'n'")
