"""The binary product: how many bits of two words agree, byte by byte.

Full adders side by side, as operations on words: bit n of each byte is in word n, and of three bits
of a weight they make one of it and one of the next. The counts go to the tree that adds up the
products of bytes.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import shared

COUNT_BITS = 4
"""Of a count of the bits of a byte."""


class BinaryProduct(wiring.Component):
    """Ports

    one, other : words
    agreement : how many bits of each byte agree, COUNT_BITS each; combinational
    """

    module_name = "npu_binary"
    clocked = False

    def __init__(self, count: int) -> None:
        """count : of bytes"""
        self.count = count
        super().__init__(
            {
                "one": In(8 * count),
                "other": In(8 * count),
                "agreement": Out(COUNT_BITS * count),
            }
        )

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """What makes two of them the same module."""
        return (self.count,)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        agree = Signal(8 * self.count)
        m.d.comb += agree.eq(~(me.one ^ me.other))
        counts = _counts(m, [agree[bit::8] for bit in range(8)])
        m.d.comb += me.agreement.eq(
            Cat(count[number] for number in range(self.count) for count in counts)
        )
        return m


def _counts(m: Module, bits: list[Value]) -> list[Value]:
    """How many of some bits are 1, as bits of growing weight; all are words, whose places do not
    touch each other."""
    found = []
    while bits:
        carries = []
        while len(bits) > 1:
            a, b, *left = bits
            c = left.pop(0) if left else None
            either, total, carry = (
                Signal(len(a), name=name) for name in ("either", "sum", "carry")
            )
            m.d.comb += either.eq(a ^ b)
            if c is None:
                m.d.comb += [total.eq(either), carry.eq(a & b)]
            else:
                m.d.comb += [total.eq(either ^ c), carry.eq((a & b) | (either & c))]
            carries.append(carry)
            bits = [*left, total]
        found += bits
        bits = carries
    return found
