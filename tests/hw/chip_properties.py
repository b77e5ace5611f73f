"""Proved properties of the barrier and of a core, in a network with any behaviour of a mesh."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

from amaranth.hdl import Assert, Assume, Module, Signal

from hw.barrier import Barrier
from hw.core.core import Core
from hw.core.shape import CoreShape, DestinationTable
from tests.hw.properties import COUNT, Harness

SMALL = CoreShape(
    neurons=2, axons=2, routes=2, synapses=2, profiles=2, state_bits=2, decay_bits=1,
    weight_bits=2, sum_bits=2, shift_bits=1, refractory_bits=1, x_bits=1, y_bits=1,
)  # fmt: skip
NODES = 2


class BarrierHarness(Harness):
    """A barrier whose cores start only for a tick or a packet, and send while they are busy.

    The host sends by node 0. A tick starts when the barrier is quiet.
    """

    def __init__(self, barrier: type[Barrier] = Barrier, only: str | None = None) -> None:
        super().__init__(barrier(NODES, 4), only)

    def prepare(self, m: Module) -> None:
        dut = self.dut
        starts, host, before = Signal(), Signal(), Signal(NODES)
        self.inside = Signal(COUNT)  # packets in the network
        m.d.sync += [
            before.eq(dut.busy | dut.received | starts.replicate(NODES)),
            self.inside.eq(self.inside + reduce(add, dut.sent) - reduce(add, dut.received)),
        ]
        m.d.comb += [
            host.eq(dut.begins & ~starts),
            starts.eq(dut.begins & dut.quiet),
            Assume(~(dut.busy & ~before).any()),
            Assume(~(dut.sent & ~(dut.busy | host)).any()),
            Assume(~host | dut.sent[0]),
            Assume(reduce(add, dut.received) <= self.inside),
            Assume(self.inside + reduce(add, dut.sent) - reduce(add, dut.received) <= 4),
        ]

    def prove_quiet_only_where_nothing_moves(self, m: Module) -> None:
        m.d.sync += Assert(~self.dut.quiet | (~self.dut.busy.any() & (self.inside == 0)))

    def prove_quiet_where_nothing_has_moved_for_long(self, m: Module) -> None:
        still = Signal(3)
        moves = self.dut.busy.any() | self.dut.begins | (self.inside != 0) | self.dut.sent.any()
        with m.If(moves):
            m.d.sync += still.eq(0)
        with m.Elif(still != 7):
            m.d.sync += still.eq(still + 1)
        m.d.sync += Assert((still < 5) | self.dut.quiet)


class CoreHarness(Harness):
    """A tick starts while the core is idle; nothing is loaded while it is busy."""

    def __init__(self, core: type[Core] = Core, only: str | None = None) -> None:
        super().__init__(core(SMALL), only)

    def prepare(self, m: Module) -> None:
        dut = self.dut
        works = dut.busy | dut.tick | dut.incoming.valid
        word: Any = dut.load.payload
        m.d.comb += [
            Assume(~(dut.tick & dut.busy)),
            Assume(~(dut.load.valid & works)),
            Assume((word.table != DestinationTable.USED) | (word.data <= SMALL.neurons)),
        ]

    def prove_a_packet_that_is_offered_stays(self, m: Module) -> None:
        out: Any = self.dut.outgoing
        waits, offered = Signal(), Signal.like(out.payload.as_value())
        m.d.sync += [waits.eq(out.valid & ~out.ready), offered.eq(out.payload)]
        with m.If(waits):
            m.d.sync += Assert(out.valid & (out.payload.as_value() == offered))

    def prove_busy_while_it_offers_and_after_it_took(self, m: Module) -> None:
        took = Signal()
        m.d.sync += took.eq(self.dut.incoming.valid & self.dut.incoming.ready)
        m.d.sync += Assert(~(took | self.dut.outgoing.valid) | self.dut.busy)
