"""The matrix unit: micro-ops in loops, products, and sums in accumulators.

Pipeline, one call per stage:

    0  loop counters; the micro-op is read
    1  addresses; input vector and weight word are read
    2  both arrive
    3  products and their sums (`hw.npu.gemm.array`); accumulator and bias are read
    4  the sum is added and written

With a weight port of one row a word enters row by row, into shadow registers, while the array works
on the previous word. Stages 0 and 1 process the entering word; calls wait `rows` cycles after stage
1 until it is complete, and a word with fewer calls than rows leaves stage 0 idle.

A call whose weight word has not arrived from the host stays in stage 1.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.drain import drained
from hw.npu.gemm.array import MacArray
from hw.npu.gemm.row import KINDS
from hw.npu.isa.instruction import (
    MICRO_OP_BITS,
    fields_of,
    micro_op_of,
    started_word,
    unit_ports,
)
from hw.npu.isa.registers import REGISTERS
from hw.npu.shape import NpuShape, Widths
from hw.npu.steps import ADDRESS, Loops

INIT_ZERO, INIT_BIAS = 1, 2
STRIDES = ("acc", "inp", "wgt")


class GemmUnit(ShapedComponent):
    """Matrix unit.

    word, starts, ends : see `hw.npu.frontend.control.Control`
    acc_distance, wgt_distance : distances of pairs
    base, arrived : first weight word that comes from the host, and the one after the last received
    uop, micro_op, holds : number of a micro-op, and its word, a cycle later, while `holds` is 0
    input, vector : address of an input, and its vector a cycle later
    weights, rows : addresses of weight words, and the words or their rows a cycle later, two for
        dual cores
    entry, acc : accumulators that are read, one or two
    words, bias : parameters
    sums : writes to accumulators, one or two
    """

    module_name = "npu_gemm"

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.size = shape, Widths(shape)
        size = self.size
        self.by_row = shape.weight_port == "row"
        self.ports = 2 if size.dual else 1
        word = size.vector * (1 if self.by_row else shape.rows)
        acc = size.acc * shape.rows
        super().__init__(
            {
                **unit_ports(),
                "acc_distance": In(REGISTERS["gemm_acc"]),
                "wgt_distance": In(REGISTERS["gemm_wgt"]),
                "base": In(ADDRESS),
                "arrived": In(ADDRESS),
                "uop": Out(10),
                "holds": Out(1),
                "micro_op": In(MICRO_OP_BITS),
                "input": Out(ADDRESS),
                "vector": In(size.lane * shape.columns),
                "weights": Out(2 * ADDRESS).array(self.ports),
                "rows": In(word).array(self.ports),
                "entry": Out(ADDRESS).array(self.ports),
                "acc": In(acc).array(self.ports),
                "words": Out(ADDRESS).array(self.ports),
                "bias": In(32 * shape.rows).array(self.ports),
                "sums": Out(
                    wiring.Signature({"en": Out(1), "addr": Out(ADDRESS), "data": Out(acc)})
                ).array(self.ports),
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        word = started_word(m, me)
        f, asked = fields_of(word, "GEMM", "INT8"), fields_of(me.word, "GEMM", "INT8")
        loops = Loops(m, f, STRIDES)
        empty = (asked.n_out == 0) | (asked.n_in == 0) | (asked.uops == 0)
        works, holds = Signal(), me.holds

        # Stage 0. A slot is the time of one weight word; with a row port it lasts at least `rows`
        # cycles.
        slot = Signal(range(self.shape.rows + 1))
        whole, calls = Signal(), Signal()  # a slot may end; the loop step is a call
        slot_ends = Mux(f.wgt_in != 0, 1, Mux(f.wgt_out != 0, loops.inner_ends, loops.outer_ends))
        called = Signal()  # the last call of the slot was made in an earlier cycle
        leaves = Signal()
        m.d.comb += [
            whole.eq((slot >= self.shape.rows - 1) if self.by_row else 1),
            calls.eq(works & ~called),
            leaves.eq(works & ~holds & (~slot_ends | whole)),
            me.uop.eq(loops.micro_op),
        ]
        with m.If(me.starts):
            loops.set_up(asked.uop)
            m.d.sync += [works.eq(~empty), slot.eq(0), called.eq(0)]
        with m.If(works & ~holds):
            m.d.sync += [
                called.eq(slot_ends & ~whole),
                slot.eq(Mux(slot_ends & whole, 0, Mux(slot == self.shape.rows, slot, slot + 1))),
            ]
        with m.If(leaves):
            loops.step()
            m.d.sync += works.eq(~loops.last)

        # Stage 1
        enters, makes, begins, last = Signal(), Signal(), Signal(), Signal()
        row = Signal(range(self.shape.rows + 1))
        offsets = {name: Signal(ADDRESS, name=f"{name}_1") for name in STRIDES}
        uop = micro_op_of(me.micro_op)
        wgt = Signal(ADDRESS)
        second = Signal(ADDRESS)
        m.d.comb += [
            wgt.eq(uop.wgt + offsets["wgt"]),
            second.eq(wgt + Mux(f.kind == KINDS.index("INT16"), 1, me.wgt_distance)),
        ]
        with m.If(~holds):
            m.d.sync += [
                enters.eq(works), makes.eq(calls), begins.eq(slot == 0), row.eq(slot),
                last.eq((leaves & loops.last) | (me.starts & empty)),
                *(offsets[name].eq(loops.offsets[name]) for name in STRIDES),
            ]  # fmt: skip
        farthest = wgt
        if self.size.dual:
            two = (f.kind == KINDS.index("INT16")) | (f.kind == KINDS.index("DUAL_KERNEL"))
            farthest = Mux(two, second, wgt)
        m.d.comb += [
            holds.eq(enters & f.dyn & (farthest >= me.base) & (farthest >= me.arrived)),
            me.ends.eq(drained(m, last & ~holds, self.shape.latency.matrix - 2)),
        ]
        for port, address in zip(me.weights, (wgt, second), strict=False):
            by_row = (address * self.shape.rows) + row
            m.d.comb += port.eq(by_row if self.by_row else address)
        call = {
            "makes": (1, makes & ~holds),
            "begins": (1, begins),
            "acc": (ADDRESS, (uop.acc + offsets["acc"])[:ADDRESS]),
            "inp": (ADDRESS, (uop.inp + offsets["inp"])[:ADDRESS]),
            "tap": (4, uop.tap),
            "init": (2, Mux(uop.init, f.init, 0)),
            "bias": (ADDRESS, (f.bm + uop.bm)[:ADDRESS]),
        }
        stage = {name: _staged(m, name, bits, value) for name, (bits, value) in call.items()}
        weights = list(me.rows)
        if self.by_row:
            stage, weights = self._by_row(m, stage, enters & ~holds, row)
        self._stages(m, f, stage, weights)
        return m

    def _by_row(
        self, m: Module, stage: dict[str, Signal], enters: Value, row: Signal
    ) -> tuple[dict[str, Signal], list[Value]]:
        """Return the delayed calls and the weight words of a weight port of one row."""
        rows_enter = Signal()
        rows_at = Signal.like(row)
        m.d.sync += [rows_enter.eq(enters & (row < self.shape.rows)), rows_at.eq(row)]
        stage = self._delayed(m, stage)
        me: Any = self
        return stage, [self._shadow(m, rows, rows_enter, rows_at) for rows in me.rows]

    def _shadow(self, m: Module, rows: Value, enters: Signal, at: Signal) -> Value:
        """Return the registers that a weight word enters row by row."""
        shadow = [Signal(self.size.vector, name=f"shadow_{r}") for r in range(self.shape.rows)]
        for number, register in enumerate(shadow):
            with m.If(enters & (at == number)):
                m.d.sync += register.eq(rows)
        return Cat(*shadow)

    def _delayed(self, m: Module, stage: dict[str, Signal]) -> dict[str, Signal]:
        """Delay calls of stage 1 by the rows of a weight word."""
        for _ in range(self.shape.rows):
            after = {name: Signal.like(value) for name, value in stage.items()}
            m.d.sync += [after[name].eq(value) for name, value in stage.items()]
            stage = after
        return stage

    def _stages(self, m: Module, f: Any, stage1: dict[str, Signal], weights: list[Value]) -> None:
        """Read inputs in stage 1, then build stages 2 to 4."""
        me: Any = self
        size = self.size
        m.d.comb += me.input.eq(stage1["inp"])
        stage2 = {name: Signal.like(value) for name, value in stage1.items()}
        m.d.sync += [stage2[name].eq(value) for name, value in stage1.items()]
        stage3 = {name: Signal.like(value) for name, value in stage2.items()}
        m.d.sync += [stage3[name].eq(value) for name, value in stage2.items()]
        m.submodules.array = array = MacArray(self.shape)
        a: Any = array
        x = Signal(len(a.x))
        registers = [Signal(len(a.w), name=f"weights_{port}") for port in range(self.ports)]
        m.d.sync += x.eq(me.vector)
        for register, new in zip(registers, weights, strict=True):
            with m.If(stage2["makes"] & (stage2["begins"] if self.by_row else 1)):
                m.d.sync += register.eq(new)
        m.d.comb += [
            a.kind.eq(f.kind), a.tap.eq(stage3["tap"]), a.x.eq(x), a.w.eq(registers[0]),
        ]  # fmt: skip
        pair: Value = Const(0)
        if size.dual:
            kernels = f.kind == KINDS.index("DUAL_KERNEL")
            pair = (f.kind == KINDS.index("DUAL_PIXEL")) | kernels
            m.d.comb += a.v.eq(registers[1])
        others = [Const(0), me.acc_distance]
        steps = [Const(0), Mux(kernels, size.words, 0) if size.dual else Const(0)]
        for port in range(self.ports):
            entry = Signal(ADDRESS)
            makes, init = Signal(), Signal(2)
            m.d.comb += [
                me.entry[port].eq(stage3["acc"] + others[port]),
                me.words[port].eq(stage3["bias"] + steps[port]),
            ]
            m.d.sync += [
                entry.eq(me.entry[port]), init.eq(stage3["init"]),
                makes.eq(stage3["makes"] & (pair if port else 1)),
            ]  # fmt: skip
            sums = []
            for r in range(self.shape.rows):
                products = (a.others if port else a.sums)[
                    array.sum_bits * r : array.sum_bits * (r + 1)
                ].as_signed()
                before = me.acc[port][size.acc * r : size.acc * (r + 1)].as_signed()
                bias = me.bias[port][32 * r : 32 * r + 32].as_signed()
                start = Mux(init == INIT_ZERO, 0, Mux(init == INIT_BIAS, bias, before))
                total = Signal(signed(size.acc), name="total")
                m.d.comb += total.eq(start + products)
                sums.append(total)
            m.d.comb += [
                me.sums[port].en.eq(makes), me.sums[port].addr.eq(entry),
                me.sums[port].data.eq(Cat(*sums)),
            ]  # fmt: skip


def _staged(m: Module, name: str, bits: int, value: Any) -> Signal:
    found = Signal(bits, name=f"{name}_1")
    m.d.comb += found.eq(value)
    return found
