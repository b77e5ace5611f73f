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
from hw.shape import CoreShape, Table
from hw.sharing import shared
from hw.strobe import strobe
from hw.sweep import Sweep

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
        reads = {table: memory.read_port() for table, memory in memories.items()}
        writes = {table: memory.write_port() for table, memory in memories.items()}

        # spikes go out
        m.submodules.sweep = sweep = Sweep(shape)
        m.submodules.sender = sender = ListReader(shape.fanout, shape.packet, shape.neuron_bits)
        wiring.connect(m, sweep.parameters, reads[Table.NEURONS])
        wiring.connect(m, sweep.potentials, reads[Table.POTENTIALS])
        wiring.connect(m, sweep.spikes, sender.keys)
        wiring.connect(m, sender.heads, reads[Table.FANOUTS])
        wiring.connect(m, sender.rows, reads[Table.ROUTES])
        wiring.connect(m, sender.entries, wiring.flipped(self.outgoing))

        # weights come in
        m.submodules.receiver = receiver = ListReader(shape.axon, shape.synapse, shape.axon_bits)
        m.submodules.accumulator = accumulator = Accumulator(shape)
        wiring.connect(m, receiver.heads, reads[Table.AXONS])
        wiring.connect(m, receiver.rows, reads[Table.SYNAPSES])
        wiring.connect(m, receiver.entries, accumulator.weights)
        arriving: Any = self.incoming.payload

        phase = Signal()  # the bank of sums that weights are added to
        with m.If(self.tick):
            m.d.sync += phase.eq(~phase)
        m.d.comb += [
            receiver.keys.payload.eq(arriving.axon),
            receiver.keys.valid.eq(self.incoming.valid),
            self.incoming.ready.eq(receiver.keys.ready),
            accumulator.phase.eq(phase),
            accumulator.read.eq(sweep.sums),
            accumulator.neuron.eq(sweep.neuron),
            accumulator.clear.eq(sweep.clear),
            accumulator.cleared.eq(sweep.updated),
            sweep.sum.eq(accumulator.sum),
            sweep.start.eq(self.tick),
            sweep.used.eq(self.used),
            self.fired.payload.eq(sweep.spikes.payload),
            self.fired.valid.eq(sweep.spikes.valid & sweep.spikes.ready),
            self.busy.eq(sweep.busy | sender.busy | receiver.busy | accumulator.busy),
        ]
        self._take_words(m, writes, accumulator, sweep)
        m.d.sync += Assert(~(self.tick & self.busy), "core: a tick starts before the last ended")
        return m

    def _take_words(
        self, m: Module, writes: dict[Table, WritePort], accumulator: Accumulator, sweep: Sweep
    ) -> None:
        """Who writes the memories: the load port all of them, and the sweep the potentials.

        With a potential comes a fresh start: what was added up for its neuron is cleared.
        """
        word: Any = self.load.payload
        for table, port in writes.items():
            write: Any = port
            m.d.comb += [
                write.addr.eq(word.address),
                write.data.eq(word.data),
                write.en.eq(self.load.valid & (word.table == table)),
            ]
        with m.If(self.load.valid & (word.table == Table.POTENTIALS)):
            m.d.comb += [accumulator.cleared.eq(word.address), accumulator.clear_both.eq(1)]
        potential: Any = writes[Table.POTENTIALS]
        with m.If(sweep.write.en):
            m.d.comb += [
                potential.addr.eq(sweep.write.addr),
                potential.data.eq(sweep.write.data),
                potential.en.eq(1),
            ]
        with m.If(self.load.valid & (word.table == Table.USED)):
            m.d.sync += self.used.eq(word.data)
        m.d.sync += Assert(
            ~self.load.valid | ~(self.busy | self.tick | self.incoming.valid),
            "core: it is loaded while it works",
        )
