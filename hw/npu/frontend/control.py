"""Fetch, the four queues, the tokens between units, and the CTRL instructions.

Instructions are dispatched in order, one per cycle, to the queue of their unit when it has room; an
instruction can start in the next cycle. A unit starts the first instruction of its queue when the
previous one has ended and every token counter that it waits for is above 0; it consumes the tokens
in that cycle. A token counts from the cycle after it was sent.

CTRL instructions are executed here, in the cycle of their start: WAIT when its stream has counted
enough, SEND when its register is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Assert, Cat, MemoryData, Module, Mux, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.flow.sharing import shared
from hw.npu.isa.instruction import WORD_BITS, fields_of, head_of, is_kind, is_op
from hw.npu.isa.registers import BASES, COUNT_BITS, DISTANCES, REGISTERS
from hw.npu.isa.table import OPS, UNITS
from hw.npu.memories.memories import loads
from hw.npu.shape import STREAMS, NpuShape
from hw.npu.steps import ADDRESS


class Control(wiring.Component):
    """Control unit.

    start, first : starts a frame at an instruction
    busy : the frame is in progress
    load : words for the program
    word, starts : per unit, its next instruction, and that it starts in this cycle
    ends : per unit, its instruction ends with this cycle
    registers : registers set by BASE and DIST
    counts : amounts added to each stream in this cycle
    sends, words, blocked : a SEND requests its register in this cycle; its word; the register is
        not available
    started, ended : per unit, for observation: an instruction, including CTRL, starts, or ends with
        the cycle
    """

    module_name = "npu_control"

    start: Signal
    busy: Signal

    def __init__(
        self, shape: NpuShape, memory: MemoryData, lanes: int = 1, streams: Sequence[int] = ()
    ) -> None:
        """lanes : lanes of an instruction word that is loaded
        streams : initial stream counts
        """
        self.shape, self.memory, self.lanes = shape, memory, lanes
        self.streams = [*streams, *[0] * (STREAMS - len(streams))]
        units = len(UNITS)
        super().__init__(
            {
                "start": In(1),
                "first": In(ADDRESS),
                "busy": Out(1),
                "load": In(loads(WORD_BITS, lanes)),
                "word": Out(WORD_BITS).array(units),
                "starts": Out(units),
                "ends": In(units),
                "registers": Out(wiring.Signature({n: Out(b) for n, b in REGISTERS.items()})),
                "counts": In(COUNT_BITS).array(STREAMS),
                "sends": Out(units),
                "words": Out(WORD_BITS).array(units),
                "blocked": In(units),
                "started": Out(units),
                "ended": Out(units),
            }
        )

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        return (self.shape, self.memory, self.lanes, *self.streams)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        queues = self._fetch(m)
        tokens = [
            [Signal(self.shape.token_bits, name=f"tokens_{one}_{other}") for other in UNITS]
            for one in UNITS
        ]
        counted = [
            Signal(COUNT_BITS, name=f"stream_{number}", init=count)
            for number, count in enumerate(self.streams)
        ]
        takes: list[Any] = []
        busy = Signal(len(UNITS))
        self.counted, self.tokens = counted, tokens
        for unit, queue in enumerate(queues):
            takes.append(self._unit(m, unit, queue, busy, tokens, counted))
        clears = Signal()
        for one in range(len(UNITS)):
            for other in range(len(UNITS)):
                gives = self.ended[one] & self._signal[one][other]
                taken = self.started[other] & head_of(queues[other].r_data).wait[one]
                m.d.sync += [
                    tokens[one][other].eq(Mux(clears, 0, tokens[one][other] + gives - taken)),
                    Assert(
                        ~(gives & ~taken & tokens[one][other].all()),
                        f"npu: tokens of {UNITS[one]} for {UNITS[other]} overflow",
                    ),
                ]
        for number, count in enumerate(counted):
            taken = sum(Mux(done & (stream == number), value, 0) for done, stream, value in takes)
            m.d.sync += count.eq(count + self.counts[number] - taken)
        m.d.comb += self.busy.eq(
            self._fetching | busy.any() | Cat(*(q.r_rdy for q in queues)).any()
        )
        m.d.comb += clears.eq(self._drains & ~self.busy)
        with m.If(clears):
            m.d.sync += self._drains.eq(0)
        return m

    def _fetch(self, m: Module) -> list[Any]:
        """Read and dispatch the program; return the queues."""
        m.submodules.program = program = Memory(self.memory)
        port: Any = program.read_port()
        queues = []
        for name in UNITS:
            queue = fifo.SyncFIFO(width=WORD_BITS, depth=self.shape.queue_places)
            m.submodules[f"queue_{name.lower()}"] = queue
            queues.append(queue)
        write: Any = program.write_port(granularity=WORD_BITS // self.lanes)
        load: Any = self.load
        m.d.comb += [write.en.eq(load.en), write.addr.eq(load.addr), write.data.eq(load.data)]
        self._fetching = fetching = Signal()
        self._drains = Signal()  # END clears the tokens when all units are idle
        at = Signal(ceil_log2(self.memory.depth))
        word = port.data
        unit, goes = Signal(range(len(UNITS))), Signal()
        control = fields_of(word, "CTRL", "WAIT")
        with m.Switch(head_of(word).op):
            with m.Case(OPS["CTRL"]):
                m.d.comb += unit.eq(control.queue)
            with m.Case(OPS["ALU"], OPS["RQ"]):
                m.d.comb += unit.eq(UNITS.index("ALU"))
            for name in ("LOAD", "GEMM", "STORE"):
                with m.Case(OPS[name]):
                    m.d.comb += unit.eq(UNITS.index(name))
        places = Array(queue.w_rdy for queue in queues)
        m.d.comb += [
            goes.eq(fetching & places[unit]),
            port.addr.eq(Mux(self.start, self.first, at + goes)),
        ]
        m.d.sync += at.eq(port.addr)
        for number, queue in enumerate(queues):
            m.d.comb += [queue.w_data.eq(word), queue.w_en.eq(goes & (unit == number))]
        with m.If(self.start):
            m.d.sync += fetching.eq(1)
        with m.Elif(goes & is_kind(word, "CTRL", "END")):
            m.d.sync += [fetching.eq(0), self._drains.eq(control.drain)]
        self._signal: list[Any] = []
        return queues

    def _unit(
        self, m: Module, unit: int, queue: Any, busy: Signal, tokens: Any, counted: list[Signal]
    ) -> tuple[Any, Any, Any]:
        """Handle start and end in a queue; return whether a WAIT consumes, its stream and count."""
        name = UNITS[unit].lower()
        word, waits = queue.r_data, Signal(name=f"{name}_waits")
        held = Signal(WORD_BITS, name=f"{name}_word")
        ready = Cat(
            ~head_of(word).wait[other] | (tokens[other][unit] != 0) for other in range(len(UNITS))
        ).all()
        goes, is_control = Signal(name=f"{name}_goes"), is_op(word, "CTRL")
        now = Mux(waits, held, word)
        wait = fields_of(now, "CTRL", "WAIT")
        enough, takes = Signal(name=f"{name}_enough"), Signal(name=f"{name}_takes")
        sends, may_wait = Signal(name=f"{name}_sends"), Signal(name=f"{name}_may_wait")
        stops = Signal(name=f"{name}_stops")
        signals = Signal(len(UNITS), name=f"{name}_signals")
        m.d.comb += [
            goes.eq(queue.r_rdy & ~busy[unit] & ready),
            queue.r_en.eq(goes),
            sends.eq(is_kind(now, "CTRL", "SEND")),
            may_wait.eq(sends | is_kind(now, "CTRL", "WAIT")),
            enough.eq(Mux(sends, ~self.blocked[unit], Array(counted)[wait.stream] >= wait.count)),
            takes.eq(enough & ~sends & (waits | (goes & may_wait))),
            stops.eq(goes & may_wait & ~enough),
            self.word[unit].eq(word),
            self.starts[unit].eq(goes & ~is_control),
            self.started[unit].eq(goes),
            self.ended[unit].eq((goes & is_control & ~stops) | (waits & enough) | self.ends[unit]),
            self.sends[unit].eq(sends & (goes | waits)),
            self.words[unit].eq(now),
            signals.eq(head_of(Mux(goes, word, held)).signal),
        ]
        self._signal.append(signals)
        with m.If(goes):
            m.d.sync += held.eq(word)
        m.d.sync += [
            busy[unit].eq((busy[unit] | goes) & ~self.ended[unit]),
            waits.eq(stops | (waits & ~enough)),
        ]
        self._set_registers(m, unit, goes, word)
        return takes, wait.stream, wait.count

    def _set_registers(self, m: Module, unit: int, goes: Signal, word: Any) -> None:
        """Update registers: BASE sets one of three from any queue, DIST its queue's registers."""
        base, distances = fields_of(word, "CTRL", "BASE"), fields_of(word, "CTRL", "DIST")
        registers: Any = self.registers
        with m.If(goes & is_kind(word, "CTRL", "BASE")), m.Switch(base.space):
            for number, name in enumerate(BASES):
                with m.Case(number):
                    m.d.sync += getattr(registers, f"base_{name}").eq(base.value)
        with m.If(goes & is_kind(word, "CTRL", "DIST")):
            for name in DISTANCES.get(UNITS[unit], ()):
                register = getattr(registers, f"{UNITS[unit].lower()}_{name}")
                m.d.sync += register.eq(getattr(distances, name))
