"""Sums of the weights that reach each neuron, in two banks that swap roles every tick.

The weights that arrive during a tick are added in one bank, while the sums of the previous tick are
read from the other bank and cleared. Sums wrap modulo 2^bits, so they do not depend on the order of
the weights; tables are built so that no sum of the network can wrap (hw/tables.py).

Timing: a weight that is accepted in cycle t is in its sum from cycle t+5 on: it is accepted, its
sum is read, held, added to, and written, one cycle each. One weight is accepted per cycle, even for
the same neuron: recent sums are forwarded in place of stale reads. A sum requested in cycle t is
captured in the first later cycle with `hold`, and stays at `sum` from the next cycle until another
is captured. It may be cleared in t+1 at the earliest, and reads as zero two cycles later.

A memory access takes most of a cycle: read data goes to a register of its bank without any logic,
and write data comes from registers.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.core.shape import CoreShape, DestinationTable
from hw.flow.memories import NO_RW_CHECK
from hw.strobe import strobe


class Accumulator(wiring.Component):
    """Accumulator with a port for adding and a port for reading.

    phase : the bank for adding; the other is read. It changes only while `busy` is 0.
    weights : (neuron, weight) stream, always ready
    busy : an accepted weight has not reached the write register; sums may be requested from the
        second cycle without it
    read, neuron : request the sum of a neuron
    hold : captures the last requested sum
    sum : the last captured sum
    clear, cleared : set the sum of neuron `cleared` to zero in the bank that is read
    load : a word for a neuron's potential clears its sums in both banks; meanwhile weights must not
        arrive and sums must not be cleared
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
        # A weight in each stage: its sum is read, held, added to, written.
        stages = [Signal(self.shape.synapse, name=f"stage_{n}") for n in range(4)]
        valid = Signal(4)
        reading, holding, adding, writing = stages
        held, added, last, before_last, earlier = (
            Signal(self.shape.sum, name=name)
            for name in ("held", "added", "last", "before_last", "earlier")
        )
        # Operand: the sum of the weight ahead, of the two before it, or the word read.
        again, second_again, third_again, earlier_again = (
            Signal(name=f"{name}again") for name in ("", "second_", "third_", "earlier_")
        )
        m.d.sync += [
            valid.eq(Cat(self.weights.valid, valid)),
            *(stage.eq(ahead) for stage, ahead in zip(stages, [synapse, *stages], strict=False)),
            last.eq(added),
            before_last.eq(last),
            second_again.eq(valid[2] & (reading.neuron == adding.neuron)),
            third_again.eq(valid[3] & (reading.neuron == writing.neuron)),
            earlier.eq(Mux(second_again, last, before_last)),
            earlier_again.eq(second_again | third_again),
            again.eq(valid[2] & (holding.neuron == adding.neuron)),
        ]
        m.d.comb += [
            added.eq(Mux(again, last, Mux(earlier_again, earlier, held)) + adding.weight),
            self.busy.eq(valid[:3].any()),
        ]

        word = self.load.payload
        clear_both = Signal()
        m.d.comb += clear_both.eq(self.load.valid & (word.table == DestinationTable.POTENTIALS))

        read_sums, held_sums = [], []  # per bank
        for bank in (0, 1):
            memory = Memory(
                shape=self.shape.sum, depth=self.shape.neurons, init=[], attrs=NO_RW_CHECK
            )
            m.submodules[f"bank{bank}"] = memory
            write: Any = memory.write_port()
            read: Any = memory.read_port()
            adds, zero = Signal(name=f"adds_{bank}"), Signal(name=f"zero_{bank}")
            read_sum, held_sum = (
                Signal(self.shape.sum, name=f"{name}_{bank}") for name in ("read", "held")
            )
            m.d.comb += [
                adds.eq(self.phase == bank),
                read.addr.eq(Mux(adds, reading.neuron, self.neuron)),
                read.en.eq(Mux(adds, valid[0], self.read)),
                write.data.eq(Mux(zero, 0, last)),
            ]
            m.d.sync += [
                write.addr.eq(
                    Mux(clear_both, word.address, Mux(adds, adding.neuron, self.cleared))
                ),
                write.en.eq(Mux(adds, valid[2], self.clear) | clear_both),
                zero.eq(~adds | clear_both),
                held_sum.eq(read.data),
            ]
            with m.If(self.hold):
                m.d.sync += read_sum.eq(read.data)
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
