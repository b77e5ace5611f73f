"""The sweep of a tick over the neurons of a core.

One neuron enters a cycle. In the first stage its parameters, its potential and its sum are read; in
the second it is updated, its potential is written and its sum is cleared. A neuron that spikes
leaves by `spikes`; when that is not taken, both stages wait.

Timing: a sweep over n neurons takes n + 1 cycles, from the one after `start`, and one more for
every cycle in which a spike waits.

State: the next neuron to enter and whether there is one; the neuron in the second stage and
whether there is one.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import ReadPort, WritePort
from amaranth.lib.wiring import In, Out

from hw.neuron import NeuronUpdate
from hw.shape import CoreShape


class Sweep(wiring.Component):
    """Ports: beside those of the memories,

    start : begins a sweep; 1 for one cycle in which `busy` is 0
    used : neurons to sweep over, 0 .. shape.neurons
    sum : of the neuron that `sums` asked for last
    sums, neuron : ask for the sum of a neuron
    clear, updated : set the sum of a neuron to zero
    spikes : stream of neurons that spike
    busy : a sweep is under way
    """

    start: Signal
    used: Signal
    parameters: ReadPort
    potentials: ReadPort
    write: WritePort
    sums: Signal
    neuron: Signal
    sum: Signal
    clear: Signal
    updated: Signal
    spikes: stream.Interface
    busy: Signal

    def __init__(self, shape: CoreShape) -> None:
        self.shape = shape
        bits = shape.neuron_bits
        super().__init__(
            {
                "start": In(1),
                "used": In(bits + 1),
                "parameters": In(ReadPort.Signature(addr_width=bits, shape=shape.neuron)),
                "potentials": In(ReadPort.Signature(addr_width=bits, shape=shape.potential)),
                "write": In(WritePort.Signature(addr_width=bits, shape=shape.potential)),
                "sums": Out(1),
                "neuron": Out(bits),
                "sum": In(shape.sum),
                "clear": Out(1),
                "updated": Out(bits),
                "spikes": Out(stream.Signature(bits)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.update = update = NeuronUpdate(self.shape)
        entering, staged, moves = Signal(), Signal(), Signal()
        reads, ends = Signal(), Signal()
        m.d.comb += [
            update.potential.eq(self.potentials.data),
            update.parameters.eq(self.parameters.data),
            update.sum.eq(self.sum),
            self.spikes.payload.eq(self.updated),
            self.spikes.valid.eq(staged & update.fires),
            moves.eq(~self.spikes.valid | self.spikes.ready),
            reads.eq(entering & moves),
            self.parameters.addr.eq(self.neuron),
            self.parameters.en.eq(reads),
            self.potentials.addr.eq(self.neuron),
            self.potentials.en.eq(reads),
            self.sums.eq(reads),
            ends.eq(staged & moves),
            self.write.addr.eq(self.updated),
            self.write.data.eq(update.after),
            self.write.en.eq(ends),
            self.clear.eq(ends),
            self.busy.eq(entering | staged),
        ]
        with m.If(moves):
            m.d.sync += [staged.eq(entering), self.updated.eq(self.neuron)]
        with m.If(reads):
            m.d.sync += self.neuron.eq(self.neuron + 1)
            with m.If(self.neuron + 1 == self.used):
                m.d.sync += entering.eq(0)
        with m.If(self.start):
            m.d.sync += [entering.eq(self.used != 0), self.neuron.eq(0)]
        m.d.sync += Assert(~(self.start & self.busy), "core: a tick starts before the last ended")
        m.d.sync += Assert(self.used <= self.shape.neurons, "core: more neurons than it has")
        return m
