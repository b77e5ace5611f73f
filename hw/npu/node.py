"""A node at a router's local port: an NPU core, a spiking core, a host port, or several of them.

Incoming flits are distributed by kind: 0 to the spiking core, 4 and 5 to the host port, the others
to the NPU core, which accepts one per cycle. Outgoing flits are merged by a round-robin arbiter:
the sources of the NPU core, then the host port, then spikes.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.core.core import Core
from hw.flow.sharing import shared
from hw.noc.arbiter import Arbiter
from hw.npu.core import NpuCore
from hw.npu.flit import Kind, NpuFlit
from hw.npu.frontend.frames import FRAMES, Frames
from hw.npu.isa.table import UNITS
from hw.npu.store.sending import place
from hw.strobe import strobe


class Node(wiring.Component):
    """Node.

    here, port : places of the node, and of the host port that its NPU core requests weights from
    incoming, outgoing : streams of the router
    begin, active, started, ended : for an NPU core, see `hw.npu.frontend.frames.Frames` and
        `NpuCore`
    from_host, to_host : for a host port
    tick, busy, load : for a spiking core

    Ports of missing parts are omitted.
    """

    module_name = "npu_node"

    def __init__(self, layout: NpuFlit, npu: NpuCore | None, core: Core | None, host: bool) -> None:
        self.layout, self.npu, self.core, self.host = layout, npu, core, host
        flits = stream.Signature(layout)
        members: dict[str, Any] = {
            "here": In(place()), "port": In(place()), "incoming": In(flits), "outgoing": Out(flits),
        }  # fmt: skip
        if npu is not None:
            members |= {
                "begin": In(strobe(FRAMES)), "active": Out(1), "started": Out(len(UNITS)),
                "ended": Out(len(UNITS)),
            }  # fmt: skip
        if host:
            members |= {"from_host": In(flits), "to_host": Out(flits)}
        if core is not None:
            members |= {
                "tick": In(1), "busy": Out(1), "load": In(strobe(core.shape.load)),
            }  # fmt: skip
        super().__init__(members)

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        parts = (None if each is None else each.module_parameters for each in (self.npu, self.core))
        return (self.layout, *parts, self.host)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        kind = me.incoming.payload.kind
        to_host = (kind == Kind.TO_HOST) | (kind == Kind.REQUEST)
        sources: list[Any] = []
        takers: list[tuple[Value, Value]] = []  # kinds of flits, and whether they are accepted
        if self.npu is not None:
            sources += self._npu(m, (kind != Kind.SPIKE) & ~to_host)
            takers.append(((kind != Kind.SPIKE) & ~to_host, Const(1)))
        if self.host:
            m.d.comb += [
                me.to_host.payload.eq(me.incoming.payload),
                me.to_host.valid.eq(me.incoming.valid & to_host),
            ]
            takers.append((to_host, me.to_host.ready))
            sources.append(me.from_host)
        if self.core is not None:
            sources.append(self._spiking(m, kind == Kind.SPIKE))
            takers.append((kind == Kind.SPIKE, self.core.incoming.ready))
        m.d.comb += me.incoming.ready.eq(
            reduce(or_, (mine & ready for mine, ready in takers), Const(0))
        )
        known = reduce(or_, (mine for mine, _ in takers), Const(0))
        m.d.sync += Assert(~me.incoming.valid | known, "node: a flit for a part that is not there")
        if sources:
            self._join(m, sources)
        return m

    def _npu(self, m: Module, mine: Value) -> list[Any]:
        """Build the NPU core and its frame control."""
        me: Any = self
        npu: Any = self.npu
        m.submodules.npu = npu
        m.submodules.frames = frames = Frames(npu.shape)
        f: Any = frames
        flit = me.incoming.payload
        wanted = me.incoming.valid & (flit.kind == Kind.FRAMES)
        m.d.comb += [
            npu.flit.valid.eq(me.incoming.valid & mine), npu.flit.payload.eq(flit),
            f.begin.valid.eq(me.begin.valid | wanted),
            f.begin.payload.eq(Mux(wanted, flit.data, me.begin.payload)),
            f.busy.eq(npu.busy), npu.start.eq(f.start), npu.odd.eq(f.odd), npu.first.eq(f.first),
            me.active.eq(f.active), me.started.eq(npu.started), me.ended.eq(npu.ended),
            *(getattr(to, axis).eq(getattr(at, axis)) for axis in "xy"
              for to, at in ((npu.here, me.here), (npu.port, me.port))),
        ]  # fmt: skip
        return list(npu.sources)

    def _spiking(self, m: Module, mine: Value) -> Any:
        """Build the spiking core, whose axon is the data of a flit; return its flits."""
        me: Any = self
        core: Any = self.core
        m.submodules.core = core
        found = stream.Signature(self.layout).create(path=("spikes",))
        packet, flit = core.outgoing.payload, found.payload
        m.d.comb += [
            core.incoming.valid.eq(me.incoming.valid & mine),
            core.incoming.payload.axon.eq(me.incoming.payload.data),
            flit.x.eq(packet.x), flit.y.eq(packet.y), flit.data.eq(packet.axon),
            flit.kind.eq(Kind.SPIKE), found.valid.eq(core.outgoing.valid),
            core.outgoing.ready.eq(found.ready), core.tick.eq(me.tick), me.busy.eq(core.busy),
            core.load.valid.eq(me.load.valid), core.load.payload.eq(me.load.payload),
        ]  # fmt: skip
        return found

    def _join(self, m: Module, sources: list[Any]) -> None:
        me: Any = self
        m.submodules.arbiter = join = Arbiter(len(sources))
        sink: Any = me.outgoing
        chosen = Signal(self.layout)
        for source, grant in zip(sources, join.grants, strict=True):
            m.d.comb += source.ready.eq(sink.ready & grant)
        m.d.comb += [
            join.requests.eq(Cat(source.valid for source in sources)),
            join.ready.eq(sink.ready),
            sink.valid.eq(join.requests.any()),
            chosen.eq(
                reduce(or_, (
                    Mux(grant, source.payload.as_value(), 0)
                    for source, grant in zip(sources, join.grants, strict=True)
                ))
            ),
            sink.payload.eq(chosen),
        ]  # fmt: skip
