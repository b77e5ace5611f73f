"""The barrier between ticks: detects that nothing moves on the chip any more.

Ports (one bit per node in `busy`, `sent` and `received`)
    ``busy``      In    the core of the node is busy
    ``sent``      In    a packet enters the network at the node in this cycle
    ``received``  In    a packet leaves the network to the core of the node in this cycle
    ``begins``    In    a tick starts, or the network accepts a packet of the host, in this cycle
    ``quiet``     Out   no core is busy and no packet is in the network

Timing
    `quiet` refers to the state `LATENCY` cycles ago, and is 0 for LATENCY cycles after a cycle with
    `begins`. Inputs are registered at each node; a tree of two levels then adds them up.

State
    The registers of the tree and of `begins`, and ``flying``: packets in the network, 0 after
    reset. It counts up by the packets sent and down by the packets received per cycle, and cannot
    overflow: the network holds at most `capacity` packets.

Correctness
    A tick is over when all its spikes have been added to the sums. At the end of every cycle, a
    spike that has not been added is in a sending core, in the network, or in a receiving core. A
    core is busy while it holds one; `flying` counts a spike in the network. Both sides see a
    transfer at the same clock edge: in the cycle of its handshake the sender is still busy, and in
    the next one the spike is counted; in the cycle in which it is received it is still counted, and
    in the next one the receiver is busy. So one of the two sees it in every cycle, and `quiet` is 0
    until the last spike is in its sum.

    `quiet` then stays 1: cores start to work only for a tick or a packet, and the network creates
    no packets. So `quiet` may be any number of cycles old, provided that all its inputs are of the
    same cycle and that it is ignored until it covers the last `begins`.
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
"""Latency of `quiet` in cycles: a register at each node, and two levels of sums."""


class Barrier(wiring.Component):
    """Barrier for `nodes` cores, on a network that holds at most `capacity` packets."""

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
        fan_in = math.isqrt(len(busy) - 1) + 1  # fan-in: nodes, or partial sums, added per cycle
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
    """Return the values delayed by a cycle."""
    registers: list[Value] = []
    for number, value in enumerate(values):
        register = Signal(value.shape(), name=f"{name}_{number}")
        m.d.sync += register.eq(value)
        registers.append(register)
    return registers


def _together(
    values: list[Value], join: Callable[[Value, Value], Value], count: int
) -> list[Value]:
    """Reduce groups of `count` values to one each."""
    return [reduce(join, values[at : at + count]) for at in range(0, len(values), count)]
