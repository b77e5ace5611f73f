"""What a core must have to sit behind a router of a chip, whatever it computes."""

from __future__ import annotations

from amaranth.hdl import ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.strobe import strobe


class CoreSocket(wiring.Signature):
    """Ports of a core; all are synchronous to the domain `sync`.

    tick : starts a tick; 1 for one cycle, in which `busy` is 0 and nothing is loaded
    busy : the core is at work: 1 from the cycle after a tick in which there is something to do, or
        after it took a packet, until it offers nothing more. While it is 0 the core sends nothing
        and begins nothing by itself, which is what the barrier relies on.
    outgoing, incoming : packets of layout `packet`; what is delivered must be taken in the end,
        whether the network takes something or not
    load : words of layout `load`, one a cycle while `busy` is 0
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
