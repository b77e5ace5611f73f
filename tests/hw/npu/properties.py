# amaranth: UnusedElaboratable=no
# (properties that access internal signals have a part elaborated themselves)
"""Proved properties of parts of the NPU core: each in a harness with free inputs.

As in `tests.hw.properties`, a property is a method `prove_...`, and assumptions are the
requirements of the data sheet on the surroundings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from amaranth.asserts import AnyConst
from amaranth.hdl import Assert, Assume, Cat, Const, MemoryData, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from chipsim.chip.npu_shape import NPU_SHAPES
from hw.npu.alu.arithmetic import shifted
from hw.npu.core import NpuCore
from hw.npu.flit import Kind, NpuFlit
from hw.npu.frontend.control import Control
from hw.npu.gemm import multiplier
from hw.npu.gemm.row import KINDS
from hw.npu.gemm.unit import GemmUnit
from hw.npu.isa.instruction import WORD_BITS, fields_of, head_of, is_kind, is_op
from hw.npu.isa.registers import COUNT_BITS
from hw.npu.isa.table import ROUNDINGS, UNITS
from hw.npu.memories.feature import FeatureMemory
from hw.npu.memories.memories import NpuMemories
from hw.npu.memories.receive import Receive
from hw.npu.node import Node
from tests.hw.properties import Harness

SHAPE = replace(
    NPU_SHAPES["tiny"], token_bits=2, map_vectors=16, input_vectors=4, weight_words=4, entries=4,
    parameter_words=2, micro_ops=4, instructions=4, headers=2, filters=0,
)  # fmt: skip
COUNT = 6
"""Bits of counters: they do not overflow in the few cycles of a bounded proof."""
STREAM = 5
PAIRS = [(one, other) for one in range(len(UNITS)) for other in range(len(UNITS))]


class ControlHarness(Harness):
    """Any program, possibly loaded while it runs; units take any time, at least one cycle.

    Tokens do not overflow; a stream is awaited in one queue only, and does not overflow either.
    """

    def __init__(self, only: str | None = None) -> None:
        memory = MemoryData(shape=WORD_BITS, depth=SHAPE.instructions, init=[])
        super().__init__(Control(SHAPE, memory), only)

    def examined(self) -> Any:
        self.inside = self.dut.elaborate(None)
        return self.inside

    def prepare(self, m: Module) -> None:
        dut, units = self.dut, range(len(UNITS))
        working = Signal(len(UNITS))  # a unit has an instruction, other than CTRL
        m.d.sync += working.eq((working | dut.starts) & ~dut.ends)
        m.d.comb += [Assume(~(dut.ends & ~working).any()), Assume(~(dut.start & dut.busy))]
        self.occupied, drains, self.clears = Signal(len(UNITS)), Signal(), Signal()
        m.d.sync += self.occupied.eq((self.occupied | dut.started) & ~dut.ended)
        self.now = [Signal(WORD_BITS, name=f"now_{unit}") for unit in units]  # running instructions
        for unit in units:
            held = Signal(WORD_BITS, name=f"held_{unit}")
            m.d.comb += self.now[unit].eq(Mux(dut.started[unit], dut.word[unit], held))
            m.d.sync += held.eq(self.now[unit])
            ends = is_kind(dut.word[unit], "CTRL", "END")
            with m.If(dut.started[unit] & ends):
                m.d.sync += drains.eq(fields_of(dut.word[unit], "CTRL", "END").drain)
        m.d.comb += self.clears.eq(drains & ~dut.busy)
        with m.If(self.clears):
            m.d.sync += drains.eq(0)
        self.tokens = {}
        for one, other in PAIRS:
            count = Signal(COUNT, name=f"count_{one}_{other}")
            gives = dut.ended[one] & head_of(self.now[one]).signal[other]
            takes = dut.started[other] & head_of(dut.word[other]).wait[one]
            m.d.sync += count.eq(Mux(self.clears, 0, count + gives - takes))
            m.d.comb += Assume(count < 1 << SHAPE.token_bits)
            self.tokens[one, other] = count

    def prove_tokens_are_neither_lost_nor_made(self, m: Module) -> None:
        """A counter holds the tokens sent by ended instructions minus the tokens consumed."""
        for (one, other), count in self.tokens.items():
            m.d.sync += Assert(self.dut.tokens[one][other] == count)

    def _ready(self, unit: int) -> Value:
        """Return whether all tokens for the first instruction of a queue are present."""
        wait = head_of(self.dut.word[unit]).wait
        counts = (self.tokens[other, unit] for other in range(len(UNITS)))
        return Cat(~wait[other] | (count != 0) for other, count in enumerate(counts)).all()

    def prove_a_unit_that_has_its_tokens_starts(self, m: Module) -> None:
        for unit, name in enumerate(UNITS):
            queue = getattr(self.inside.submodules, f"queue_{name.lower()}")
            with m.If(queue.r_rdy & ~self.occupied[unit] & self._ready(unit)):
                m.d.sync += Assert(self.dut.started[unit])

    def prove_a_unit_starts_with_its_tokens_alone(self, m: Module) -> None:
        for unit in range(len(UNITS)):
            with m.If(self.dut.started[unit]):
                m.d.sync += Assert(~self.occupied[unit] & self._ready(unit))

    def prove_no_stream_counts_below_zero(self, m: Module) -> None:
        """One stream stands for all; up to three counts arrive per cycle, any number is awaited."""
        dut = self.dut
        owner, count = AnyConst(2), Signal(signed(COUNT_BITS + 4))
        takes: Value = Const(0)
        for unit in range(len(UNITS)):
            f = fields_of(self.now[unit], "CTRL", "WAIT")
            mine = is_kind(self.now[unit], "CTRL", "WAIT") & (f.stream == STREAM)
            takes = takes + Mux(dut.ended[unit] & mine, f.count, 0)
        m.d.sync += [count.eq(count + dut.counts[STREAM] - takes), Assert(count >= 0)]
        loaded = fields_of(dut.load.data, "CTRL", "WAIT")
        waits = is_kind(dut.load.data, "CTRL", "WAIT") & (loaded.stream == STREAM)
        m.d.comb += [Assume(~waits | (loaded.queue == owner)), Assume(dut.counts[STREAM] < 4)]


class ProductsHarness(Harness):
    """A matrix unit whose weights are ones where no word has arrived, and zeros elsewhere.

    Nonzero sums show that it used a missing word. All products wait for weights of the host, and
    meanwhile no new ones are requested.
    """

    PORT: Literal["word", "row"] = "word"

    def __init__(self, only: str | None = None) -> None:
        super().__init__(GemmUnit(replace(SHAPE, weight_port=self.PORT)), only)

    def prepare(self, m: Module) -> None:
        dut = self.dut
        works, stale, began = Signal(), Signal(), Signal()
        arrived, base = Signal.like(dut.arrived), Signal.like(dut.base)
        f = fields_of(dut.word, "GEMM", "INT8")
        m.d.sync += [
            works.eq((works | dut.starts) & ~dut.ends), began.eq(1),
            arrived.eq(dut.arrived), base.eq(dut.base),
        ]  # fmt: skip
        word = (dut.weights[0] if self.PORT == "word" else dut.weights[0] // SHAPE.rows)[:16]
        m.d.sync += stale.eq((word >= dut.base) & (word >= dut.arrived))
        kinds = [f.kind == KINDS.index(name) for name in ("INT8", "DEPTHWISE")]
        m.d.comb += [
            Assume(~(dut.starts & works)),
            Assume(is_op(dut.word, "GEMM") & f.dyn & (kinds[0] | kinds[1])),
            Assume(~began | ((dut.arrived >= arrived) & (dut.base == base))),
            Assume(dut.rows[0] == stale.replicate(len(dut.rows[0]))),
            Assume(dut.vector == Const(sum(1 << 8 * c for c in range(SHAPE.columns)), 32)),
            Assume(dut.acc[0] == 0),
            Assume(dut.bias[0] == 0),
        ]

    def prove_no_word_is_read_before_it_has_arrived(self, m: Module) -> None:
        with m.If(self.dut.sums[0].en):
            m.d.sync += Assert(self.dut.sums[0].data == 0)


class RowsHarness(ProductsHarness):
    """Weights enter row by row."""

    PORT = "row"


class ReceiveHarness(Harness):
    """Nothing is loaded any more, as is the case while a frame runs."""

    def __init__(self, only: str | None = None) -> None:
        super().__init__(Receive(SHAPE, NpuFlit(SHAPE, 2, 2)), only)

    def prepare(self, m: Module) -> None:
        flit = self.dut.flit
        m.d.comb += Assume(~(flit.valid & (flit.payload.kind == Kind.LOAD)))

    def prove_words_that_have_arrived_are_whole(self, m: Module) -> None:
        """Every part of every word from the last requested one on."""
        dut = self.dut
        word, part = AnyConst(16), AnyConst(2)
        first, written = Signal(16), Signal()
        writes = dut.weights.en.bit_select(part, 1) & (dut.weights.addr == word)
        m.d.sync += written.eq((written & ~dut.asks) | writes)
        with m.If(dut.asks):
            m.d.sync += first.eq(dut.first)
        with m.If((first <= word) & (word < dut.arrived)):
            m.d.sync += Assert(written)

    def prove_every_flit_is_taken(self, m: Module) -> None:
        """In its cycle: map data and weights are written, and counts are added."""
        dut = self.dut
        kind, stream = dut.flit.payload.kind, AnyConst(4)
        counts = Signal(COUNT_BITS)
        with m.Switch(stream):
            for number, each in enumerate(dut.counts):
                with m.Case(number):
                    m.d.comb += counts.eq(each)
        with m.If(dut.flit.valid & (kind == Kind.MAP)):
            m.d.sync += Assert(dut.map.en & (dut.map.data == dut.flit.payload.data))
        with m.If(dut.flit.valid & (kind == Kind.WEIGHTS)):
            m.d.sync += Assert(dut.weights.en.any())
        with m.If(dut.flit.valid & (kind == Kind.TOKEN) & (dut.flit.payload.stream == stream)):
            m.d.sync += Assert(counts == dut.flit.payload.data[:16])


class MapsHarness(Harness):
    """Stores and received data go to the same few vectors."""

    def __init__(self, only: str | None = None) -> None:
        super().__init__(FeatureMemory(SHAPE, NpuMemories(SHAPE).fm), only)

    def prove_what_is_received_or_stored_is_kept(self, m: Module) -> None:
        """Any vector holds the last write: received ones always, stored ones that do not wait."""
        dut = self.dut
        vector = AnyConst(4)
        known, reads = Signal(), Signal()
        held, wanted = Signal(dut.size.vector), Signal(dut.size.vector)
        read, received, stored = dut.reads[0], dut.received, dut.stored
        m.d.comb += Assume(received.part == 0)  # a vector is one part
        with m.If(received.en & (received.vector == vector)):
            m.d.sync += [known.eq(1), held.eq(received.data)]
        with m.Elif(stored.en & ~stored.waits & (stored.vector == vector)):
            m.d.sync += [known.eq(1), held.eq(stored.data)]
        m.d.sync += [
            reads.eq(read.en & ~read.plane & (read.vector == vector) & known), wanted.eq(held),
        ]  # fmt: skip
        with m.If(reads):
            m.d.sync += Assert(read.data[: dut.size.vector] == wanted)


class NodeHarness(Harness):
    """An NPU core at a router."""

    def __init__(self, only: str | None = None) -> None:
        layout = NpuFlit(SHAPE, 2, 2)
        super().__init__(Node(layout, NpuCore(SHAPE, layout=layout), None, True), only)

    def prove_receive_is_always_ready(self, m: Module) -> None:
        kind = self.dut.incoming.payload.kind
        others = [Kind.SPIKE, Kind.TO_HOST, Kind.REQUEST]
        with m.If(~Cat(kind == other for other in others).any()):
            m.d.sync += Assert(self.dut.incoming.ready)


class Rounding(wiring.Component):
    """The shift of 12 bits."""

    BITS = 12

    def __init__(self) -> None:
        super().__init__(
            {
                "x": In(signed(self.BITS)), "shift": In(5), "mode": In(2),
                "found": Out(signed(self.BITS + 1)),
            }
        )  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        floor, up = shifted(m, me.x, me.shift, me.mode)
        m.d.comb += me.found.eq(floor + up)
        return m


class RoundingHarness(Harness):
    def __init__(self, only: str | None = None) -> None:
        super().__init__(Rounding(), only)

    def prove_shifts_are_rounded_by_definition(self, m: Module) -> None:
        """Floor, plus one if the rest exceeds a half, or equals a half that the mode rounds up."""
        dut = self.dut
        whole, rest, one = (Signal(signed(48), name=name) for name in ("whole", "rest", "one"))
        m.d.comb += [
            one.eq(Const(1, 34) << dut.shift), whole.eq(dut.x >> dut.shift),
            rest.eq(dut.x - (whole << dut.shift)),
        ]  # fmt: skip
        takes = {"away": dut.x >= 0, "up": Const(1), "even": whole[0]}
        assert len(ROUNDINGS) == len(takes) + 1
        up = Signal()
        with m.Switch(dut.mode):
            for code, tie in enumerate(takes.values()):
                with m.Case(code):
                    m.d.comb += up.eq((2 * rest > one) | ((2 * rest == one) & tie))
        m.d.sync += Assert(dut.found == whole + up)


class Split(wiring.Component):
    """Two products of one multiplier."""

    def __init__(self) -> None:
        byte, product = signed(8), signed(multiplier.LOW)
        super().__init__(
            {"a": In(byte), "b": In(byte), "c": In(byte), "high": Out(product), "low": Out(product)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        wide = multiplier.pair(m, me.a, me.b)
        high, low = multiplier.parted(multiplier.dual_product(m, wide, me.c))
        m.d.comb += [me.high.eq(high), me.low.eq(low)]
        return m


class SplitHarness(Harness):
    """Operands of 4 bits."""

    def __init__(self, only: str | None = None) -> None:
        super().__init__(Split(), only)

    def prepare(self, m: Module) -> None:
        m.d.comb += [
            Assume((each >= -8) & (each < 8)) for each in (self.dut.a, self.dut.b, self.dut.c)
        ]

    def prove_both_parts_are_the_products(self, m: Module) -> None:
        dut = self.dut
        m.d.sync += [Assert(dut.high == dut.a * dut.c), Assert(dut.low == dut.b * dut.c)]
