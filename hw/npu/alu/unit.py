"""The ALU: sums of accumulators, requantisation, and thresholds with bit packing.

Pipeline, one entry per stage; slow kinds stay in a stage for as many cycles as lanes share a
multiplier:

    0  loop counters; the micro-op is read
    1  addresses; accumulators and parameters are read
    2  data arrives: simple kinds are computed and written; slow kinds multiply some lanes
    3  products are shifted, rounded, clamped and written; or select an entry of the table
    4  entries of the table are written

Requantisation first reads the head of its record, which takes one cycle; before that, a table
enters the lanes. A simple kind may read the result of the previous entry; slow kinds may not, and
entries of a table arrive yet one step later.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.alu.decoded import BLOCKS, AluFields, AluKinds, RecordHead, Stage, TableFill
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
from hw.npu.shape import PARAMETER_LANES, NpuShape, Widths
from hw.npu.steps import ADDRESS, Loops

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
        k = AluKinds(m, word)
        f = self._fields(m, word, k.record)
        asked = AluFields(me.word, is_op(me.word, "RQ"))
        loops = Loops(m, f, ("dst", "src"))
        works, sets_up, empty = Signal(), Signal(), Signal()
        phase = Signal(range(max(2, self.size.phases)))
        turns, ends, last = Signal(), Signal(), Signal()
        latency = self.shape.latency
        fills = is_kind(me.word, "RQ", "LOOKUP")
        table = TableFill(m, self.size, me.starts & fills, word, me.record)
        m.d.sync += sets_up.eq((me.starts & asked.record & ~fills) | table.ends)
        later = drained(m, ends & k.lookup, latency.lookup - latency.requantise - self.size.table)
        m.d.comb += [
            turns.eq(works & (~k.slow | (phase == self.size.phases - 1))),
            ends.eq((turns & loops.last) | (sets_up & empty)),
            last.eq((ends & ~k.lookup) | (me.starts & ~asked.record & asked.empty) | later),
            me.ends.eq(drained(m, last, latency.alu - 1)),
            me.uop.eq(loops.micro_op),
            me.head.eq(Mux(table.reads, table.head, f.rec)),
        ]
        with m.If(me.starts):
            loops.set_up(asked.uop)
            m.d.sync += [
                works.eq(~asked.record & ~asked.empty), phase.eq(0), empty.eq(asked.empty)
            ]  # fmt: skip
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
        stage2 = Stage(m, valid, me.entry[0], phase1)
        packed2, slot2 = Signal.like(packed), Signal.like(slot)
        m.d.sync += [packed2.eq(packed), slot2.eq(slot)]
        mode = Signal(2)
        m.d.comb += mode.eq(Mux(k.record, record.rounding, fields_of(word, "ALU", "ADD").round))
        simple, bits = self._rows(m, word, k, record, mode)
        slow = self._slow(m, k, record, stage2, simple, mode, table)
        self._write(m, k, f, stage2, simple, slow, (bits, packed2, slot2))
        return m

    def _fields(self, m: Module, word: Signal, record: Value) -> AluFields:
        """Return the fields of the current instruction as signals."""
        f = AluFields(word, record)
        for name in AluFields.NAMES:
            value = Value.cast(getattr(f, name))
            held = Signal(len(value), name=name)
            m.d.comb += held.eq(value)
            setattr(f, name, held)
        return f

    def _record(
        self, m: Module, word: Signal, k: AluKinds, f: AluFields, loops: Loops, sets_up: Signal,
        turns: Signal,
    ) -> RecordHead:  # fmt: skip
        """Return the head of the record, and the addresses of its parameters and packed bits."""
        me: Any = self
        found = RecordHead(me.record)
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
        self, m: Module, word: Signal, k: AluKinds, record: RecordHead, mode: Signal
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
        self, m: Module, k: AluKinds, record: RecordHead, stage: Stage, before: list[Value],
        mode: Signal, table: TableFill,
    ) -> list[Value]:  # fmt: skip
        """Return the results of the lanes with multipliers, in stage 3, or 4 for LOOKUP.

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
                own.mac.eq(k.mac), own.times.eq(k.times), own.looks.eq(k.lookup),
                own.mode.eq(mode), own.fill.en.eq(table.en), own.fill.addr.eq(table.addr),
                own.fill.data.eq(table.data),
                own.leaky.eq(leaky), own.x.eq(x), own.other.eq(other),
                own.scale.eq(scale), own.offset.eq(Mux(offsets, offset, 0)), own.leak.eq(leak),
                own.first.eq(record.lane(0)), own.second.eq(record.lane(1)),
                own.third.eq(record.lane(2)), own.zero.eq(zero), own.low.eq(low),
                own.high.eq(high),
            ]  # fmt: skip
            results.append(own.result)
        return results

    def _write(
        self, m: Module, k: AluKinds, f: AluFields, stage2: Stage, simple: list[Value],
        slow: list[Value], bits: tuple[Value, Signal, Signal],
    ) -> None:  # fmt: skip
        """Write simple kinds and thresholds in stage 2, some lanes of slow kinds later.

        Entries of tables are written in stage 4, all other slow kinds in stage 3.
        """
        me: Any = self
        rows, lanes, size = self.shape.rows, self.shape.multiply_lanes, self.size
        stage3 = Stage(m, stage2.valid, stage2.entry, stage2.phase)
        stage4 = Stage(m, stage3.valid, stage3.entry, stage3.phase)
        valid, at, phase = (
            Mux(k.lookup, last, other)
            for last, other in (
                (stage4.valid, stage3.valid), (stage4.entry, stage3.entry),
                (stage4.phase, stage3.phase),
            )
        )  # fmt: skip
        values, enables, results = [], [], []
        for r in range(rows):
            mine = valid & k.slow & (phase == r // lanes)
            enables.append(Mux(k.slow, mine, stage2.valid & ~k.threshold))
            value = Signal(signed(size.acc), name=f"result_{r}")
            m.d.comb += value.eq(Mux(k.slow, slow[r % lanes], simple[r]))
            values.append(value)
            results.append(value[: size.lane])
        entry = Mux(k.slow, at, stage2.entry)
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
