"""What the ALU does with one number of an entry: simple kinds in every row, slow ones in lanes.

Rows are one module, and so are the lanes, which have the multipliers.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import shared
from hw.npu.arithmetic import clamp, rounded
from hw.npu.isa import SCALE
from hw.npu.shape import NpuShape, Widths

ACCUMULATOR, PARAMETERS = 1, 2
M0_BITS = SCALE[0].width


class AluRow(wiring.Component):
    """ADD, MAX, MIN, MOV, RSHR and SHL, and the comparison of THRESHOLD. Combinational.

    Ports

    kind, source, immediate, mode : of the instruction; mode : of rounding
    x, other : accumulators, the destination and a source; number, turns : parameters
    result : of a simple kind; bit : whether x is at least the source, turned around or not
    """

    module_name = "npu_alu_row"
    clocked = False

    def __init__(self, shape: NpuShape) -> None:
        self.shape = shape
        number = Widths(shape).sum
        super().__init__(
            {
                "kind": In(4),
                "source": In(2),
                "immediate": In(signed(16)),
                "mode": In(2),
                "x": In(number),
                "other": In(number),
                "number": In(signed(32)),
                "turns": In(1),
                "result": Out(number),
                "bit": Out(1),
            }
        )

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """What makes two of them the same module."""
        return (self.shape,)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        x, shift = me.x, me.immediate[:6]
        s, less = Signal.like(x, name="s"), Signal()
        m.d.comb += [
            s.eq(
                Mux(
                    me.source == ACCUMULATOR,
                    me.other,
                    Mux(me.source == PARAMETERS, me.number, me.immediate),
                )
            ),
            less.eq(x < s),
            me.bit.eq(~less ^ me.turns),
        ]
        with m.Switch(me.kind):
            for code, value in enumerate(
                (
                    x + s, Mux(less, s, x), Mux(less, x, s), s,
                    rounded(x, shift, me.mode), (x << shift)[: len(x)],
                )
            ):  # fmt: skip
                with m.Case(code):
                    m.d.comb += me.result.eq(value)
        return m


class AluLane(wiring.Component):
    """RMUL, MAC2, RQ and LEAKY: it multiplies in one cycle, and rounds and clamps in the next.

    Ports

    mac, record : the kind is MAC2, or one with a record; mode : of rounding
    leaky, shifted : negative numbers take the scale `leak`; shift before the product
    x, other : accumulators; scale, offset, leak : parameters
    first, second, third : of MAC2, x * first + other * second + third
    zero, low, high : of a record
    result : a cycle later
    """

    module_name = "npu_alu_lane"

    def __init__(self, shape: NpuShape) -> None:
        self.shape = shape
        number = Widths(shape).sum
        numbers = ("scale", "offset", "leak", "first", "second", "third", "zero", "low", "high")
        super().__init__(
            {
                "mac": In(1),
                "record": In(1),
                "mode": In(2),
                "leaky": In(1),
                "shifted": In(6),
                "x": In(number),
                "other": In(number),
                **{name: In(signed(32)) for name in numbers},
                "result": Out(number),
            }
        )

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """What makes two of them the same module."""
        return (self.shape,)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        bits = len(me.x)
        t, chosen = (Signal(signed(32), name=name) for name in ("before", "chosen"))
        factor = Signal(signed(M0_BITS))
        # MAC2 has a factor of 32 bits: high * 2^M0_BITS + a signed number of M0_BITS.
        upper = bits - M0_BITS  # bits of the sum that `high` is in
        high = Signal(signed(32 - M0_BITS + 1))
        m.d.comb += [
            t.eq(rounded(me.x, me.shifted, me.mode)),
            chosen.eq(Mux(me.leaky & (t < 0), me.leak, me.scale)),
            factor.eq(Mux(me.mac, me.first[:M0_BITS].as_signed(), chosen >> (32 - M0_BITS))),
            high.eq(me.first[M0_BITS:].as_signed() + me.first[M0_BITS - 1]),
        ]
        product = Signal(signed(32 + M0_BITS))
        rest = Signal(upper)
        other, added = Signal(signed(bits)), Signal(signed(32))
        shift = Signal(6)
        m.d.sync += [
            product.eq(t * factor),
            rest.eq((t * high)[:upper]),  # high is signed: no slice of it
            other.eq(me.other[:32].as_signed() * me.second),
            added.eq(me.offset),
            shift.eq(chosen[: 32 - M0_BITS]),
        ]
        total = Signal.like(product)
        scaled, ended = Signal(signed(len(product) + 1)), Signal(signed(32))
        low, high_end, zero = (Signal(signed(32), name=name) for name in ("least", "most", "zero"))
        m.d.comb += [
            total.eq(product + added),
            scaled.eq(rounded(total, shift, me.mode)),
            low.eq(Mux(me.record, me.low, Const(-(1 << 31), signed(32)))),
            high_end.eq(Mux(me.record, me.high, Const((1 << 31) - 1, signed(32)))),
            zero.eq(Mux(me.record, me.zero, 0)),
            ended.eq(clamp(scaled + zero, low, high_end)),
        ]
        sums = Cat(product[:M0_BITS], product[M0_BITS:bits] + rest)[:bits].as_signed()
        m.d.comb += me.result.eq(Mux(me.mac, sums + other + me.third, ended))
        return m
