"""The binary product: number of equal bits of two words, per byte.

Parallel full adders work on words: bit n of each byte is in word n, and three bits of one weight
give one of the same and one of the next weight. The counts go to the tree that sums the products of
bytes.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import shared

COUNT_BITS = 4
"""Bits of the count of a byte's bits."""


class BinaryProduct(wiring.Component):
    """Binary product.

    one, other : words
    agreement : number of equal bits of each byte, COUNT_BITS each; combinational
    """

    module_name = "npu_binary"
    clocked = False

    def __init__(self, count: int) -> None:
        """count : number of bytes"""
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
        """Key of the shared module."""
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
    """Return the number of 1s per position of some words, as words of increasing bit weight."""
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
