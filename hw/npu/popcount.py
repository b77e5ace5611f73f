"""The binary product: how many bits of two words agree, less those that do not."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value, signed


def agreement(m: Module, one: Value, other: Value) -> Value:
    """2 * popcount(xnor(one, other)) - bits, a signed number."""
    bits = len(one)
    agree = Signal(bits, name="agree")
    m.d.comb += agree.eq(~(one ^ other))
    values: list[Value] = [agree[number] for number in range(bits)]
    while len(values) > 1:
        sums = []
        for first, second in zip(values[::2], values[1::2], strict=True):
            found = Signal(len(first) + 1, name="ones")
            m.d.comb += found.eq(first + second)
            sums.append(found)
        values = sums
    found = Signal(signed(bits.bit_length() + 1), name="agreement")
    m.d.comb += found.eq((values[0] << 1) - bits)
    return found
