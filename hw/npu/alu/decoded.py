"""The instruction of the ALU as signals: fields, kinds, the head of a record, pipeline stages."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value

from hw.npu.isa.instruction import fields_of, is_kind, is_op
from hw.npu.isa.table import RECORD
from hw.npu.shape import PARAMETER_LANES, TABLE_BITS, Widths
from hw.npu.steps import ADDRESS

BLOCKS = 8
"""Blocks per vector of packed bits."""
PARTS = 32 * PARAMETER_LANES // TABLE_BITS
"""Cycles in which a parameter word enters the tables of the lanes."""


class AluFields:
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


class AluKinds:
    """Decoded kind of an instruction.

    record : it has a record
    mac, times : MAC2; MUL
    slow : it needs multipliers
    """

    def __init__(self, m: Module, word: Signal) -> None:
        self._word = word
        self.record, self.threshold, self.lookup, self.mac, self.times, self.slow = (
            Signal(name=name) for name in ("record", "threshold", "lookup", "mac", "times", "slow")
        )
        m.d.comb += [
            self.record.eq(is_op(word, "RQ")),
            self.threshold.eq(self.is_rq("THRESHOLD")),
            self.lookup.eq(self.is_rq("LOOKUP")),
            self.mac.eq(self.is_alu("MAC2")),
            self.times.eq(self.is_alu("MUL")),
            self.slow.eq(
                is_kind(word, "ALU", "RMUL", "MAC2", "MUL")
                | is_kind(word, "RQ", "RQ", "LEAKY", "LOOKUP")
            ),
        ]

    def is_alu(self, kind: str) -> Value:
        return is_kind(self._word, "ALU", kind)

    def is_rq(self, kind: str) -> Value:
        return is_kind(self._word, "RQ", kind)


class RecordHead:
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


class TableFill:
    """A table that enters the lanes from the parameter memory, `TABLE_BITS` bits per cycle.

    reads, head : in these cycles the parameter word `head` is read
    ends : the last one
    en, addr, data : a write to the tables of all lanes, a cycle after the read
    """

    def __init__(self, m: Module, size: Widths, starts: Value, word: Signal, read: Value) -> None:
        """starts : an instruction starts that has a table
        word : it, from the next cycle on; read : a parameter word, a cycle after its address
        """
        self.reads, self.ends, self.en = Signal(), Signal(), Signal()
        self.head, self.addr = Signal(ADDRESS), Signal(range(size.table))
        part = Signal.like(self.addr, name="part")
        m.d.comb += [
            self.ends.eq(self.reads & (part == size.table - 1)),
            self.head.eq(fields_of(word, "RQ", "LOOKUP").table + part // PARTS),
        ]
        m.d.sync += [self.en.eq(self.reads), self.addr.eq(part)]
        with m.If(starts):
            m.d.sync += [self.reads.eq(1), part.eq(0)]
        with m.Elif(self.reads):
            m.d.sync += [self.reads.eq(~self.ends), part.eq(part + 1)]
        self.data = read.word_select(self.addr % PARTS, TABLE_BITS)


class Stage:
    """Registers of a pipeline stage."""

    def __init__(self, m: Module, valid: Value, entry: Value, phase: Value) -> None:
        self.valid, self.entry, self.phase = Signal(), Signal(ADDRESS), Signal(len(phase))
        m.d.sync += [self.valid.eq(valid), self.entry.eq(entry), self.phase.eq(phase)]
