"""Lane arithmetic as combinational logic: clamping, saturation, and shifts with rounding."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed


def clamp(value: Value, low: Value, high: Value) -> Value:
    """Return min(max(value, low), high)."""
    least = Mux(value < low, low, value)
    return Mux(least > high, high, least)


def shifted(m: Module, value: Value, shift: Value, mode: Value) -> tuple[Value, Value]:
    """Return the floor of value / 2^shift, signed, and whether rounding adds 1.

    Rounding is to nearest (ties away from zero, up or to even) or down.

    value : signed
    shift : 0 or more, may exceed the bits of `value`

    Large shifts come first. Two bits of the shifted-out part are kept: the last one, worth a half,
    and the OR of all others.
    """
    bits = len(value)
    kept, half, more = value.as_signed(), Value.cast(0), Value.cast(0)
    for power in reversed(range(len(shift))):
        much, cuts = 1 << power, shift[power]
        now = Signal(signed(bits), name="kept")
        halves, others = Signal(name="half"), Signal(name="more")
        m.d.comb += [
            now.eq(Mux(cuts, kept >> much, kept)),
            halves.eq(Mux(cuts, kept[min(much, bits) - 1], half)),
            others.eq(more | (cuts & (half | kept[: much - 1].any()))),
        ]
        kept, half, more = now, halves, others
    up = Array(
        [
            half & (more | ~value[bits - 1]),  # away from zero: a negative half rounds down
            half,
            half & (more | kept[0]),
            Value.cast(0),
        ]
    )[mode]
    return kept, up


def saturated(m: Module, value: Value, bits: int) -> Value:
    """Return a signed number saturated to `bits` bits."""
    sign, upper = value[-1], value[bits - 1 :]
    found = Signal(signed(bits), name="saturated")
    fits = upper.all() | ~upper.any()
    m.d.comb += found.eq(Mux(fits, value[:bits], Cat((~sign).replicate(bits - 1), sign)))
    return found


def sum_of(one: Value, other: Value, carry: Value) -> Value:
    """Return the sum of two signed numbers and a carry bit, using one adder."""
    first = Cat(Const(1, 1), one).as_signed()
    return (first + Cat(carry, other).as_signed())[1:].as_signed()
