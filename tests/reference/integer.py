"""The compiler's integer arithmetic with Python's integers and fractions, one number at a time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any


def rounding_shift(x: int, n: int, rounding: str) -> int:
    """Return x * 2^-n rounded to an integer, by comparing fractions."""
    exact = Fraction(x, 2**n)
    low = math.floor(exact)
    rest = exact - low
    if rounding == "floor" or rest < Fraction(1, 2):
        return low
    if rest > Fraction(1, 2) or rounding == "up":
        return low + 1
    if rounding == "away":
        return low + 1 if x >= 0 else low
    return low + low % 2


def shift_by_bits(x: int, n: int) -> int:
    """Round halves away from zero as in hardware: one addend, whose bits are copies of the sign."""
    if n == 0:
        return x
    sign = x < 0
    addend = 0 if sign else 1 << (n - 1)
    addend |= (1 << (n - 1)) - 1 if sign else 0
    return (x + addend) >> n


def multiplier(factor: float) -> tuple[int, int]:
    """Return m0, n of a float32 as a Python float, doubled or halved until it has 24 bits."""
    if factor == 0:
        return 0, 0
    exact, n = Fraction(factor), 0
    while abs(exact) < 2**23:
        exact, n = exact * 2, n + 1
    while abs(exact) >= 2**24:
        exact, n = exact / 2, n - 1
    assert exact.denominator == 1
    return int(exact), n


def requantise(total: int, how: Any, channel: int) -> int:
    """Requantise one sum of a channel; `how` is a `Requantisation`."""

    def of(value: Any) -> int:
        listed = value.tolist() if hasattr(value, "tolist") else value
        return int(listed[channel] if isinstance(listed, list) else listed)

    total = rounding_shift(total, how.shift, how.rounding)
    factor = how.negative if total < 0 and how.negative is not None else how.factor
    product = total * of(factor.m0) + of(how.offset)
    return clipped(
        rounding_shift(product, of(factor.n), how.rounding) + how.zero_point, how.low, how.high
    )


def clipped(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def half_away(value: float) -> int:
    exact = Fraction(value)
    return int(math.copysign(math.floor(abs(exact) + Fraction(1, 2)), exact))


def half_even(value: float) -> int:
    return round(Fraction(value))


def folded_bias(bias: int, kernel: list[int], zero_point: int) -> int:
    for weight in kernel:
        bias -= zero_point * weight
    return bias


def bound(kernel: list[int], bias: int, bits: int) -> int:
    return sum(abs(weight) for weight in kernel) * 2 ** (bits - 1) + abs(bias)


def added(a: int, b: int, ends: tuple[Any, Any], result_scale: float, where: Any) -> int:
    """Return a sum, with factors found by trying shifts; where : zero point, low, high, bits"""
    zero_point, low, high, bits = where
    width = 21 if bits == 8 else 13
    ratios = [Fraction(scale / result_scale) for scale, _ in ends]
    for n in range(64):
        factors = [math.floor(ratio * 2**n + Fraction(1, 2)) for ratio in ratios]
        if 2 ** (width - 1) <= max(factors) < 2**width:
            break
    else:
        raise ValueError("no shift")
    total = sum((q - z) * m for q, (_, z), m in zip((a, b), ends, factors, strict=True))
    return clipped(rounding_shift(total, n, "away") + zero_point, low, high)


def convolution(
    maps: Any, weights: Any, bias: list[int], how: dict[str, Any]
) -> list[list[list[int]]]:
    """Return the sums of one frame, [row][column][output]; surrounding pixels hold `value`."""
    (sh, sw), (dh, dw), (top, bottom, left, right) = how["stride"], how["dilation"], how["pad"]
    outputs, kh, kw, share = weights.shape
    height, width, channels = maps.shape
    groups = channels // share
    made = []
    for y in range(0, height + top + bottom - (kh - 1) * dh, sh):
        row = []
        for x in range(0, width + left + right - (kw - 1) * dw, sw):
            pixel = []
            for o in range(outputs):
                total = bias[o]
                first = o // (outputs // groups) * share
                for ky in range(kh):
                    for kx in range(kw):
                        at = y + ky * dh - top, x + kx * dw - left
                        inside = 0 <= at[0] < height and 0 <= at[1] < width
                        for c in range(share):
                            value = int(maps[at[0], at[1], first + c]) if inside else how["value"]
                            total += value * int(weights[o, ky, kx, c])
                pixel.append(total)
            row.append(pixel)
        made.append(row)
    return made


def pool(maps: Any, how: dict[str, Any]) -> list[list[list[list[int]]]]:
    """Return the pixels inside the map that each window covers, [row][column][channel]."""
    (kh, kw), (sh, sw), (dh, dw) = how["size"], how["stride"], how["dilation"]
    top, bottom, left, right = how["pad"]
    height, width, channels = maps.shape
    return [
        [
            [
                [
                    int(maps[y + ky * dh - top, x + kx * dw - left, c])
                    for ky in range(kh)
                    for kx in range(kw)
                    if 0 <= y + ky * dh - top < height and 0 <= x + kx * dw - left < width
                ]
                for c in range(channels)
            ]
            for x in range(0, width + left + right - (kw - 1) * dw, sw)
        ]
        for y in range(0, height + top + bottom - (kh - 1) * dh, sh)
    ]
