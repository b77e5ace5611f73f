"""Arithmetic on one-bit numbers with Python's integers and fractions, one number at a time."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


def word(values: list[int]) -> int:
    """Return +1 and -1 as the bits of an integer, the first one lowest."""
    return sum(1 << place for place, value in enumerate(values) if value > 0)


def dot(a: list[int], b: list[int], width: int) -> int:
    """Return 2 * popcount(xnor) - width of each vector, minus the contribution of unused bits."""
    total = 0
    for first in range(0, len(a), width):
        alike = ~(word(a[first : first + width]) ^ word(b[first : first + width]))
        total += 2 * (alike & ((1 << width) - 1)).bit_count() - width
    return total - (-len(a) % width)


def sign_behind(total: int, steps: list[tuple[float, float]]) -> int:
    """Return the exact sign of the real number that a sum represents; zero is +1."""
    exact = Fraction(total)
    for factor, offset in steps:
        exact = exact * Fraction(factor) + Fraction(offset)
    return 1 if exact >= 0 else -1


def pooled(bits: Any) -> int:
    """Return the largest of some bits: one +1 is enough."""
    return 1 if any(bit > 0 for bit in bits) else -1
