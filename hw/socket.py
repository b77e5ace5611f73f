"""Interface that any core must have to be attached to a router of a chip."""

from __future__ import annotations

from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.strobe import strobe


class CoreSocket(wiring.Signature):
    """Ports of a core; all are synchronous to the domain `sync`.

    tick : starts a tick; 1 for one cycle in which `busy` is 0 and nothing is loaded
    busy : 1 from the cycle after a tick with work to do, or after a packet was received, until the
        core offers nothing more. While it is 0 the core sends nothing and starts nothing by itself;
        the barrier relies on this.
    outgoing, incoming : packets of layout `packet`; the core must eventually accept delivered
        packets, even if the network accepts none
    load : words of layout `load`, one per cycle while `busy` is 0
    """

    def __init__(self, packet: ShapeLike, load: ShapeLike) -> None:
        packets = stream.Signature(packet)
        super().__init__(
            {
                "tick": In(1),
                "busy": Out(1),
                "outgoing": Out(packets),
                "incoming": In(packets),
                "load": In(strobe(load)),
            }
        )
