"""The sweep of a tick over the neurons of a core.

One neuron enters per cycle. The first stage reads its parameters, state and sum; the update takes
`hw.core.neuron.STAGES` cycles, and reads the profile of the neuron; the last stage writes its
state. A neuron that spikes leaves through `spikes`; while that is not accepted, all stages stall.

Timing: a sweep over n neurons takes n + LATENCY cycles, from the cycle after `start`, plus one for
every cycle in which a spike waits.

State: the three memories, and the number of neurons in use; the next neuron to enter and whether
there is one; for each stage after the first whether it holds a neuron, and the neuron in the last.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.core.loaded import Memories, loaded_memory
from hw.core.neuron import STAGES, NeuronUpdate
from hw.core.shape import CoreShape, DestinationTable
from hw.flow.memories import BLOCK_RAM
from hw.strobe import strobe

LATENCY = STAGES + 1
"""Cycles from the read of a neuron to its write."""


class Sweep(wiring.Component):
    """Sweep unit.

    start : begins a sweep; 1 for one cycle in which `busy` is 0
    sums, neuron : request the sum of a neuron
    hold : captures the last requested sum
    sum : the last captured sum
    spikes : stream of neurons that spike
    busy : a sweep is in progress
    load : words for the memories of parameters, states and profiles, and the number of neurons in
        use

    used : the register with that number
    """

    start: Signal
    sums: Signal
    neuron: Signal
    hold: Signal
    sum: Signal
    spikes: stream.Interface
    busy: Signal
    load: Any

    def __init__(self, shape: CoreShape, memories: Memories, used: Signal) -> None:
        self.shape, self.memories, self.used = shape, memories, used
        bits = shape.neuron_bits
        super().__init__(
            {
                "start": In(1),
                "sums": Out(1),
                "neuron": Out(bits),
                "hold": Out(1),
                "sum": In(shape.sum),
                "spikes": Out(stream.Signature(bits)),
                "busy": Out(1),
                "load": In(strobe(shape.load)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parameters: Any = loaded_memory(m, self.memories, DestinationTable.NEURONS, self.load)
        profiles: Any = loaded_memory(m, self.memories, DestinationTable.PROFILES, self.load)
        m.submodules.states = memory = Memory(
            self.memories[DestinationTable.STATES], attrs=BLOCK_RAM
        )
        states: Any = memory.read_port()
        write: Any = memory.write_port()
        word = self.load.payload
        takes, updated = Signal(), Signal(self.shape.neuron_bits)
        m.d.comb += takes.eq(self.load.valid & (word.table == DestinationTable.STATES))
        with m.If(self.load.valid & (word.table == DestinationTable.USED)):
            m.d.sync += self.used.eq(word.data)

        m.submodules.update = update = NeuronUpdate(self.shape)
        entering, moves, reads, ends = Signal(), Signal(), Signal(), Signal()
        stages = Signal(LATENCY)  # which stages after the first hold a neuron
        m.d.comb += [
            update.moves.eq(moves),
            update.state.eq(states.data),
            update.parameters.eq(parameters.data),
            update.sum.eq(self.sum),
            update.profile.eq(profiles.data),
            profiles.addr.eq(update.number),
            profiles.en.eq(moves),
            self.spikes.payload.eq(updated),
            self.spikes.valid.eq(stages[-1] & update.fires),
            moves.eq(~self.spikes.valid | self.spikes.ready),
            reads.eq(entering & moves),
            parameters.addr.eq(self.neuron),
            parameters.en.eq(reads),
            states.addr.eq(self.neuron),
            states.en.eq(reads),
            self.sums.eq(reads),
            self.hold.eq(moves),
            ends.eq(stages[-1] & moves),
            write.addr.eq(Mux(takes, word.address, updated)),
            write.data.eq(Mux(takes, word.data, update.after)),
            write.en.eq(ends | takes),
            self.busy.eq(entering | stages.any()),
        ]
        with m.If(moves):
            m.d.sync += stages.eq(Cat(entering, stages))
        with m.If(ends):
            m.d.sync += updated.eq(updated + 1)
        with m.If(reads):
            m.d.sync += self.neuron.eq(self.neuron + 1)
            with m.If(self.neuron + 1 == self.used):
                m.d.sync += entering.eq(0)
        with m.If(self.start):
            m.d.sync += [entering.eq(self.used != 0), self.neuron.eq(0), updated.eq(0)]
        m.d.sync += Assert(self.used <= self.shape.neurons, "core: more neurons than it has")
        return m
