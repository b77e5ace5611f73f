"""Sums of the weights that reach each neuron, in two banks that change roles with every tick.

The weights that arrive during a tick are added in one bank, while the sums of the tick before are
read from the other and cleared. Sums wrap modulo 2^bits, so that they do not depend on the order
of the weights; tables are made so that no sum of the network can wrap (hw/tables.py).

Timing: a weight that is taken in cycle t is in its sum from cycle t+4 on: it is taken, its sum
is read, held, and added to, a cycle each. One weight can be taken in every cycle, also for the same
neuron again: the last sum that was written stands in for what was read too early. A sum that is
asked for in cycle t is held in the first cycle with `hold` behind it, and is at `sum` from the next
one until another is held; it may be cleared in t+1 at the earliest.

What a memory reads goes to a register without any logic on its way, of each bank by itself: a read
takes more than half of a cycle, and the memory may be far from all else.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.core.shape import CoreShape, Table
from hw.flow.memories import NO_RW_CHECK
from hw.strobe import strobe


class Accumulator(wiring.Component):
    """Ports of the adding side and of the reading side.

    phase : the bank that is added to; the other is read. It changes only while `busy` is 0.
    weights : (neuron, weight) stream, always ready
    busy : a weight was taken that is not in its sum yet
    read, neuron : ask for the sum of a neuron
    hold : takes what was asked for last; sum : what was taken last
    clear, cleared : set the sum of neuron `cleared` to zero in the bank that is read
    load : a word for a neuron's potential sets its sums to zero in both banks; no weights may come
        meanwhile, and nothing be cleared
    """

    phase: Signal
    weights: stream.Interface
    busy: Signal
    read: Signal
    neuron: Signal
    hold: Signal
    sum: Signal
    clear: Signal
    cleared: Signal
    load: Any

    def __init__(self, shape: CoreShape) -> None:
        self.shape = shape
        bits = unsigned(shape.neuron_bits)
        super().__init__(
            {
                "phase": In(1),
                "weights": In(stream.Signature(shape.synapse, always_ready=True)),
                "busy": Out(1),
                "read": In(1),
                "neuron": In(bits),
                "hold": In(1),
                "sum": Out(shape.sum),
                "clear": In(1),
                "cleared": In(bits),
                "load": In(strobe(shape.load)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        synapse: Any = self.weights.payload
        # A weight in each of the stages: its sum is read, held in a register, added to.
        stages = [Signal(self.shape.synapse, name=f"stage_{n}") for n in range(3)]
        valid = Signal(3)
        reading, holding, adding = stages
        held, added, last, before_last = (
            Signal(self.shape.sum, name=name) for name in ("held", "added", "last", "before_last")
        )
        # What was written last is the sum of the weight ahead; or else what was written before it.
        again, first_again, reads_first = Signal(), Signal(), Signal()
        m.d.sync += [
            valid.eq(Cat(self.weights.valid, valid)),
            reading.eq(synapse),
            holding.eq(reading),
            adding.eq(holding),
            last.eq(added),
            before_last.eq(last),
            reads_first.eq(valid[2] & (reading.neuron == adding.neuron)),
            first_again.eq(reads_first),
            again.eq(valid[2] & (holding.neuron == adding.neuron)),
        ]
        m.d.comb += [
            added.eq(Mux(again, last, Mux(first_again, before_last, held)) + adding.weight),
            self.busy.eq(valid.any()),
        ]

        word = self.load.payload
        clear_both = Signal()
        m.d.comb += clear_both.eq(self.load.valid & (word.table == Table.POTENTIALS))

        read_sums, held_sums = [], []  # of each bank
        for bank in (0, 1):
            memory = Memory(
                shape=self.shape.sum, depth=self.shape.neurons, init=[], attrs=NO_RW_CHECK
            )
            m.submodules[f"bank{bank}"] = memory
            write = memory.write_port()
            read = memory.read_port()
            with m.If(self.phase == bank):
                m.d.comb += [
                    read.addr.eq(reading.neuron),
                    read.en.eq(valid[0]),
                    write.addr.eq(adding.neuron),
                    write.data.eq(added),
                    write.en.eq(valid[2]),
                ]
            with m.Else():
                m.d.comb += [
                    read.addr.eq(self.neuron),
                    read.en.eq(self.read),
                    write.addr.eq(self.cleared),
                    write.en.eq(self.clear),
                ]
            with m.If(clear_both):
                m.d.comb += [write.addr.eq(word.address), write.data.eq(0), write.en.eq(1)]
            read_sum, held_sum = (
                Signal(self.shape.sum, name=f"{name}_{bank}") for name in ("read", "held")
            )
            with m.If(self.hold):
                m.d.sync += read_sum.eq(read.data)
            m.d.sync += held_sum.eq(read.data)
            read_sums.append(read_sum)
            held_sums.append(held_sum)
        m.d.comb += [
            self.sum.eq(Mux(self.phase, read_sums[0], read_sums[1])),
            held.eq(Mux(self.phase, held_sums[1], held_sums[0])),
        ]

        before = Signal()
        m.d.sync += before.eq(self.phase)
        m.d.sync += Assert(~clear_both | ~self.busy, "weights arrive while a core is loaded")
        m.d.sync += Assert(
            (before == self.phase) | ~self.busy, "banks change while a weight is added"
        )
        return m
