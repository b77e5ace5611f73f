"""Reference of the cores' integer arithmetic in numpy: one function per rule.

Integers are int64 here, regardless of their storage type. Memory contents of cores, simulators and
hardware are bit-identical to these results.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mapper.compiler.ir.node import PAGES, Lookup
from mapper.compiler.ir.requantisation import (
    AddFactors,
    Int64,
    Multiplier,
    Requantisation,
    Rounding,
)
from mapper.errors import MapperError

MANTISSA = 24  # bits of a multiplier, as in float32
MOST_SHIFT = 63
LEAST_FACTOR = 2.0 ** (MANTISSA - 1 - MOST_SHIFT)  # smallest multiplier
MOST_FACTOR = 2.0**MANTISSA - 1
AT_ONCE = 1 << 16  # numbers per chunk, so that they stay in caches between steps


def rounding_shift(x: ArrayLike, n: ArrayLike, rounding: Rounding) -> Int64:
    """Return x * 2^-n as an integer; x is int64 of fewer than 63 bits, n from 0 to 63.

    Halves are rounded away from zero, up, or to the even neighbour; `floor` rounds down.
    """
    x, n = np.asarray(x, np.int64), np.asarray(n, np.int64)
    if rounding == "floor":
        return np.asarray(x >> n)
    last = np.minimum(n, 1)  # the last bit is shifted separately: there halves round up
    if rounding == "away":
        found = x - ((x < 0) & last)
    elif rounding == "even":
        found = (x >> n) & last
        found += x - last
    else:
        found = x
    found = found >> (n - last)
    found += last
    found >>= last
    return np.asarray(found)


def multiplier(factor: ArrayLike, where: str) -> Multiplier:
    """Return a factor (float32) as m0 * 2^-n with 2^23 <= |m0| < 2^24, or 0.

    factor : shape () or (channels,)
    where : layer, for errors: factors must be finite, and shifts from 0 to 63
    """
    single = np.asarray(factor, np.float32)
    if not np.isfinite(single).all():
        raise MapperError(f"{where}: a scale factor is not finite; check the scales")
    mantissa, exponent = np.frexp(single.astype(np.float64))
    m0 = np.ldexp(mantissa, MANTISSA).astype(np.int64)  # exact: float32 has 24 bits
    n = np.where(m0 == 0, 0, MANTISSA - exponent.astype(np.int64))
    if (n < 0).any() or (n > MOST_SHIFT).any():
        worst = float(single.flat[int(np.argmax((n < 0) | (n > MOST_SHIFT)))])
        raise MapperError(
            f"{where}: scale factor {worst:.3g} needs a shift outside 0 to {MOST_SHIFT}; check the "
            "scales"
        )
    return Multiplier(m0, n)


def saturating_multiplier(factor: ArrayLike, where: str) -> Multiplier:
    """Return a factor like `multiplier`; factors out of range become 0 or the largest one.

    Stored results are unchanged: sums below 2^39 are rounded to 0, or are clipped.
    """
    with np.errstate(over="ignore"):
        single = np.asarray(factor, np.float32)
    size = np.abs(single)
    kept = np.where(size < LEAST_FACTOR, np.float32(0), single)
    largest = np.copysign(np.float32(MOST_FACTOR), single)
    return multiplier(np.where(size > MOST_FACTOR, largest, kept), where)


def requantise(sums: ArrayLike, how: Requantisation) -> Int64:
    """Return sums, shape (..., channels), as stored integers of the same shape."""
    sums = np.asarray(sums, np.int64)
    numbers = [*how.factor, *(how.negative or ()), how.offset]
    by_pixel = any(np.ndim(one) > 1 for one in numbers)  # averages without padding
    if sums.ndim < 2 or sums.size <= AT_ONCE or by_pixel:
        return _requantised(sums, how)
    made = np.empty(sums.shape, np.int64)
    rows, results = (each.reshape(-1, sums.shape[-1]) for each in (sums, made))
    step = max(AT_ONCE // sums.shape[-1], 1)
    for at in range(0, len(rows), step):
        results[at : at + step] = _requantised(rows[at : at + step], how)
    return made


def _requantised(sums: Int64, how: Requantisation) -> Int64:
    if how.shift:
        sums = rounding_shift(sums, how.shift, how.rounding)
    m0, n = how.factor
    if how.negative is not None:
        below = sums < 0
        m0, n = np.where(below, how.negative.m0, m0), np.where(below, how.negative.n, n)
    product = sums * m0
    product += how.offset
    rounded = rounding_shift(product, n, how.rounding)
    rounded += how.zero_point
    return np.clip(rounded, how.low, how.high, out=rounded)


def quantise(values: ArrayLike, scale: float, zero_point: int, bits: int) -> Int64:
    """Quantise real values like QuantizeLinear: float32, round half to even."""
    with np.errstate(over="ignore"):  # tiny scales clip all values except 0
        steps = np.rint(np.asarray(values, np.float32) / np.float32(scale))
    # clipped before the conversion to integers because of infinite values
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return np.clip(steps, low - zero_point, high - zero_point).astype(np.int64) + zero_point


def dequantise(stored: ArrayLike, scale: float, zero_point: int) -> NDArray[np.float32]:
    """Return the real values of stored integers, in float32."""
    return np.float32(scale) * (np.asarray(stored, np.int64) - zero_point).astype(np.float32)


def real_numbers(stored: ArrayLike, tensor: Any) -> NDArray[np.floating[Any]]:
    """Return the real values of a feature map: sums of scale 1 in float64 (exact), others in
    float32. tensor : of the graph"""
    if tensor.type in ("int32", "int64") and tensor.scale == 1.0:
        return np.asarray(stored, np.float64) - tensor.zero_point
    return dequantise(stored, tensor.scale, tensor.zero_point)


def half_away(values: ArrayLike) -> Int64:
    """Round to the nearest integer, halves away from zero."""
    values = np.asarray(values, np.float64)
    return (np.sign(values) * np.floor(np.abs(values) + 0.5)).astype(np.int64)


def folded_bias(bias: ArrayLike, weights: Int64, zero_point: int) -> Int64:
    """Return the bias with the zero point of the input folded in.

    bias : int64, shape (outputs,); weights : shape (outputs, ...)
    zero_point : zero point of the input, which is also the value of padding
    """
    sums = weights.reshape(weights.shape[0], -1).sum(1)
    return np.asarray(bias, np.int64) - zero_point * sums


def accumulator_bound(weights: Int64, bias: Int64, bits: int) -> Int64:
    """Return an upper bound of the magnitude of partial sums per channel, shape (outputs,)."""
    magnitudes = np.abs(weights).reshape(weights.shape[0], -1).sum(1)
    return (magnitudes << (bits - 1)) + np.abs(bias)


def add_factors(
    a: tuple[float, int], b: tuple[float, int], result_scale: float, bits: int, where: str
) -> AddFactors:
    """Return the factors for (scale, zero point) of both addends.

    The larger factor has 21 bits (8-bit data) or 13 bits (16-bit), so that sums fit in 32 bits.
    """
    wanted = 21 if bits == 8 else 13
    ratios = [a[0] / result_scale, b[0] / result_scale]
    largest = max(ratios)
    if not (math.isfinite(largest) and largest > 0):
        raise MapperError(f"{where}: the scales of the addition are not finite; check the scales")
    shift = wanted - math.frexp(largest)[1]
    ma, mb = (int(half_away(math.ldexp(ratio, shift))) for ratio in ratios)
    if max(ma, mb) >= 1 << wanted:
        shift -= 1
        ma, mb = (int(half_away(math.ldexp(ratio, shift))) for ratio in ratios)
    if not 0 <= shift <= MOST_SHIFT:
        raise MapperError(
            f"{where}: the ratio of addend to sum scale is {largest:.3g}, which needs a shift "
            f"outside 0 to {MOST_SHIFT}; check the scales"
        )
    return AddFactors(ma, mb, shift, -(a[1] * ma + b[1] * mb))


def added(
    a: Int64, b: Int64, factors: AddFactors, zero_point: int, low: int, high: int,
    rounding: Rounding = "away",
) -> Int64:  # fmt: skip
    """Return the stored sum of two stored integers with different scales."""
    sums = a * factors.a + b * factors.b + factors.constant
    return np.clip(rounding_shift(sums, factors.shift, rounding) + zero_point, low, high)


def looked_up(x: Int64, table: Lookup) -> Int64:
    """Return the table's function of stored integers, of 8 or of 16 bits."""
    if not table.interpolates:
        return table.entries[x + PAGES // 2]
    page, rest = (x >> 8) + PAGES // 2, x & 255
    return table.entries[page] + rounding_shift(table.slopes[page] * rest, 8, "up")
