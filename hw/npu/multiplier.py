"""Multipliers of the array: bytes, or one of 25x16 bits that makes two products of bytes.

(a * 2^16 + b) * c holds b * c in its low 16 bits, and a * c above them, but for the borrow of a
negative low product, which is its sign bit. With c of 16 bits and a + b as one number of 16 bits it
multiplies these.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

WIDE, NARROW = 25, 16
LOW = 16  # bits of the low product


def product(m: Module, a: Value, b: Value) -> Value:
    """a * b, both signed bytes."""
    found = Signal(signed(16), name="product")
    m.d.comb += found.eq(a * b)
    return found


def dual_product(m: Module, wide: Value, narrow: Value) -> Value:
    """The product of the one multiplier that a lane has."""
    found = Signal(signed(WIDE + NARROW), name="product")
    m.d.comb += found.eq(wide * narrow)
    return found


def pair(m: Module, high: Value, low: Value) -> Value:
    """Two bytes as the wide operand."""
    found = Signal(signed(WIDE), name="pair")
    m.d.comb += found.eq((Cat(Const(0, LOW), high).as_signed() + low).as_signed())
    return found


def parted(found: Value) -> tuple[Value, Value]:
    """The high and the low product of a pair."""
    low = found[:LOW].as_signed()
    high = (found[LOW : 2 * LOW].as_signed() + found[LOW - 1])[:LOW].as_signed()
    return high, low


def chosen(m: Module, select: Value, one: Value, other: Value, bits: int) -> Value:
    """One of two signed operands."""
    found = Signal(signed(bits), name="operand")
    m.d.comb += found.eq(Mux(select, one, other))
    return found
