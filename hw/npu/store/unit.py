"""The store unit: results or accumulators to feature memory, to other cores, or to the host.

Pipeline: an instruction is set up in the first cycle after its start; then every cycle is a step
that reads an entry; a vector is written in the next cycle. A vector that has to wait stalls both.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.drain import drained
from hw.npu.flit import SIDE_BITS, STREAM_BITS
from hw.npu.isa.instruction import WORD_BITS, fields_of, is_kind, unit_ports
from hw.npu.isa.registers import REGISTERS
from hw.npu.load.areas import ADDRESS
from hw.npu.shape import NpuShape, Widths

PIPELINE = 3
"""Cycles from the start to the first write, inclusive."""


def vectors(size: Widths) -> wiring.Signature:
    """Return the port of a stored vector and its destination.

    en : a vector is present; it stays while `waits`
    local, host : destination is the core's own feature memory, or the host; else another core
    x, y, stream : destination of vectors that are not local
    """
    return wiring.Signature(
        {
            "en": Out(1), "vector": Out(ADDRESS), "data": Out(size.vector), "waits": In(1),
            "local": Out(1), "host": Out(1), "x": Out(SIDE_BITS), "y": Out(SIDE_BITS),
            "stream": Out(STREAM_BITS),
        }
    )  # fmt: skip


class StoreUnit(ShapedComponent):
    """Store unit.

    word, starts, ends : see `hw.npu.frontend.control.Control`
    base, distance : registers of stores
    odd : the frame is an odd one
    entry, result, acc : an entry, and its content a cycle later
    vector : see `vectors`
    """

    module_name = "npu_store"

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.size = shape, Widths(shape)
        size = self.size
        super().__init__(
            {
                **unit_ports(),
                "base": In(REGISTERS["base_store"]),
                "distance": In(REGISTERS["store_src"]),
                "odd": In(1),
                "entry": Out(ADDRESS),
                "holds": Out(1),
                "result": In(size.lane * shape.rows),
                "acc": In(size.acc * shape.rows),
                "vector": Out(vectors(size)),
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        size = self.size
        word, sets_up, works = Signal(WORD_BITS), Signal(), Signal()
        with m.If(me.starts):
            m.d.sync += word.eq(me.word)
        m.d.sync += sets_up.eq(me.starts)
        f = fields_of(word, "STORE", "LOCAL")
        partial = is_kind(word, "STORE", "PARTIAL", "PARTIAL_HOST")
        pairs = (me.distance != 0) & ~f.bits & ~partial if size.dual else Const(0)
        c, y, x = Signal(6), Signal(8), Signal(9)
        part, right, below = Signal(range(max(2, size.entry))), Signal(), Signal()
        entry = Signal(ADDRESS)
        # Addresses of the block, of the row within the block, and of the pixel within the row.
        block, row, pixel = Signal(ADDRESS), Signal(ADDRESS), Signal(ADDRESS)
        slot = Mux(me.odd & (f.pp != 0), Const(1, ADDRESS) << (f.pp + 2), 0)
        start = Signal(ADDRESS)
        m.d.comb += start.eq(me.base + f.dst + slot)
        empty = (f.c_size == 0) | (f.x_size == 0) | (f.y_size == 0)

        parts = Mux(partial, size.entry - 1, pairs)
        turns = [
            right == f.up, below == f.up, part == parts, x + 1 == f.x_size, y + 1 == f.y_size,
            c + 1 == f.c_size,
        ]  # fmt: skip
        ends = self._ends(m, turns)
        goes, holds = Signal(), me.holds
        m.d.comb += goes.eq(works & ~holds)
        x_step = Mux(f.up, f.x_stride << 1, f.x_stride)
        y_step = Mux(f.up, f.y_stride << 1, f.y_stride)
        back = Mux((f.wrap != 0) & (x + 1 == f.wrap), f.y_stride, 0)  # to the start of a ring
        with m.If(sets_up):
            m.d.sync += [
                c.eq(0), y.eq(0), x.eq(0), part.eq(0), right.eq(0), below.eq(0),
                entry.eq(f.src), block.eq(start), row.eq(start), pixel.eq(start),
                works.eq(~empty),
            ]  # fmt: skip
        with m.If(goes):
            m.d.sync += [
                works.eq(~ends[5]),
                right.eq(right ^ f.up),
                below.eq(Mux(ends[0], below ^ f.up, below)),
                part.eq(Mux(ends[2], 0, Mux(ends[1], part + 1, part))),
                entry.eq(Mux(ends[2], entry + 1, entry)),
                x.eq(Mux(ends[3], 0, Mux(ends[2], x + 1, x))),
                y.eq(Mux(ends[4], 0, Mux(ends[3], y + 1, y))),
                c.eq(Mux(ends[4], c + 1, c)),
            ]
            width = Mux(partial, size.entry, 1)
            with m.If(ends[4]):
                m.d.sync += [(each).eq(block + width) for each in (block, row, pixel)]
            with m.Elif(ends[3]):
                m.d.sync += [row.eq(row + y_step), pixel.eq(row + y_step)]
            with m.Elif(ends[2]):
                m.d.sync += pixel.eq(pixel + x_step - back)
        m.d.comb += me.entry.eq(entry)

        # Output
        writes, last, at, piece = Signal(), Signal(), Signal(ADDRESS), Signal.like(part)
        far = Mux(partial, part, Mux(part != 0, me.distance, 0))
        with m.If(~holds):
            m.d.sync += [
                writes.eq(works),
                last.eq((works & ends[5]) | (sets_up & empty)),
                at.eq(pixel + Mux(right, f.x_stride, 0) + Mux(below, f.y_stride, 0) + far),
                piece.eq(part),
            ]
        m.d.comb += [
            holds.eq(writes & me.vector.waits),
            me.ends.eq(drained(m, last & ~holds, self.shape.latency.store - PIPELINE)),
            me.vector.en.eq(writes),
            me.vector.vector.eq(at),
            me.vector.local.eq(is_kind(word, "STORE", "LOCAL", "PARTIAL")),
            me.vector.host.eq(is_kind(word, "STORE", "HOST", "PARTIAL_HOST")),
            me.vector.x.eq(f.x), me.vector.y.eq(f.y), me.vector.stream.eq(f.stream),
            me.vector.data.eq(Mux(partial, self._part(m, piece), self._result(piece))),
        ]  # fmt: skip
        return m

    def _ends(self, m: Module, turns: list[Any]) -> list[Signal]:
        """Return, for each counter, whether it and all counters within it are at their ends."""
        ends = []
        for number, _ in enumerate(turns):
            found = Signal(name=f"turns_{number}")
            m.d.comb += found.eq(Cat(*turns[: number + 1]).all())
            ends.append(found)
        return ends

    def _part(self, m: Module, piece: Signal) -> Value:
        """Return a vector of the accumulators of an entry, each as sign-extended bytes."""
        me: Any = self
        size = self.size
        lane = 8 * size.entry
        numbers = []
        for r in range(self.shape.rows):
            number = me.acc[size.acc * r : size.acc * (r + 1)]
            numbers.append(Cat(number, number[-1].replicate(lane - size.acc)))
        whole = Cat(*numbers)
        vectors = [whole[size.vector * n : size.vector * (n + 1)] for n in range(size.entry)]
        return Array(vectors)[piece]

    def _result(self, piece: Signal) -> Value:
        """Return the low or the high bytes of the results."""
        me: Any = self
        lane = self.size.lane
        low = Cat(*(me.result[lane * r : lane * r + 8] for r in range(self.shape.rows)))
        if lane == 8:
            return low
        high = Cat(*(me.result[lane * r + 8 : lane * r + 16] for r in range(self.shape.rows)))
        return Mux(piece != 0, high, low)
