"""The barrier between ticks: says when nothing moves on the chip any more.

Ports (one bit a node in `busy`, `sent` and `received`)
    ``busy``      In    the core of the node is at work
    ``sent``      In    a packet enters the network at the node in this cycle
    ``received``  In    a packet leaves the network to the core of the node in this cycle
    ``quiet``     Out   no core is at work and no packet is in the network

State
    ``flying``  packets in the network, 0 after reset. It counts up by the packets sent and down by
    those received in a cycle, and cannot overflow: the network holds at most `capacity`.

Why it is right
    A tick is over when all its spikes have been added to the sums. At the end of every cycle a
    spike that is not there yet is in a core that sends, in the network, or in a core that
    receives. A core is busy while it holds one; `flying` counts one in the network. A spike goes
    from one to the other at a clock edge, the same for both: in the cycle of its handshake the
    sender is still busy, in the next one it is counted; in the cycle in which it is taken it is
    still counted, in the next one the receiver is busy. So there is no cycle in which it is seen
    by neither, and `quiet` is 0 until the last spike is in its sum.

    And it stays 1 then: cores start to work only for a tick or a packet, and the network makes no
    packets of its own. So `quiet` may be delayed by any number of registers, as a tree over many
    cores would be, if it is not trusted for as many cycles after the start of a tick.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.errors import check_count


class Barrier(wiring.Component):
    """Barrier of so many `nodes`, on a network that holds at most `capacity` packets."""

    busy: Signal
    sent: Signal
    received: Signal
    quiet: Signal

    def __init__(self, nodes: int, capacity: int) -> None:
        self.capacity = check_count("barrier: capacity", capacity)
        check_count("barrier: nodes", nodes)
        super().__init__(
            {"busy": In(nodes), "sent": In(nodes), "received": In(nodes), "quiet": Out(1)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        flying = Signal(range(self.capacity + 1))
        now = flying + _ones(self.sent) - _ones(self.received)
        m.d.sync += flying.eq(now)
        m.d.comb += self.quiet.eq(~self.busy.any() & (flying == 0))
        m.d.sync += [
            Assert(now >= 0, "barrier: more packets have left the network than entered it"),
            Assert(now <= self.capacity, "barrier: more packets are in the network than it holds"),
        ]
        return m


def _ones(bits: Value) -> Value:
    """Number of bits that are 1, by a balanced tree of adders."""
    if len(bits) == 1:
        return bits
    middle = len(bits) // 2
    return _ones(bits[:middle]) + _ones(bits[middle:])
