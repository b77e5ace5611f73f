"""Nodes with NPU cores behind the socket of a chip, beside nodes with spiking cores.

`hw.chip.Chip(..., layout=NpuFlit(...), make_core=...)` takes a `SocketedNode` for every node: with
an NPU core, a spiking core, both, or neither. `hw.npu.chip.MixedChip` has host ports at any node,
and begins frames apart from ticks; here both are those of the chip.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring

from hw.npu.node import Node
from hw.socket import CoreSocket

Place = tuple[int, int]


class SocketedNode(wiring.Component):
    """A node at `here`, whose NPU core asks the host at `port` for weights.

    tick : starts a tick of the spiking core, and a frame of the NPU core with its first instruction
    busy : the spiking core works, a frame is under way, a flit was taken in the cycle before, or
        one is offered
    incoming, outgoing : flits of the node's layout
    load : words for the spiking core; the memories of an NPU core are loaded by flits, or have
        their contents from the start

    load : layout of these words, the chip's `CoreShape.load`
    """

    def __init__(self, node: Node, here: Place, port: Place, load: data.StructLayout) -> None:
        self.node, self.here, self.port = node, here, port
        super().__init__(CoreSocket(node.layout, load))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        m.submodules.node = node = self.node
        n: Any = node
        for own, place in ((n.here, self.here), (n.port, self.port)):
            m.d.comb += [own.x.eq(place[0]), own.y.eq(place[1])]
        wiring.connect(m, wiring.flipped(me.incoming), n.incoming)
        wiring.connect(m, n.outgoing, wiring.flipped(me.outgoing))
        taken = Signal()
        m.d.sync += taken.eq(me.incoming.valid & me.incoming.ready)
        busy = taken | n.outgoing.valid
        if node.npu is not None:
            m.d.comb += [n.begin.valid.eq(me.tick), n.begin.payload.count.eq(1)]
            busy |= n.active
        if node.core is not None:
            m.d.comb += [
                n.tick.eq(me.tick),
                n.load.valid.eq(me.load.valid),
                n.load.payload.eq(me.load.payload),
            ]
            busy |= n.busy
        m.d.comb += me.busy.eq(busy)
        return m
