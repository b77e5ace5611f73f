"""The load unit: from feature maps and parameters to buffers and tables.

Pipeline: an instruction is set up in the first cycle after its start; then every cycle is a step
that addresses a memory; the data is aligned in the next cycle and written in the one after.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.drain import drained
from hw.npu.isa.instruction import fields_of, is_kind, started_word, unit_ports
from hw.npu.isa.registers import REGISTERS
from hw.npu.load.areas import ADDRESS, Area
from hw.npu.load.filter import PLACE
from hw.npu.load.windows import WindowUnit
from hw.npu.memories.feature import reads
from hw.npu.memories.memories import NpuMemories
from hw.npu.shape import HEADER_BITS, PARAMETER_LANES, NpuShape, Widths

SETUP = 1
"""Cycles between the start and the first step."""
PIPELINE = 4
"""Cycles from the start to the last write, inclusive, of a load without work."""
WORDS = 12
"""Bits of a number of weight words."""
WORD_BYTES = {"micro_ops": 8, "parameters": 4 * PARAMETER_LANES, "headers": 8}


def writes(address: int, data: int) -> wiring.Signature:
    """Return the port of a memory write."""
    return wiring.Signature({"en": Out(1), "addr": Out(address), "data": Out(data)})


def request() -> wiring.Signature:
    """Return the port of a WSTREAM request: weight words from an address on; may have to wait."""
    return wiring.Signature(
        {"en": Out(1), "words": Out(WORDS), "host": Out(32), "waits": In(1)}
    )  # fmt: skip


class LoadUnit(ShapedComponent):
    """Load unit.

    word, starts, ends : see `hw.npu.frontend.control.Control`
    base, distance : registers of loads
    odd : the frame is an odd one
    head, header, reads_header : port of the header memory, see `hw.npu.load.windows.WindowUnit`
    maps : port of the feature memory
    parameter, words : address of a parameter word, and the words from it on, a cycle later
    inputs, sums : writes to INP and ACC
    micro_ops, parameters, headers : writes to the tables
    asks, first : WSTREAM starts, and the first word that it requests
    request : see `request`
    """

    module_name = "npu_load"

    def __init__(self, shape: NpuShape, memories: NpuMemories) -> None:
        self.shape, self.size = shape, Widths(shape)
        size = self.size
        self.many = max(1, shape.columns // WORD_BYTES["micro_ops"])  # words per vector
        tables = {
            "micro_ops": writes(ADDRESS, memories.um.shape),
            "headers": writes(ADDRESS, memories.hm.shape),
        }
        super().__init__(
            {
                **unit_ports(),
                "base": In(REGISTERS["base_load"]),
                "distance": In(REGISTERS["load_src"]),
                "odd": In(1),
                "maps": Out(reads(size)).array(2 if size.dual else 1),
                "head": Out(PLACE),
                "header": In(HEADER_BITS),
                "reads_header": Out(1),
                "asks": Out(1),
                "first": Out(ADDRESS),
                "request": Out(request()),
                "parameter": Out(ADDRESS),
                "words": In(32 * shape.rows),
                "inputs": Out(writes(ADDRESS, size.lane * shape.columns)).array(size.loads),
                "sums": Out(writes(ADDRESS, size.acc * shape.rows)).array(size.loads),
                "parameters": Out(writes(ADDRESS, 32 * PARAMETER_LANES)),
                **{name: Out(each).array(self.many) for name, each in tables.items()},
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        word = started_word(m, me)
        sets_up, works = Signal(), Signal()
        m.d.sync += sets_up.eq(me.starts)
        kinds = {
            name: is_kind(word, "LOAD", name)
            for name in ("INP", "ACC8", "ACC32", "BIAS", "TABLE", "WSTREAM", "WIN")
        }
        area = self._area(m, word, kinds)
        bias = _Bias(m, self.size, fields_of(word, "LOAD", "BIAS"))
        table = fields_of(word, "LOAD", "TABLE")
        vector = Signal(14)

        is_area = kinds["INP"] | kinds["ACC8"] | kinds["ACC32"]
        empty = Mux(is_area, area.empty, Mux(kinds["BIAS"], bias.empty, table.vectors == 0))
        elsewhere = kinds["WSTREAM"] | kinds["WIN"]
        empty = empty | elsewhere
        last = Mux(is_area, area.last, Mux(kinds["BIAS"], bias.last, vector + 1 == table.vectors))
        with m.If(sets_up):
            area.set_up()
            bias.set_up()
            m.d.sync += [vector.eq(0), works.eq(~empty)]
        with m.If(works):
            area.step()
            bias.step()
            m.d.sync += [vector.eq(vector + 1), works.eq(~last)]
        latency = self.shape.latency
        at = Signal(ADDRESS)
        m.d.comb += at.eq(Mux(is_area, area.first, me.base + table.src + vector))
        for number, maps in enumerate(me.maps):
            m.d.comb += [
                maps.vector.eq(at if number == 0 else at + me.distance), maps.en.eq(1),
            ]  # fmt: skip
        windows_end = self._windows(m, word, sets_up & kinds["WIN"])
        ended = (sets_up & empty & ~elsewhere) | (works & last)
        m.d.comb += [
            me.ends.eq(
                drained(m, ended, latency.load - 1 - SETUP) | self._ask(m, word) | windows_end
            ),
            me.parameter.eq(bias.word),
        ]

        self._write(m, word, kinds, works, area, bias)
        self._write_tables(m, works & kinds["TABLE"], table, vector)
        return m

    def _windows(self, m: Module, word: Signal, starts: Value) -> Value:
        """Build LOAD.WIN, if the shape has a window unit; return when it ends."""
        me: Any = self
        self._window: Any = None
        if not self.shape.filters:
            return Const(0)
        m.submodules.windows = self._window = unit = WindowUnit(self.shape)
        maps = me.maps[0]
        slot = self._slot(fields_of(word, "LOAD", "WIN"))
        m.d.comb += [
            unit.word.eq(word), unit.starts.eq(starts), unit.base.eq(me.base + slot),
            me.head.eq(unit.head), unit.header.eq(me.header), me.reads_header.eq(unit.reads_header),
            unit.words.eq(maps.words), maps.word.eq(unit.place),
            maps.plane.eq(is_kind(word, "LOAD", "WIN")),
        ]  # fmt: skip
        with m.If(maps.plane):
            m.d.comb += maps.en.eq(unit.reads)
        return drained(m, unit.ends, self.shape.latency.load - PIPELINE)

    def _ask(self, m: Module, word: Signal) -> Value:
        """Build LOAD.WSTREAM; return when it ends."""
        me: Any = self
        waits = Signal(name="request_waits")
        f = fields_of(Mux(waits, word, me.word), "LOAD", "WSTREAM")
        asked = fields_of(me.word, "LOAD", "WSTREAM")
        m.d.comb += [
            me.asks.eq(me.starts & is_kind(me.word, "LOAD", "WSTREAM")),
            me.first.eq(asked.dst),
            me.request.en.eq(waits | (me.asks & (asked.words != 0))),
            me.request.words.eq(f.words),
            me.request.host.eq(f.host),
        ]
        m.d.sync += waits.eq(me.request.en & me.request.waits)
        done = (me.asks & (asked.words == 0)) | (me.request.en & ~me.request.waits)
        return drained(m, done, self.shape.latency.stream - 1)

    def _area(self, m: Module, word: Signal, kinds: dict[str, Value]) -> Area:
        me: Any = self
        f = fields_of(word, "LOAD", "INP")
        return Area(m, self.size, f, kinds["ACC32"], me.base + f.src + self._slot(f))

    def _slot(self, f: Any) -> Value:
        """Return the offset of the map slot of this frame from the first slot."""
        me: Any = self
        return Mux(me.odd & (f.pp != 0), Const(1, ADDRESS) << (f.pp + 2), 0)

    def _write(
        self, m: Module, word: Signal, kinds: dict[str, Value], works: Signal, area: Area,
        bias: _Bias,
    ) -> None:  # fmt: skip
        """Align and write in the cycles after a step."""
        me: Any = self
        size, rows = self.size, self.shape.rows
        f = fields_of(word, "LOAD", "INP")
        value = Signal(signed(16))
        pairs = Signal()
        m.d.comb += [
            value.eq(f.value),
            pairs.eq((me.distance != 0) & ~kinds["ACC32"] if size.dual else 0),
        ]
        to_inputs = Signal()
        to_sums = Signal()
        m.d.comb += [
            to_inputs.eq(works & kinds["INP"]),
            to_sums.eq(works & (kinds["ACC8"] | kinds["ACC32"] | kinds["BIAS"])),
        ]
        before: list[Value] = []  # earlier vectors of an entry
        collected = Signal(size.vector * size.entry)
        for number, lane in enumerate(area.lanes):
            valid, pad, to = Signal(), Signal(), Signal(ADDRESS)
            inputs, sums = Signal(), Signal()
            whole = lane.part == size.entry - 1
            m.d.sync += [
                pad.eq(lane.pad),
                to.eq(Mux(kinds["BIAS"], bias.to, lane.to)),
                inputs.eq(to_inputs & lane.valid),
                sums.eq(
                    to_sums
                    & Mux(kinds["BIAS"], number == 0, lane.valid & (~kinds["ACC32"] | whole))
                ),
                valid.eq(lane.valid),
            ]
            low = _vector(me.maps[0].data, number, size.vector)
            high = _vector(me.maps[-1].data, number, size.vector)
            before.append(low)
            lanes_in, lanes_sum = [], []
            held = Cat(collected[size.vector * (number + 1) :], *before)
            for r in range(rows):
                byte = low[8 * r : 8 * r + 8].as_signed()
                if size.dual:
                    pair = Cat(low[8 * r : 8 * r + 8], high[8 * r : 8 * r + 8]).as_signed()
                    byte = Mux(pairs, pair, byte)
                number_of_lane = held[8 * size.entry * r :][: size.acc].as_signed()
                summed = Mux(
                    kinds["BIAS"],
                    me.words[32 * r : 32 * r + 32].as_signed(),
                    Mux(pad, value, Mux(kinds["ACC32"], number_of_lane, byte)),
                )
                lanes_in.append(_lane(m, Mux(pad, value, byte), size.lane))
                lanes_sum.append(_lane(m, summed, size.acc))
            m.d.sync += [
                me.inputs[number].en.eq(inputs),
                me.inputs[number].addr.eq(to),
                me.inputs[number].data.eq(Cat(*lanes_in)),
                me.sums[number].en.eq(sums),
                me.sums[number].addr.eq(to),
                me.sums[number].data.eq(Cat(*lanes_sum)),
            ]
        m.d.sync += collected.eq(Cat(collected[size.vector * size.loads :], *before))
        if self._window is not None:
            unit = self._window
            lanes = [
                _lane(m, unit.vector[8 * r : 8 * r + 8].as_signed(), size.lane) for r in range(rows)
            ]
            with m.If(unit.en):
                m.d.sync += [
                    me.inputs[0].en.eq(1), me.inputs[0].addr.eq(unit.to),
                    me.inputs[0].data.eq(Cat(*lanes)),
                ]  # fmt: skip

    def _write_tables(self, m: Module, works: Value, table: Any, vector: Signal) -> None:
        """Write table words from vectors, which may be smaller or larger than a word."""
        me: Any = self
        size, columns = self.size, self.shape.columns
        comes, number = Signal(), Signal(14)
        data = me.maps[0].data[: size.vector]
        m.d.sync += [comes.eq(works), number.eq(vector)]
        memories = ("micro_ops", "parameters", "headers")
        for place, name in enumerate(memories):
            ports = [me.parameters] if name == "parameters" else list(getattr(me, name))
            vectors = max(1, WORD_BYTES[name] // columns)  # vectors per word
            before = Signal(max(1, size.vector * (vectors - 1)), name=f"{name}_before")
            whole = Cat(before, data) if vectors > 1 else data
            if vectors > 1:
                with m.If(comes):
                    m.d.sync += before.eq(whole[size.vector :])
            count = len(ports) if vectors == 1 else 1
            for one, port in enumerate(ports[:count]):
                bits = len(port.data)
                m.d.sync += [
                    port.en.eq(comes & (table.memory == place) & (number % vectors == vectors - 1)),
                    port.addr.eq(table.dst + (number // vectors) * count + one),
                    port.data.eq(whole[8 * WORD_BYTES[name] * one :][:bits]),
                ]


class _Bias:
    """The steps of LOAD.BIAS: one entry each.

    word : parameter word of a step
    to : destination entry
    last : the step is the last one
    """

    def __init__(self, m: Module, size: Widths, f: Any) -> None:
        self.m, self.size, self.f = m, size, f
        self.word, self.to = Signal(ADDRESS), Signal(ADDRESS)
        self._outer, self._inner, self._first = Signal(8), Signal(12), Signal(ADDRESS)
        self.last = Signal()
        self._turns = Signal()
        m.d.comb += [
            self._turns.eq(self._inner + 1 == f.n_in),
            self.last.eq(self._turns & (self._outer + 1 == f.n_out)),
        ]

    @property
    def empty(self) -> Value:
        return (self.f.n_out == 0) | (self.f.n_in == 0)

    def set_up(self) -> None:
        f = self.f
        self.m.d.sync += [
            self.word.eq(f.bm), self.to.eq(f.dst), self._first.eq(f.dst),
            self._outer.eq(0), self._inner.eq(0),
        ]  # fmt: skip

    def step(self) -> None:
        f = self.f
        with self.m.If(self._turns):
            self.m.d.sync += [
                self._inner.eq(0), self._outer.eq(self._outer + 1),
                self.word.eq(self.word + self.size.words),
                self._first.eq(self._first + f.dst_out), self.to.eq(self._first + f.dst_out),
            ]  # fmt: skip
        with self.m.Else():
            self.m.d.sync += [self._inner.eq(self._inner + 1), self.to.eq(self.to + f.dst_in)]


def _vector(data: Value, number: int, bits: int) -> Value:
    return data[bits * number : bits * (number + 1)]


def _lane(m: Module, value: Value, bits: int) -> Signal:
    """Return a signed number as a lane of `bits` bits."""
    lane = Signal(signed(bits), name="lane")
    m.d.comb += lane.eq(value)
    return lane
