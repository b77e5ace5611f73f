"""ALU operations on one number of an entry: simple kinds in every row, slow kinds in lanes.

Rows share one module; so do the lanes, which have the multipliers.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.alu.arithmetic import clamp, saturated, shifted, sum_of
from hw.npu.isa.table import SCALE
from hw.npu.shape import TABLE_BITS, TABLE_ENTRIES, NpuShape, Widths

ACCUMULATOR, PARAMETERS = 1, 2
SIMPLE = ("ADD", "MAX", "MIN", "MOV", "RSHR", "SHL")
"""Kinds of the rows, by their numbers."""
NEAR_BITS = 33
"""Bits of a rounded product: enough to compare it with every 32-bit number, even after adding
one."""
M0_BITS = SCALE[0].width


class AluRow(ShapedComponent):
    """Combinational ADD, MAX, MIN, MOV, RSHR and SHL, and the comparison of THRESHOLD.

    kind, source, immediate, mode : fields of the instruction; `mode` is the rounding
    adds, shifts : the result is a sum, or x shifted right by `shift` and rounded; all other kinds
        compare
    x, other : accumulators, the destination and a source
    number, turns : parameters
    result : result of a simple kind
    bit : whether x is at least the source, inverted if `turns`
    """

    module_name = "npu_alu_row"
    clocked = False

    def __init__(self, shape: NpuShape) -> None:
        self.shape = shape
        number = Widths(shape).sum
        super().__init__(
            {
                "kind": In(4),
                "adds": In(1),
                "shifts": In(1),
                "shift": In(6),
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

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        x = me.x
        s, total = Signal.like(x, name="s"), Signal(signed(len(x) + 1))
        less, left = Signal(), Signal()
        is_kind = {name: me.kind == code for code, name in enumerate(SIMPLE)}
        m.d.comb += [
            s.eq(
                Mux(
                    me.source == ACCUMULATOR,
                    me.other,
                    Mux(me.source == PARAMETERS, me.number, me.immediate),
                )
            ),
            left.eq(is_kind["SHL"] & ~me.shifts),
        ]
        # One shifter for both directions: a left shift is a right shift of the reversed bits, which
        # are not a signed number.
        turned, kept = Signal(signed(len(x) + 1)), Signal.like(x, name="floor")
        m.d.comb += turned.eq(Mux(left, x[::-1], x))
        floor, up = shifted(m, turned, me.shift, me.mode)
        # One adder for sums, rounding and comparisons: x - s is x + ~s + 1.
        one, other = Signal.like(x, name="one"), Signal.like(x, name="addend")
        m.d.comb += [
            kept.eq(floor),
            one.eq(Mux(me.shifts, kept, x)),
            other.eq(Mux(me.shifts, 0, Mux(me.adds, s, ~s))),
            total.eq(sum_of(one, other, Mux(me.shifts, up, ~me.adds))),
            less.eq(total[-1]),
            me.bit.eq(~less ^ me.turns),
        ]
        # The larger, the smaller, or always s.
        takes = Mux(is_kind["MAX"], less, Mux(is_kind["MIN"], ~less, 1))
        m.d.comb += me.result.eq(
            Mux(
                me.adds | me.shifts,
                total[: len(x)],
                Mux(left, kept[::-1], Mux(takes, s, x)),
            )
        )
        return m


class AluLane(ShapedComponent):
    """RMUL, MAC2, MUL, RQ, LEAKY and LOOKUP: multiplies in one cycle, rounds and clamps in the
    next, and reads the table in a third one.

    mac, times, looks : the kind is MAC2, MUL, LOOKUP
    mode : rounding
    leaky : negative numbers use the scale `leak`
    x, other : accumulators, x already shifted
    scale, offset, leak : parameters
    first, second, third : for MAC2, x * first + other * second + third
    zero, low, high : added to a rounded product, and the range of the results
    fill : a write to the table
    result : the result, a cycle later; of LOOKUP two cycles later
    """

    module_name = "npu_alu_lane"

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.size = shape, Widths(shape)
        size, number = self.size, self.size.sum
        numbers = ("scale", "offset", "leak", "first", "second", "third", "zero", "low", "high")
        super().__init__(
            {
                **{name: In(1) for name in ("mac", "times", "looks")},
                "fill": In(
                    wiring.Signature(
                        {"en": Out(1), "addr": Out(range(size.table)), "data": Out(TABLE_BITS)}
                    )
                ),
                "mode": In(2),
                "leaky": In(1),
                "x": In(number),
                "other": In(number),
                **{name: In(signed(32)) for name in numbers},
                "result": Out(number),
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        bits = len(me.x)
        t, chosen = (Signal(signed(32), name=name) for name in ("before", "chosen"))
        factor = Signal(signed(M0_BITS))
        # MAC2 has a factor of 32 bits: high * 2^M0_BITS + a signed number of M0_BITS.
        upper = bits - M0_BITS  # bits of the sum that `high` affects
        high = Signal(signed(32 - M0_BITS + 1))
        m.d.comb += [
            t.eq(me.x),
            chosen.eq(Mux(me.leaky & (t < 0), me.leak, me.scale)),
            factor.eq(
                Mux(
                    me.times,
                    me.other[:M0_BITS].as_signed(),
                    Mux(me.mac, me.first[:M0_BITS].as_signed(), chosen >> (32 - M0_BITS)),
                )
            ),
            high.eq(me.first[M0_BITS:].as_signed() + me.first[M0_BITS - 1]),
        ]
        # One addition to the product: the offset, or all other terms of MAC2.
        product = Signal(signed(32 + M0_BITS))
        top, rest = Signal(upper), Signal(signed(bits))
        shift = Signal(6)
        m.d.comb += [
            top.eq((t * high)[:upper]),  # high is signed: no slice of it
            rest.eq(
                me.other[:32].as_signed() * me.second
                + me.third
                + Cat(Const(0, M0_BITS), top).as_signed()
            ),
        ]
        m.d.sync += [
            product.eq(t * factor + Mux(me.mac, rest, me.offset)),
            shift.eq(chosen[: 32 - M0_BITS]),
        ]
        ended = Signal(signed(32))
        floor, up = shifted(m, product, shift, me.mode)
        # An overflow is so large that the result is clamped, whatever is added.
        near = saturated(m, floor, NEAR_BITS)
        m.d.comb += ended.eq(clamp(sum_of(near, me.zero, up), me.low, me.high))
        plain = Mux(me.mac | me.times, product[:bits].as_signed(), ended)
        m.d.comb += me.result.eq(Mux(me.looks, self._entry(m, ended), plain))
        return m

    def _entry(self, m: Module, number: Signal) -> Value:
        """Return the entry of the table that the low bits of a number select, a cycle later."""
        me: Any = self
        m.submodules.table = table = Memory(shape=TABLE_BITS, depth=self.size.table, init=[])
        write, read = table.write_port(), table.read_port()
        fill, lane = me.fill, self.size.lane
        place = exact_log2(TABLE_BITS // lane)
        within = Signal(place)
        m.d.comb += [
            write.en.eq(fill.en), write.addr.eq(fill.addr), write.data.eq(fill.data),
            read.addr.eq(number[place : exact_log2(TABLE_ENTRIES)]),
        ]  # fmt: skip
        m.d.sync += within.eq(number[:place])
        return read.data.word_select(within, lane).as_signed()
