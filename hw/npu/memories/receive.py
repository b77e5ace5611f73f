"""RECEIVE: writes received flits to the memories of a core, one per cycle.

Map data and weights are written in the cycle in which they arrive. Stream counts and complete
weight words are visible from the next cycle on.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.flow.sharing import shared
from hw.npu.flit import Kind, Loaded, NpuFlit, word_bits
from hw.npu.isa.registers import COUNT_BITS
from hw.npu.memories.memories import loads
from hw.npu.shape import STREAMS, NpuShape, Widths
from hw.npu.steps import ADDRESS
from hw.strobe import strobe

TABLES = (Loaded.PM, Loaded.UM, Loaded.IM, Loaded.HM)


def lanes_of(shape: NpuShape, layout: NpuFlit, memory: Loaded) -> int:
    """Return the parts of a word that are written separately; 1 if parts do not fill it."""
    bits, _ = word_bits(shape)[memory]
    return bits // layout.payload if bits % layout.payload == 0 else 1


class Receive(wiring.Component):
    """Receiver.

    flit : a flit for this core, in any cycle
    asks, first : weights are requested in this cycle, and their first word
    base : first weight word that comes from the host
    arrived : the weight word after the last complete one
    map : a part of a vector
    weights : a part of a row
    counts : amounts for each stream, see `hw.npu.frontend.control.Control`
    pm, um, im, hm : words, or parts of them, for the other memories
    """

    module_name = "npu_receive"

    def __init__(self, shape: NpuShape, layout: NpuFlit) -> None:
        self.shape, self.size, self.layout = shape, Widths(shape), layout
        size = self.size
        self.part = min(layout.payload, size.vector)
        self.parts = layout.parts[Loaded.FM]
        self.rows = 1 if shape.weight_port == "row" else shape.rows  # rows per memory word
        tables = {}
        for memory in TABLES:
            bits, _ = word_bits(shape)[memory]
            tables[memory.name.lower()] = Out(loads(bits, lanes_of(shape, layout, memory)))
        super().__init__(
            {
                "flit": In(strobe(layout)),
                "asks": In(1),
                "first": In(ADDRESS),
                "base": In(ADDRESS),
                "arrived": Out(ADDRESS),
                "map": Out(wiring.Signature({
                    "en": Out(1), "vector": Out(size.map_address),
                    "part": Out(range(max(2, self.parts))), "data": Out(self.part),
                })),
                "weights": Out(loads(self.rows * size.vector, self.rows * self.parts)),
                "counts": Out(COUNT_BITS).array(STREAMS),
                **tables,
            }
        )  # fmt: skip

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        return (self.shape, self.layout)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        flit = me.flit.payload
        kind = {
            each: Signal(name=each.name.lower())
            for each in (Kind.MAP, Kind.WEIGHTS, Kind.TOKEN, Kind.LOAD)
        }
        for each, is_one in kind.items():
            m.d.comb += is_one.eq(me.flit.valid & (flit.kind == each))
        to = {memory: Signal(name=f"to_{memory.name.lower()}") for memory in Loaded}
        for memory, is_one in to.items():
            m.d.comb += is_one.eq(kind[Kind.LOAD] & (flit.stream == memory))
        low = exact_log2(self.parts)
        m.d.comb += [
            me.map.en.eq(kind[Kind.MAP] | to[Loaded.FM]),
            me.map.vector.eq(flit.address >> low),
            me.map.part.eq(flit.address[:low]),
            me.map.data.eq(flit.data),
        ]
        last = (flit.address[:low] == self.parts - 1) if low else 1
        adds = Mux(kind[Kind.TOKEN], flit.data[: COUNT_BITS - 1], kind[Kind.MAP] & last)
        for number, count in enumerate(me.counts):
            m.d.comb += count.eq(Mux(flit.stream == number, adds, 0))
        self._weights(m, flit, kind[Kind.WEIGHTS], to[Loaded.WM])
        for memory in TABLES:
            self._table(m, flit, memory, to[memory])
        return m

    def _weights(self, m: Module, flit: Any, comes: Signal, loaded: Signal) -> None:
        """Write rows of words in order at the pointer; or anywhere, before the first frame."""
        me: Any = self
        each = exact_log2(self.shape.rows * self.parts)  # parts of a weight word
        pointer, filled = Signal(ADDRESS), Signal(each)
        word, number = Signal(ADDRESS), Signal(each)
        at = Signal(ADDRESS + each)  # number of the part, over all words
        m.d.comb += [
            me.arrived.eq(pointer),
            word.eq(Mux(me.asks, me.first, pointer)),
            number.eq(Mux(me.asks, 0, filled)),
            at.eq(Mux(loaded, flit.address, Cat(number, word))),
        ]
        m.d.sync += [
            pointer.eq(word + (comes & number.all())),
            filled.eq(number + comes),
            Assert(~(comes & (word < me.base)), "npu: a static weight word is overwritten"),
        ]
        lanes = self.rows * self.parts
        chosen: Value = Value.cast(1)
        if lanes > 1:
            chosen = Value.cast(1) << at[: exact_log2(lanes)]
        m.d.comb += [
            me.weights.en.eq(Mux(comes | loaded, chosen, 0)),
            me.weights.addr.eq(at >> exact_log2(lanes)),
            me.weights.data.eq(flit.data[: self.part].replicate(lanes)),
        ]

    def _table(self, m: Module, flit: Any, memory: Loaded, comes: Signal) -> None:
        port: Any = getattr(self, memory.name.lower())
        bits, _ = word_bits(self.shape)[memory]
        parts, lanes = self.layout.parts[memory], len(port.en)
        low = exact_log2(parts)
        part = flit.address[:low]
        m.d.comb += port.addr.eq(flit.address >> low)
        if lanes == parts:
            m.d.comb += [
                port.en.eq(Mux(comes, (1 << part) if low else 1, 0)),
                port.data.eq(flit.data.replicate(parts)),
            ]
            return
        # Its parts do not fill the word: it is written whole, with the last part.
        whole: Value = flit.data
        if parts > 1:
            before = Signal(self.layout.payload * (parts - 1), name=f"{memory.name.lower()}_before")
            whole = Cat(before, flit.data)
            with m.If(comes):
                m.d.sync += before.eq(whole[self.layout.payload :])
        m.d.comb += [
            port.en.eq(comes & ((part == parts - 1) if low else 1)), port.data.eq(whole[:bits]),
        ]  # fmt: skip
