"""Outgoing flits of a core: vectors of STORE part by part, and registers for SEND and WSTREAM.

A register is loaded in the cycle in which its instruction starts, or in the first later cycle in
which it is empty or its flit is accepted; its content is offered from the next cycle on.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.flow.sharing import shared
from hw.npu.flit import HOST_VECTOR_BITS, SIDE_BITS, Kind, Loaded, NpuFlit
from hw.npu.isa.instruction import WORD_BITS, fields_of
from hw.npu.isa.table import UNITS
from hw.npu.load.unit import request
from hw.npu.shape import NpuShape, Widths
from hw.npu.store.unit import vectors

SOURCES = 2 + len(UNITS)
"""STORE, the SEND of each queue, WSTREAM: in the order of the arbiter that merges them."""


def place() -> wiring.Signature:
    """Return the signature of column and row of a node."""
    return wiring.Signature({"x": Out(SIDE_BITS), "y": Out(SIDE_BITS)})


class Sending(wiring.Component):
    """Sender.

    here, port : places of the core, and of the host port that it requests weights from
    sends, words, blocked : per queue, a SEND requests its register; its word; the register is not
        available
    request, vector : ports of LOAD and STORE
    sources : flits
    """

    module_name = "npu_sending"

    def __init__(self, shape: NpuShape, layout: NpuFlit) -> None:
        self.shape, self.layout = shape, layout
        size = Widths(shape)
        super().__init__(
            {
                "here": In(place()),
                "port": In(place()),
                "sends": In(len(UNITS)),
                "words": In(WORD_BITS).array(len(UNITS)),
                "blocked": Out(len(UNITS)),
                "request": In(request()),
                "vector": In(vectors(size)),
                "sources": Out(stream.Signature(layout)).array(SOURCES),
            }
        )

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        return (self.shape, self.layout)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        here = Cat(me.here.x, me.here.y)
        self._store(m, me.sources[0])
        for unit in range(len(UNITS)):
            f = fields_of(me.words[unit], "CTRL", "SEND")
            fields = {
                "x": f.x, "y": f.y, "stream": f.stream,
                "kind": Mux(f.host, Kind.REQUEST, Kind.TOKEN),
                "data": Mux(f.host, Cat(here, f.count), f.count),
            }  # fmt: skip
            self._register(m, me.sources[1 + unit], me.sends[unit], fields, me.blocked[unit])
        fields = {
            "x": me.port.x, "y": me.port.y, "kind": Kind.REQUEST, "address": me.request.words,
            "data": Cat(here, me.request.host),
        }  # fmt: skip
        self._register(m, me.sources[-1], me.request.en, fields, me.request.waits)
        return m

    def _store(self, m: Module, source: Any) -> None:
        """Send the parts of a vector; the store unit waits until the last one is accepted."""
        me: Any = self
        vector, flit = me.vector, source.payload
        payload, parts = self.layout.payload, self.layout.parts[Loaded.FM]
        low = exact_log2(parts)
        part = Signal(max(1, low))
        pieces = [vector.data[payload * n : payload * (n + 1)] for n in range(parts)]
        last = part == parts - 1
        m.d.comb += [
            source.valid.eq(vector.en),
            flit.x.eq(vector.x), flit.y.eq(vector.y), flit.stream.eq(vector.stream),
            flit.kind.eq(Mux(vector.host, Kind.TO_HOST, Kind.MAP)),
            flit.address.eq(Cat(part[:low], vector.vector[:HOST_VECTOR_BITS])),
            flit.data.eq(sum((Mux(part == n, each, 0) for n, each in enumerate(pieces)), Const(0))
                         if parts > 1 else vector.data),
            vector.waits.eq(~(source.ready & last)),
        ]  # fmt: skip
        with m.If(source.valid & source.ready):
            m.d.sync += part.eq(Mux(last, 0, part + 1))

    def _register(
        self, m: Module, source: Any, wants: Any, fields: dict[str, Any], blocked: Any
    ) -> None:
        full, held = Signal(), Signal(self.layout)
        m.d.comb += [
            source.valid.eq(full), source.payload.eq(held), blocked.eq(full & ~source.ready),
        ]  # fmt: skip
        with m.If(wants & ~blocked):
            m.d.sync += [full.eq(1), held.as_value().eq(0)]
            m.d.sync += [held[name].eq(value) for name, value in fields.items()]
        with m.Elif(source.ready):
            m.d.sync += full.eq(0)
