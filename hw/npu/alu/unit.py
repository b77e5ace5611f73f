"""The ALU: sums of accumulators, requantisation, and thresholds with bit packing.

Pipeline, one entry per stage; slow kinds stay in a stage for as many cycles as lanes share a
multiplier:

    0  loop counters; the micro-op is read
    1  addresses; accumulators and parameters are read
    2  data arrives: simple kinds are computed and written; slow kinds multiply some lanes
    3  products are shifted, rounded, clamped and written

Requantisation first reads the head of its record, which takes one cycle. A simple kind may read the
result of the previous entry; slow kinds may not.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.alu.lanes import PARAMETERS, AluLane, AluRow
from hw.npu.drain import drained
from hw.npu.isa.instruction import (
    MICRO_OP_BITS,
    fields_of,
    is_kind,
    is_op,
    micro_op_of,
    started_word,
    unit_ports,
)
from hw.npu.isa.table import RECORD
from hw.npu.shape import PARAMETER_LANES, NpuShape, Widths
from hw.npu.steps import ADDRESS, Loops

BLOCKS = 8
"""Blocks per vector of packed bits."""
SCALES, OFFSETS, LEAKS = range(3)
"""Ports of the parameter memory."""


class AluUnit(ShapedComponent):
    """ALU.

    word, starts, ends : see `hw.npu.frontend.control.Control`
    uop, micro_op : number of a micro-op, and its word, a cycle later
    entry, acc : two accumulators, the destination and a source, a cycle later
    words, parameters : up to three parameters per row
    head, record : the first word of a record
    sums : a write to an accumulator
    results : a write to some bits of a result
    """

    module_name = "npu_alu"

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.size = shape, Widths(shape)
        size = self.size
        acc, out = size.acc * shape.rows, size.lane * shape.rows
        self.grain = min(shape.rows, 8)
        super().__init__(
            {
                **unit_ports(),
                "uop": Out(10),
                "micro_op": In(MICRO_OP_BITS),
                "entry": Out(ADDRESS).array(2),
                "acc": In(acc).array(2),
                "words": Out(ADDRESS).array(3),
                "parameters": In(32 * shape.rows).array(3),
                "head": Out(ADDRESS),
                "record": In(32 * PARAMETER_LANES),
                "sums": Out(
                    wiring.Signature(
                        {"en": Out(shape.rows), "addr": Out(ADDRESS), "data": Out(acc)}
                    )
                ),
                "results": Out(
                    wiring.Signature(
                        {"en": Out(out // self.grain), "addr": Out(ADDRESS), "data": Out(out)}
                    )
                ),
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        word = started_word(m, me)
        k = _Kinds(m, word)
        f = self._fields(m, word, k.record)
        asked = _Fields(me.word, is_op(me.word, "RQ"))
        loops = Loops(m, f, ("dst", "src"))
        works, sets_up, empty = Signal(), Signal(), Signal()
        phase = Signal(range(max(2, self.size.phases)))
        turns, last = Signal(), Signal()
        m.d.sync += [sets_up.eq(me.starts & asked.record), empty.eq(asked.empty)]
        m.d.comb += [
            turns.eq(works & (~k.slow | (phase == self.size.phases - 1))),
            last.eq(
                (turns & loops.last) | (me.starts & ~asked.record & asked.empty) | (sets_up & empty)
            ),
            me.ends.eq(drained(m, last, self.shape.latency.alu - 1)),
            me.uop.eq(loops.micro_op),
            me.head.eq(f.rec),
        ]
        with m.If(me.starts):
            loops.set_up(asked.uop)
            m.d.sync += [works.eq(~asked.record & ~asked.empty), phase.eq(0)]
        with m.If(sets_up):
            m.d.sync += works.eq(~empty)
        with m.If(works):
            m.d.sync += phase.eq(Mux(turns, 0, phase + 1))
        with m.If(turns):
            loops.step()
            m.d.sync += works.eq(~loops.last)
        record = self._record(m, word, k, f, loops, sets_up, turns)

        # Stage 1
        valid, phase1 = Signal(), Signal.like(phase)
        offsets = {name: Signal(ADDRESS, name=f"{name}_1") for name in ("dst", "src")}
        first, packed, slot = Signal(ADDRESS), Signal(ADDRESS), Signal(range(BLOCKS))
        m.d.sync += [
            valid.eq(works), phase1.eq(phase), first.eq(record.first),
            packed.eq(record.packed + loops.inner), slot.eq(record.slot),
            *(offset.eq(loops.offsets[name]) for name, offset in offsets.items()),
        ]  # fmt: skip
        uop = micro_op_of(me.micro_op)
        source = Signal(ADDRESS)
        m.d.comb += [
            me.entry[0].eq(Mux(k.record, f.dst, uop.acc) + offsets["dst"]),
            source.eq(uop.inp + offsets["src"]),
            me.entry[1].eq(source),
            me.words[SCALES].eq(Mux(k.record, first, Mux(k.is_alu("RMUL"), f.rec + 1, source))),
            me.words[OFFSETS].eq(first + self.size.words),
            me.words[LEAKS].eq(first + Mux(record.offsets, 2 * self.size.words, self.size.words)),
        ]

        # Stage 2
        stage2 = _Stage(m, valid, me.entry[0], phase1)
        packed2, slot2 = Signal.like(packed), Signal.like(slot)
        m.d.sync += [packed2.eq(packed), slot2.eq(slot)]
        mode = Signal(2)
        m.d.comb += mode.eq(Mux(k.record, record.rounding, fields_of(word, "ALU", "ADD").round))
        simple, bits = self._rows(m, word, k, record, mode)
        slow = self._slow(m, k, record, stage2, simple, mode)
        self._write(m, k, f, stage2, simple, slow, (bits, packed2, slot2))
        return m

    def _fields(self, m: Module, word: Signal, record: Value) -> _Fields:
        """Return the fields of the current instruction as signals."""
        f = _Fields(word, record)
        for name in _Fields.NAMES:
            value = Value.cast(getattr(f, name))
            held = Signal(len(value), name=name)
            m.d.comb += held.eq(value)
            setattr(f, name, held)
        return f

    def _record(
        self, m: Module, word: Signal, k: _Kinds, f: _Fields, loops: Loops, sets_up: Signal,
        turns: Signal,
    ) -> _Record:  # fmt: skip
        """Return the head of the record, and the addresses of its parameters and packed bits."""
        me: Any = self
        found = _Record(me.record)
        words = self.size.words
        asked = fields_of(word, "RQ", "THRESHOLD")
        group = Mux(k.threshold, 2 * words, (1 + found.offsets + found.leaks) * words)
        with m.If(sets_up):
            m.d.sync += [
                found.first.eq(f.rec + 1),
                found.slot.eq(asked.block % BLOCKS),
                found.packed.eq(asked.bits + (asked.block // BLOCKS) * asked.n_in),
            ]
        with m.If(turns & loops.inner_ends):
            m.d.sync += [found.first.eq(found.first + group), found.slot.eq(found.slot + 1)]
            with m.If(found.slot == BLOCKS - 1):
                m.d.sync += found.packed.eq(found.packed + f.n_in)
        return found

    def _rows(
        self, m: Module, word: Signal, k: _Kinds, record: _Record, mode: Signal
    ) -> tuple[list[Value], Value]:
        """Return results of ADD to SHL, and bits of THRESHOLD, of all rows.

        For slow kinds, the results are the operands of the lanes, shifted and rounded here.
        """
        me: Any = self
        bits = self.size.acc
        f = fields_of(word, "ALU", "ADD")
        source = Signal(2, name="source_kind")
        shifts, shift = Signal(name="shifts"), Signal(6, name="by")
        m.d.comb += [
            source.eq(Mux(k.threshold, PARAMETERS, f.source)),
            shifts.eq(k.is_alu("RSHR") | k.slow),
            shift.eq(Mux(k.slow, Mux(k.record, record.before, 0), f.imm[:6])),
        ]
        results, found = [], []
        for r in range(self.shape.rows):
            m.submodules[f"row{r}"] = row = AluRow(self.shape)
            own: Any = row
            m.d.comb += [
                own.kind.eq(f.kind), own.adds.eq(k.is_alu("ADD")),
                own.shifts.eq(shifts), own.shift.eq(shift), own.mode.eq(mode),
                own.source.eq(source), own.immediate.eq(f.imm),
                own.x.eq(me.acc[0][bits * r :][:bits]), own.other.eq(me.acc[1][bits * r :][:bits]),
                own.number.eq(me.parameters[SCALES][32 * r :][:32]),
                own.turns.eq(me.parameters[OFFSETS][32 * r]),
            ]  # fmt: skip
            results.append(own.result)
            found.append(own.bit)
        return results, Cat(*found)

    def _slow(
        self, m: Module, k: _Kinds, record: _Record, stage: _Stage, before: list[Value],
        mode: Signal,
    ) -> list[Value]:  # fmt: skip
        """Return the results of the lanes with multipliers, in stage 3.

        before : operands of all rows
        """
        me: Any = self
        bits, lanes = self.size.acc, self.shape.multiply_lanes
        leaky, offsets = Signal(name="leaky"), Signal(name="offsets")
        low, high, zero = (Signal(signed(32), name=name) for name in ("low", "high", "zero"))
        m.d.comb += [
            leaky.eq(k.is_rq("LEAKY") & record.leaks),
            offsets.eq(record.offsets & k.record),
            low.eq(Mux(k.record, record.low, Const(-(1 << 31), signed(32)))),
            high.eq(Mux(k.record, record.high, Const((1 << 31) - 1, signed(32)))),
            zero.eq(Mux(k.record, record.zero, 0)),
        ]
        results = []
        for number in range(lanes):

            def of_phase(value: Value, width: int, first: int = number) -> Value:
                rows = [
                    value[width * r : width * (r + 1)] for r in range(first, self.shape.rows, lanes)
                ]
                rows += [rows[-1]] * (self.size.phases - len(rows))
                return (Array(rows)[stage.phase] if len(rows) > 1 else rows[0])[:width].as_signed()

            m.submodules[f"lane{number}"] = lane = AluLane(self.shape)
            own: Any = lane
            x, other = (of_phase(acc, bits) for acc in (Cat(*before), me.acc[1]))
            scale, offset, leak = (of_phase(each, 32) for each in me.parameters)
            m.d.comb += [
                own.mac.eq(k.mac), own.mode.eq(mode),
                own.leaky.eq(leaky), own.x.eq(x), own.other.eq(other),
                own.scale.eq(scale), own.offset.eq(Mux(offsets, offset, 0)), own.leak.eq(leak),
                own.first.eq(record.lane(0)), own.second.eq(record.lane(1)),
                own.third.eq(record.lane(2)), own.zero.eq(zero), own.low.eq(low),
                own.high.eq(high),
            ]  # fmt: skip
            results.append(own.result)
        return results

    def _write(
        self, m: Module, k: _Kinds, f: _Fields, stage2: _Stage, simple: list[Value],
        slow: list[Value], bits: tuple[Value, Signal, Signal],
    ) -> None:  # fmt: skip
        """Write simple kinds and thresholds in stage 2, some lanes of slow kinds in stage 3."""
        me: Any = self
        rows, lanes, size = self.shape.rows, self.shape.multiply_lanes, self.size
        stage3 = _Stage(m, stage2.valid, stage2.entry, stage2.phase)
        values, enables, results = [], [], []
        for r in range(rows):
            mine = stage3.valid & k.slow & (stage3.phase == r // lanes)
            enables.append(Mux(k.slow, mine, stage2.valid & ~k.threshold))
            value = Signal(signed(size.acc), name=f"result_{r}")
            m.d.comb += value.eq(Mux(k.slow, slow[r % lanes], simple[r]))
            values.append(value)
            results.append(value[: size.lane])
        entry = Mux(k.slow, stage3.entry, stage2.entry)
        packed, packed_at, slot = bits
        data, grains = self._packed(packed, slot)
        each = size.lane // self.grain
        writes = Cat(*((e & f.out).replicate(each) for e in enables))
        m.d.comb += [
            me.sums.en.eq(Cat(*enables)),
            me.sums.addr.eq(entry),
            me.sums.data.eq(Cat(*values)),
            me.results.addr.eq(Mux(k.threshold, packed_at, entry)),
            me.results.data.eq(Mux(k.threshold, data, Cat(*results))),
            me.results.en.eq(Mux(k.threshold, Mux(stage2.valid, grains, 0), writes)),
        ]

    def _packed(self, bits: Value, slot: Signal) -> tuple[Value, Value]:
        """Return data and enables to write bits into the packed vector of an entry."""
        rows, size = self.shape.rows, self.size
        if not size.dual:
            each = rows // self.grain
            return bits.replicate(BLOCKS), Cat((slot == n).replicate(each) for n in range(BLOCKS))
        lanes = [
            Cat(bits[8 * n : 8 * n + 8], bits[8 * n + 7].replicate(8)) for n in range(rows // 8)
        ]
        each = len(lanes) * size.lane // self.grain
        return (
            Cat(*lanes).replicate(BLOCKS), Cat((slot == n).replicate(each) for n in range(BLOCKS))
        )  # fmt: skip


class _Fields:
    """Fields of either form, ALU or RQ, under common names.

    record : the instruction is an RQ
    """

    NAMES = (
        "uop", "uops", "n_out", "n_in", "dst_out", "dst_in", "src_out", "src_in", "rec", "dst",
        "out",
    )  # fmt: skip

    rec: Any
    n_out: Any
    n_in: Any
    out: Any

    def __init__(self, word: Any, record: Any) -> None:
        self.record = record
        alu, rq = fields_of(word, "ALU", "ADD"), fields_of(word, "RQ", "RQ")
        self.uop, self.src_out, self.src_in = alu.uop, alu.src_out, alu.src_in
        self.dst = rq.dst
        self.uops = Mux(record, 1, alu.uops)
        for name in ("n_out", "n_in", "dst_out", "dst_in", "rec", "out"):
            setattr(self, name, Mux(record, getattr(rq, name), getattr(alu, name)))

    @property
    def empty(self) -> Value:
        return (self.n_out == 0) | (self.n_in == 0) | (self.uops == 0)


class _Kinds:
    """Decoded kind of an instruction.

    record : RQ, LEAKY or THRESHOLD
    slow : it needs multipliers
    """

    def __init__(self, m: Module, word: Signal) -> None:
        self._word = word
        self.record, self.threshold, self.mac, self.slow = (
            Signal(name=name) for name in ("record", "threshold", "mac", "slow")
        )
        m.d.comb += [
            self.record.eq(is_op(word, "RQ")),
            self.threshold.eq(self.is_rq("THRESHOLD")),
            self.mac.eq(self.is_alu("MAC2")),
            self.slow.eq(is_kind(word, "ALU", "RMUL", "MAC2") | is_kind(word, "RQ", "RQ", "LEAKY")),
        ]

    def is_alu(self, kind: str) -> Value:
        return is_kind(self._word, "ALU", kind)

    def is_rq(self, kind: str) -> Value:
        return is_kind(self._word, "RQ", kind)


class _Record:
    """The head of a record, by lane, and registers that step through the following words.

    first : address of the parameters of a block
    packed, slot : entry and place of its bits
    """

    def __init__(self, word: Value) -> None:
        self._word = word
        names = list(RECORD)
        self.zero, self.low, self.high = (self.lane(names.index(n)) for n in ("z", "lo", "hi"))
        self.before = self.lane(names.index("p"))[:6]
        self.rounding = self.lane(names.index("rounding"))[:2]
        flags = self.lane(names.index("flags"))
        self.offsets, self.leaks = flags[0], flags[1]
        self.first, self.packed = Signal(ADDRESS), Signal(ADDRESS)
        self.slot = Signal(range(BLOCKS))

    def lane(self, number: int) -> Value:
        return self._word[32 * number : 32 * number + 32].as_signed()


class _Stage:
    """Registers of a pipeline stage."""

    def __init__(self, m: Module, valid: Value, entry: Value, phase: Value) -> None:
        self.valid, self.entry, self.phase = Signal(), Signal(ADDRESS), Signal(len(phase))
        m.d.sync += [self.valid.eq(valid), self.entry.eq(entry), self.phase.eq(phase)]
