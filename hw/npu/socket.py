"""Nodes with NPU cores for the core socket of a chip, along with nodes with spiking cores.

`hw.chip.ChipDesign(..., layout=NpuFlit(...), make_core=...)` uses a `SocketedNode` at every node:
with an NPU core, a spiking core, both, or neither. `hw.npu.chip.MixedChip` has host ports at any
node and starts frames independently of ticks; here the chip provides both.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring

from hw.npu.node import Node
from hw.socket import CoreSocket

Place = tuple[int, int]


class SocketedNode(wiring.Component):
    """A node at `here`, whose NPU core requests weights from the host at `port`.

    tick : starts a tick of the spiking core, and a frame of the NPU core at its first instruction
    busy : the spiking core is busy, a frame is in progress, a flit was accepted in the previous
        cycle, or one is offered
    incoming, outgoing : flits of the node's layout
    load : words for the spiking core (layout: the chip's `CoreShape.load`); the memories of an NPU
        core are loaded by flits, or initialised
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
