"""The binary product: how many bits of two words agree, less those that do not.

Full adders side by side, as operations on words: of three bits of a weight they make one of it and
one of the next. Those that differ are counted: an inverter less a bit than counting those that
agree.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import shared


class BinaryProduct(wiring.Component):
    """Ports

    one, other : words
    agreement : 2 * popcount(xnor(one, other)) - bits; combinational
    """

    module_name = "npu_binary"
    clocked = False

    def __init__(self, bits: int) -> None:
        self.bits = bits
        found = signed(bits.bit_length() + 1)
        super().__init__({"one": In(bits), "other": In(bits), "agreement": Out(found)})

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """What makes two of them the same module."""
        return (self.bits,)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        differ = Signal(self.bits)
        m.d.comb += [
            differ.eq(me.one ^ me.other),
            me.agreement.eq(self.bits - (popcount(m, differ) << 1)),
        ]
        return m


def popcount(m: Module, bits: Value) -> Value:
    """How many bits of a word are 1."""
    count, left = [], bits
    while len(left):
        carries = []
        while len(left) > 1:
            third = max(1, len(left) // 3)
            a, b, c = left[:third], left[third : 2 * third], left[2 * third : 3 * third]
            either, total, carry = (Signal(third, name=name) for name in ("either", "sum", "carry"))
            m.d.comb += [
                either.eq(a ^ b),
                total.eq(either ^ c),
                carry.eq((a & b) | (either & c)),
            ]
            carries.append(carry)
            left = Cat(total, left[3 * third :])
        count.append(left)
        left = Cat(*carries)
    return Cat(*count)
