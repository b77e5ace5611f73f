"""A core: integrate-and-fire neurons, the synapses on them, and the routes of their spikes.

Data sheet: docs/core.md. In a tick the core updates its neurons one by one, and sends for each
neuron that spikes one packet to every core that it has synapses in. The weights of packets that
arrive are added up for the tick after. Receiving never waits for sending, so a network that
delivers what is taken from it cannot lock up on its cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Assert, MemoryData, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory, WritePort
from amaranth.lib.wiring import In, Out

from hw.accumulator import Accumulator
from hw.lists import ListReader
from hw.neuron import NeuronUpdate
from hw.shape import CoreShape, Table
from hw.sharing import shared
from hw.strobe import strobe

if TYPE_CHECKING:
    from hw.tables import CoreTables


class Core(wiring.Component):
    """Ports; all are synchronous to the domain `sync`.

    tick : starts a tick; 1 for one cycle, in which `busy` is 0 and nothing is loaded
    busy : a tick, or a packet that arrived, is being worked at
    outgoing : packets of the core's spikes
    incoming : packets for the core; only their axon is looked at
    fired : neurons that spike, in the order of their numbers, each as it is updated; to watch
    load : words for the memories, one a cycle while `busy` is 0; see `hw.shape.Table`

    tables : initial contents of the memories; without them all are zero, and no neuron is used
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
        self.used = Signal(shape.neuron_bits + 1, init=0 if tables is None else tables.used)
        self.memories = {
            table: MemoryData(
                shape=word, depth=depth, init=[] if tables is None else tables.rows(table)
            )
            for table, (word, depth) in shape.memories.items()
        }
        super().__init__(
            {
                "tick": In(1),
                "busy": Out(1),
                "outgoing": Out(stream.Signature(shape.packet)),
                "incoming": In(stream.Signature(shape.packet)),
                "fired": Out(strobe(shape.neuron_bits)),
                "load": In(strobe(shape.load)),
            }
        )

    @property
    def parameters(self) -> tuple[Any, ...]:
        """What makes two cores the same module."""
        return (self.shape, self.tables)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        memories = {table: Memory(data) for table, data in self.memories.items()}
        for table, memory in memories.items():
            m.submodules[table.name.lower()] = memory
        writes = {table: memory.write_port() for table, memory in memories.items()}
        self._loads(m, writes)

        m.submodules.sender = sender = ListReader(shape.fanout, shape.packet, shape.neuron_bits)
        wiring.connect(m, sender.heads, memories[Table.FANOUTS].read_port())
        wiring.connect(m, sender.rows, memories[Table.ROUTES].read_port())
        wiring.connect(m, sender.entries, wiring.flipped(self.outgoing))

        m.submodules.receiver = receiver = ListReader(shape.axon, shape.synapse, shape.axon_bits)
        wiring.connect(m, receiver.heads, memories[Table.AXONS].read_port())
        wiring.connect(m, receiver.rows, memories[Table.SYNAPSES].read_port())
        m.submodules.accumulator = accumulator = Accumulator(shape)
        wiring.connect(m, receiver.entries, accumulator.weights)
        arriving: Any = self.incoming.payload
        m.d.comb += [
            receiver.keys.payload.eq(arriving.axon),
            receiver.keys.valid.eq(self.incoming.valid),
            self.incoming.ready.eq(receiver.keys.ready),
        ]

        # The sweep over the neurons: in its first stage a neuron's memories are read, in its second
        # they are written. A spike that the sender cannot take holds up both.
        sweeping, neuron = Signal(), Signal(shape.neuron_bits)
        staged, updated = Signal(), Signal(shape.neuron_bits)
        moves, phase = Signal(), Signal()
        m.submodules.update = update = NeuronUpdate(shape)
        parameters = memories[Table.NEURONS].read_port()
        potentials = memories[Table.POTENTIALS].read_port()
        m.d.comb += [
            moves.eq(~(staged & update.fires) | sender.keys.ready),
            parameters.addr.eq(neuron),
            parameters.en.eq(sweeping & moves),
            potentials.addr.eq(neuron),
            potentials.en.eq(sweeping & moves),
            accumulator.neuron.eq(neuron),
            accumulator.read.eq(sweeping & moves),
            accumulator.phase.eq(phase),
            update.potential.eq(potentials.data),
            update.parameters.eq(parameters.data),
            update.sum.eq(accumulator.sum),
            sender.keys.payload.eq(updated),
            sender.keys.valid.eq(staged & update.fires),
            self.fired.payload.eq(updated),
            self.fired.valid.eq(staged & update.fires & moves),
            self.busy.eq(sweeping | staged | sender.busy | receiver.busy | accumulator.busy),
        ]
        write: Any = writes[Table.POTENTIALS]
        word: Any = self.load.payload
        m.d.comb += accumulator.cleared.eq(updated)
        with m.If(staged & moves):
            m.d.comb += [
                write.addr.eq(updated),
                write.data.eq(update.after),
                write.en.eq(1),
                accumulator.clear.eq(1),
            ]
        with m.If(self.load.valid & (word.table == Table.POTENTIALS)):
            m.d.comb += [accumulator.cleared.eq(word.address), accumulator.clear_both.eq(1)]

        with m.If(moves):
            m.d.sync += [staged.eq(sweeping), updated.eq(neuron)]
            with m.If(sweeping):
                m.d.sync += neuron.eq(neuron + 1)
                with m.If(neuron + 1 == self.used):
                    m.d.sync += sweeping.eq(0)
        with m.If(self.tick):
            m.d.sync += [sweeping.eq(self.used != 0), neuron.eq(0), phase.eq(~phase)]

        m.d.sync += Assert(~(self.tick & self.busy), "a tick starts before the last one has ended")
        m.d.sync += Assert(
            ~self.load.valid | ~(self.busy | self.tick | self.incoming.valid),
            "a core is loaded while it works",
        )
        return m

    def _loads(self, m: Module, writes: dict[Table, WritePort]) -> None:
        """Words of the load port go to the memory that they name."""
        word: Any = self.load.payload
        for table, port in writes.items():
            write: Any = port
            with m.If(self.load.valid & (word.table == table)):
                m.d.comb += [
                    write.addr.eq(word.address),
                    write.data.eq(word.data),
                    write.en.eq(1),
                ]
        with m.If(self.load.valid & (word.table == Table.USED)):
            m.d.sync += self.used.eq(word.data)
