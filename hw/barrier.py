"""The barrier between ticks: says when nothing moves on the chip any more.

Ports (one bit a node in `busy`, `sent` and `received`)
    ``busy``      In    the core of the node is at work
    ``sent``      In    a packet enters the network at the node in this cycle
    ``received``  In    a packet leaves the network to the core of the node in this cycle
    ``begins``    In    a tick starts, or the network takes a packet of the host, in this cycle
    ``quiet``     Out   no core is at work and no packet is in the network

Timing
    `quiet` tells of `LATENCY` cycles ago, and is 0 for as many cycles after one with `begins`.
    What happens at a node is registered first; then a tree of two levels adds it up.

State
    The registers of the tree and of `begins`, and ``flying``: packets in the network, 0 after
    reset. It counts up by the packets sent and down by those received in a cycle, and cannot
    overflow: the network holds at most `capacity`.

Why it is right
    A tick is over when all its spikes have been added to the sums. At the end of every cycle a
    spike that is not there yet is in a core that sends, in the network, or in a core that
    receives. A core is busy while it holds one; `flying` counts one in the network. A spike goes
    from one to the other at a clock edge, the same for both: in the cycle of its handshake the
    sender is still busy, in the next one it is counted; in the cycle in which it is taken it is
    still counted, in the next one the receiver is busy. So there is no cycle in which it is seen
    by neither, and `quiet` is 0 until the last spike is in its sum.

    And it stays 1 then: cores start to work only for a tick or a packet, and the network makes no
    packets of its own. So `quiet` may come from any number of cycles ago, if all that it is made of
    comes from the same cycle, and if it is not trusted until it can know of what began since.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add, or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.errors import check_count

LATENCY = 3
"""Cycles until `quiet` knows what happened: a register at each node, and two levels of sums."""


class Barrier(wiring.Component):
    """Barrier of so many `nodes`, on a network that holds at most `capacity` packets."""

    busy: Signal
    sent: Signal
    received: Signal
    begins: Signal
    quiet: Signal

    def __init__(self, nodes: int, capacity: int) -> None:
        self.capacity = check_count("barrier: capacity", capacity)
        check_count("barrier: nodes", nodes)
        super().__init__(
            {
                "busy": In(nodes), "sent": In(nodes), "received": In(nodes), "begins": In(1),
                "quiet": Out(1),
            }
        )  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        flying = Signal(range(self.capacity + 1))
        busy, sent, received = (
            _registered(m, name, list(getattr(self, name))) for name in ("busy", "sent", "received")
        )
        moved = [up - down for up, down in zip(sent, received, strict=True)]
        fan_in = math.isqrt(len(busy) - 1) + 1  # nodes, and sums of them, that are added in a cycle
        for level in range(1, LATENCY):
            busy = _registered(m, f"busy_{level}", _together(busy, or_, fan_in))
            moved = _registered(m, f"moved_{level}", _together(moved, add, fan_in))
        recent = Signal(LATENCY)
        now = flying + moved[0]
        m.d.sync += [flying.eq(now), recent.eq(Cat(self.begins, recent))]
        m.d.comb += self.quiet.eq(~(busy[0] | recent.any()) & (flying == 0))
        m.d.sync += [
            Assert(now >= 0, "barrier: more packets have left the network than entered it"),
            Assert(now <= self.capacity, "barrier: more packets are in the network than it holds"),
        ]
        return m


def _registered(m: Module, name: str, values: list[Value]) -> list[Value]:
    """The values a cycle later."""
    registers: list[Value] = []
    for number, value in enumerate(values):
        register = Signal(value.shape(), name=f"{name}_{number}")
        m.d.sync += register.eq(value)
        registers.append(register)
    return registers


def _together(
    values: list[Value], join: Callable[[Value, Value], Value], count: int
) -> list[Value]:
    """So many values in one."""
    return [reduce(join, values[at : at + count]) for at in range(0, len(values), count)]
