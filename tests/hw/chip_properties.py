"""Proved properties of the barrier, of a core in any network, and of the ring of sums."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from amaranth.asserts import AnyConst
from amaranth.hdl import Assert, Assume, Cat, Module, Signal

from hw.barrier import Barrier
from hw.core.accumulator import Accumulator
from hw.core.core import Core
from hw.core.shape import CoreShape, DestinationTable
from tests.hw.properties import COUNT, Harness

SMALL = CoreShape(
    neurons=2, axons=2, routes=2, synapses=2, profiles=2, state_bits=2, decay_bits=1,
    weight_bits=2, sum_bits=2, shift_bits=1, refractory_bits=1, x_bits=1, y_bits=1,
)  # fmt: skip
RING = replace(SMALL, delay_slots=4, sum_bits=3)
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
        synapse: Any = SMALL.synapse(word.data[: SMALL.synapse.size])
        m.d.comb += [
            Assume(~(dut.tick & dut.busy)),
            Assume(~(dut.load.valid & works)),
            Assume((word.table != DestinationTable.USED) | (word.data <= SMALL.neurons)),
            Assume((word.table != DestinationTable.SYNAPSES) | (synapse.delay == 0)),
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


class AccumulatorHarness(Harness):
    """Slots advance while no weight is being added; each sum is read once per turn of its slot.

    One sum is followed, of any neuron and slot, from zero memories on.
    """

    def __init__(
        self, accumulator: type[Accumulator] = Accumulator, only: str | None = None
    ) -> None:
        super().__init__(accumulator(RING), only)

    def prepare(self, m: Module) -> None:
        dut, word = self.dut, self.dut.weights.payload
        neuron, slot = AnyConst(RING.neuron_bits), AnyConst(RING.slot_bits)
        before, still = Signal(RING.slot_bits, init=RING.delay_slots - 1), Signal()
        target, place = Signal(RING.neuron_bits), Signal(RING.slot_bits)
        waits, recent, mine, read = Signal(), Signal(), Signal(), Signal()
        self.sum, self.kept, self.captured = Signal(RING.sum), Signal(RING.sum), Signal()
        m.d.comb += [
            target.eq(dut.base + word.neuron),
            place.eq(dut.slot + 1 + word.delay),
            # The protocol of the core.
            Assume(~dut.load.valid),
            Assume(~dut.weights.valid | (word.delay <= RING.longest_delay)),
            Assume((dut.slot == before) | ((dut.slot == (before + 1)[: RING.slot_bits]) & still)),
            Assume((dut.slot == before) | ~(waits | recent)),
            Assume(~dut.read | (dut.slot == before)),
            Assume(~dut.read | ~waits | dut.hold),
            Assume(~(read & dut.read & (dut.neuron == neuron) & (dut.slot == slot))),
        ]
        asks = dut.read & (dut.neuron == neuron) & (dut.slot == slot)
        m.d.sync += [
            before.eq(dut.slot),
            still.eq(~dut.busy & ~dut.weights.valid),
            recent.eq(waits & dut.hold),
            self.captured.eq(waits & mine & dut.hold),
        ]
        with m.If(dut.slot != slot):
            m.d.sync += read.eq(0)
        with m.Elif(asks):
            m.d.sync += read.eq(1)
        with m.If(dut.read):
            m.d.sync += [waits.eq(1), mine.eq(asks)]
        with m.Elif(dut.hold):
            m.d.sync += waits.eq(0)
        with m.If(dut.weights.valid & (Cat(target, place) == Cat(neuron, slot))):
            m.d.sync += self.sum.eq(self.sum + word.weight)
        with m.Elif(asks):
            m.d.sync += [self.kept.eq(self.sum), self.sum.eq(0)]

    def prove_a_sum_has_the_weights_since_it_was_read(self, m: Module) -> None:
        with m.If(self.captured):
            m.d.sync += Assert(self.dut.sum == self.kept)
