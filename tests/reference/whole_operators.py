"""Operators of integer networks in Python integers, one number at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray


def towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def clipped(value: int, low: int = -128, high: int = 127) -> int:
    return min(max(value, low), high)


def layer_norm(x: Array, weight: Array, bias: Array, div: int) -> Array:
    """Return iLayerNorm over the last axis."""
    made = np.empty_like(x)
    for at in np.ndindex(x.shape[:-1]):
        row = [int(one) for one in x[at]]
        mean = towards_zero(sum(row), len(row))
        less = [one - mean for one in row]
        deviation = math.isqrt(sum(one * one for one in less) // len(row) + 1)
        for place, one in enumerate(less):
            scaled = towards_zero(one * int(weight[place]), deviation) + int(bias[place])
            made[(*at, place)] = clipped(scaled // div)
    return made


def ita_max(x: Array) -> Array:
    """Return ITAMax over the last axis, with 256 levels."""
    made = np.empty_like(x)
    for at in np.ndindex(x.shape[:-1]):
        row = [int(one) for one in x[at]]
        shifts = [(max(row) - one + 16) >> 5 for one in row]
        inverse = 255 * 256 // sum(256 >> one for one in shifts)
        made[at] = [inverse >> one for one in shifts]
    return made


def gelu(x: Array, b: int, one: int) -> Array:
    def value(number: int) -> int:
        sign = (number > 0) - (number < 0)
        near = min(abs(number), -b) + b
        return number * ((one + sign * (one - near * near)) >> 1)

    return np.array([value(int(number)) for number in x.ravel()]).reshape(x.shape)


def requant_shift(
    x: Array, mul: Any, add: Any, div: int, low: int = -128, high: int = 127
) -> Array:
    """Return RequantShift; mul, add : broadcast to x"""
    mul, add = (np.broadcast_to(one, x.shape).ravel() for one in (mul, add))
    found = [
        clipped((2 * (int(number) * int(m) + int(a)) + div) // (2 * div), low, high)
        for number, m, a in zip(x.ravel(), mul, add, strict=True)
    ]
    return np.array(found).reshape(x.shape)


def mean(x: Array, axis: int) -> Array:
    """Return IntegerMean without the axis: halves up for powers of two, else away from zero."""
    count = x.shape[axis]
    even = count & (count - 1) == 0

    def value(total: int) -> int:
        if even:
            return (2 * total + count) // (2 * count)
        return (2 * abs(total) + count) // (2 * count) * (1 if total > 0 else -1)

    sums = x.sum(axis)
    return np.array([value(int(one)) for one in sums.ravel()]).reshape(sums.shape)
