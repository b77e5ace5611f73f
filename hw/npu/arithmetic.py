"""Arithmetic of lanes as combinational logic: cut, saturated, and shifted with rounding."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Mux, Value

from hw.npu.isa import ROUNDINGS

AWAY, UP, EVEN, FLOOR = range(len(ROUNDINGS))


def clamp(value: Value, low: Value, high: Value) -> Value:
    """min(max(value, low), high)"""
    least = Mux(value < low, low, value)
    return Mux(least > high, high, least)


def rounded(value: Value, shift: Value, mode: Value) -> Value:
    """value / 2^shift, rounded: to the nearest with halves away from zero, up or to even; or down.

    value : signed. One bit more than it has is enough for the sum of a nearest one; a shift by more
    than its bits rounds to 0, or down to -1.
    """
    bits = len(value)
    wide = Cat(Const(0, bits), value).as_signed() >> shift
    kept = wide[bits:].as_signed()  # the floor
    rest = wide[:bits]  # what is cut off, a half first; all of it for shifts up to `bits`
    half = rest[bits - 1]
    more = rest[: bits - 1].any()
    negative = value[bits - 1]
    up = Array(
        [
            half & (more | ~negative),  # away from zero: a half of a negative number goes down
            half,
            half & (more | kept[0]),
            Value.cast(0),
        ]
    )[mode]
    # Beyond its bits a negative number is -1 and a rest above a half: it rounds to 0.
    beyond = negative & (mode != FLOOR)
    return kept + Mux(shift > bits, beyond, up)
