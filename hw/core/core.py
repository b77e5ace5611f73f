"""A core: spiking neurons with currents, their synapses, and the routes of their spikes.

Data sheet: docs/core.md. In a tick the core updates its neurons one by one, and sends for each
neuron that spikes one packet to every core that it has synapses in. The weights of packets that
arrive are added up for the next ticks, by the delays of the synapses. Receiving never waits for
sending, so a network that delivers every packet cannot deadlock on its cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Assert, Module, Signal, unsigned
from amaranth.lib import stream, wiring

from hw.core.accumulator import Accumulator
from hw.core.lists import ListReader
from hw.core.loaded import memories_of
from hw.core.shape import CoreShape, DestinationTable
from hw.core.sweep import Sweep
from hw.flow.sharing import shared
from hw.noc.buffer import Buffer
from hw.socket import CoreSocket
from hw.strobe import strobe

if TYPE_CHECKING:
    from hw.tables import CoreTables

SPIKES = 2
"""Spikes that wait for the sender, in addition to those already looked up."""
PACKETS = 2
"""Packets that wait for the mesh, in addition to the one last read."""


class Core(wiring.Component):
    """Spiking core; all ports are synchronous to the domain `sync`.

    tick : starts a tick; 1 for one cycle in which `busy` is 0 and nothing is loaded
    busy : a tick, or a packet that arrived, is being processed
    outgoing : packets of the core's spikes
    incoming : packets for the core; only their axon is used
    load : words for the memories, one per cycle while `busy` is 0; see
        `hw.core.shape.DestinationTable`

    fired : neurons that spike, in the order of their numbers, as they leave the sweep; not a port,
        but an internal signal for simulations to observe
    tables : initial contents of the memories; by default all are zero, and no neuron is used
    """

    module_name = "core"

    tick: Signal
    busy: Signal
    outgoing: stream.Interface
    incoming: stream.Interface
    fired: Any
    load: Any

    def __init__(self, shape: CoreShape, tables: CoreTables | None = None) -> None:
        self.shape = shape
        self.tables = tables
        self.memories = memories_of(shape, tables)
        self.fired = strobe(shape.neuron_bits).create(path=("fired",))
        self.used = Signal(shape.neuron_bits + 1, init=0 if tables is None else tables.used)
        super().__init__(CoreSocket(shape.packet, shape.load))

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        return (self.shape, self.tables)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape, memories = self.shape, self.memories
        m.submodules.sweep = sweep = Sweep(shape, memories, self.used)
        m.submodules.sender = sender = ListReader(
            shape, memories, DestinationTable.FANOUTS, DestinationTable.ROUTES
        )
        m.submodules.receiver = receiver = ListReader(
            shape, memories, DestinationTable.AXONS, DestinationTable.SYNAPSES
        )
        m.submodules.accumulator = accumulator = Accumulator(shape)
        # A buffer, so that the stall of the sweep comes from a register and not from the mesh.
        m.submodules.spikes = spikes = Buffer(unsigned(shape.neuron_bits), SPIKES)
        wiring.connect(m, sweep.spikes, spikes.i)
        wiring.connect(m, spikes.o, sender.keys)
        # Another one to the mesh, for the stall of the sender: its memories may be far from there.
        m.submodules.packets = packets = Buffer(shape.packet, PACKETS)
        wiring.connect(m, sender.entries, packets.i)
        wiring.connect(m, packets.o, wiring.flipped(self.outgoing))
        wiring.connect(m, receiver.entries, accumulator.weights)
        for part in (sweep, sender, receiver, accumulator):
            wiring.connect(m, wiring.flipped(self.load), part.load)

        slot = Signal(shape.slot_bits, init=shape.delay_slots - 1)  # of the sums of the last tick
        with m.If(self.tick):
            m.d.sync += slot.eq(slot + 1)
        with m.If(self.load.valid & (self.load.payload.table == DestinationTable.USED)):
            m.d.sync += slot.eq(shape.delay_slots - 1)
        # Inputs from the network arrive late in a cycle, and memories are far: add a register.
        arrived = Signal()
        with m.If(self.incoming.ready):
            m.d.sync += [
                arrived.eq(self.incoming.valid),
                receiver.keys.payload.eq(self.incoming.payload.axon),
            ]
        m.d.comb += [
            receiver.keys.valid.eq(arrived),
            self.incoming.ready.eq(~arrived | receiver.keys.ready),
            accumulator.slot.eq(slot),
            accumulator.base.eq(receiver.base),
            accumulator.read.eq(sweep.sums),
            accumulator.neuron.eq(sweep.neuron),
            accumulator.hold.eq(sweep.hold),
            sweep.sum.eq(accumulator.sum),
            sweep.start.eq(self.tick),
            self.fired.payload.eq(sweep.spikes.payload),
            self.fired.valid.eq(sweep.spikes.valid & sweep.spikes.ready),
            self.busy.eq(
                (sweep.busy | spikes.o.valid | sender.busy | self.outgoing.valid)
                | (arrived | receiver.busy | accumulator.busy)
            ),
        ]
        m.d.sync += [
            Assert(~(self.tick & self.busy), "core: a tick starts before the last one has ended"),
            Assert(
                ~self.load.valid | ~(self.busy | self.tick | self.incoming.valid),
                "core: it is loaded while it works",
            ),
        ]
        return m
