"""Multipliers of the array: byte multipliers, or a 25x16-bit one that computes two byte products.

(a * 2^16 + b) * c holds b * c in its low 16 bits, and a * c above them, except for the borrow of a
negative low product, which is its sign bit. With a 16-bit c and a + b as one 16-bit number it
multiplies these.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

WIDE, NARROW = 25, 16
LOW = 16  # bits of the low product


def product(m: Module, a: Value, b: Value) -> Value:
    """Return a * b, both signed bytes."""
    found = Signal(signed(16), name="product")
    m.d.comb += found.eq(a * b)
    return found


def dual_product(m: Module, wide: Value, narrow: Value) -> Value:
    """Return the product of a lane's multiplier."""
    found = Signal(signed(WIDE + NARROW), name="product")
    m.d.comb += found.eq(wide * narrow)
    return found


def pair(m: Module, high: Value, low: Value) -> Value:
    """Return two bytes combined to the wide operand."""
    found = Signal(signed(WIDE), name="pair")
    m.d.comb += found.eq((Cat(Const(0, LOW), high).as_signed() + low).as_signed())
    return found


def parted(found: Value) -> tuple[Value, Value]:
    """Return the high and the low product of a pair."""
    low = found[:LOW].as_signed()
    high = (found[LOW : 2 * LOW].as_signed() + found[LOW - 1])[:LOW].as_signed()
    return high, low


def chosen(m: Module, select: Value, one: Value, other: Value, bits: int) -> Value:
    """Return one of two signed operands."""
    found = Signal(signed(bits), name="operand")
    m.d.comb += found.eq(Mux(select, one, other))
    return found
