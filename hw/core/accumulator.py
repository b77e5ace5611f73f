"""Sums of the weights that reach each neuron, in a ring of slots: one slot per tick.

A weight with delay d that arrives during tick t is added in slot t+1+d, modulo the number of slots.
The sweep of tick t reads slot t, which no weight reaches: the longest delay is two ticks less than
the number of slots.

No slot is ever cleared, because a memory has one write port, and an addition may need it in every
cycle. Instead each sum has a total, which only grows by the weights, and a mark: the total at the
last sweep of the slot. The sum is the total less the mark. Only additions write totals, only the
sweep writes marks. All wrap modulo 2^bits, so a sum depends neither on the order of the weights nor
on wrapped totals; tables are built so that no sum of the network can wrap (hw/tables.py).

Timing: a weight that is accepted in cycle t is in its total from cycle t+5 on: it is accepted, its
total is read, held, added to, and written, one cycle each. One weight is accepted per cycle, even
for the same neuron: recent totals are forwarded in place of stale reads. A sum requested in cycle t
is captured in the first later cycle with `hold`, and stays at `sum` from the next cycle until
another is captured. Its mark is written in that next cycle.

A memory access takes most of a cycle: read data goes to a register without any logic, and write
data comes from registers.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.core.shape import CoreShape, DestinationTable
from hw.flow.memories import BLOCK_RAM
from hw.strobe import strobe


class Accumulator(wiring.Component):
    """Accumulator with a port for adding and a port for reading.

    slot : the slot that is read. It changes only while `busy` is 0.
    weights : synapses, always ready; the neuron of each is relative to `base`
    base : of the synapse in `weights`
    busy : an accepted weight has not reached the write register; sums may be requested from the
        second cycle without it
    read, neuron : request the sum of a neuron
    hold : captures the last requested sum
    sum : the last captured sum
    load : a word for a sum replaces it; meanwhile weights must not arrive and sums must not be read
    """

    slot: Signal
    weights: stream.Interface
    base: Signal
    busy: Signal
    read: Signal
    neuron: Signal
    hold: Signal
    sum: Signal
    load: Any

    def __init__(self, shape: CoreShape) -> None:
        self.shape = shape
        bits = unsigned(shape.neuron_bits)
        super().__init__(
            {
                "slot": In(shape.slot_bits),
                "weights": In(stream.Signature(shape.synapse, always_ready=True)),
                "base": In(bits),
                "busy": Out(1),
                "read": In(1),
                "neuron": In(bits),
                "hold": In(1),
                "sum": Out(shape.sum),
                "load": In(strobe(shape.load)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape, synapse = self.shape, self.weights.payload
        address = unsigned(shape.slot_bits + shape.neuron_bits)
        # A weight in each stage: its total is read, held, added to, written.
        layout = data.StructLayout({"address": address, "weight": shape.synapse["weight"].shape})
        stages = [Signal(layout, name=f"stage_{n}") for n in range(4)]
        valid = Signal(4)
        reading, holding, adding, writing = stages
        held, added, last, before_last, earlier = (
            Signal(shape.sum, name=name)
            for name in ("held", "added", "last", "before_last", "earlier")
        )
        # Operand: the total of the weight ahead, of the two before it, or the word read.
        again, second_again, third_again, earlier_again = (
            Signal(name=f"{name}again") for name in ("", "second_", "third_", "earlier_")
        )
        neuron, slot = Signal(shape.neuron_bits), Signal(shape.slot_bits)
        m.d.comb += [neuron.eq(self.base + synapse.neuron), slot.eq(self.slot + 1 + synapse.delay)]
        m.d.sync += [
            valid.eq(Cat(self.weights.valid, valid)),
            reading.address.eq(Cat(neuron, slot)),
            reading.weight.eq(synapse.weight),
            *(stage.eq(ahead) for stage, ahead in zip(stages[1:], stages, strict=False)),
            last.eq(added),
            before_last.eq(last),
            second_again.eq(valid[2] & (reading.address == adding.address)),
            third_again.eq(valid[3] & (reading.address == writing.address)),
            earlier.eq(Mux(second_again, last, before_last)),
            earlier_again.eq(second_again | third_again),
            again.eq(valid[2] & (holding.address == adding.address)),
        ]
        m.d.comb += [
            added.eq(Mux(again, last, Mux(earlier_again, earlier, held)) + adding.weight),
            self.busy.eq(valid[:3].any()),
        ]

        word, loads = self.load.payload, Signal()
        m.d.comb += loads.eq(self.load.valid & (word.table == DestinationTable.SUMS))
        with m.If(loads):
            m.d.sync += last.eq(word.data)
        write_address, writes = Signal(address), Signal()
        m.d.sync += [
            write_address.eq(Mux(loads, word.address, adding.address)),
            writes.eq(valid[2] | loads),
        ]

        def totals(name: str) -> Any:
            """Add a copy of the totals; return its read port."""
            copy = Memory(shape=shape.sum, depth=1 << address.width, init=[], attrs=BLOCK_RAM)
            m.submodules[name] = copy
            write: Any = copy.write_port()
            m.d.comb += [write.addr.eq(write_address), write.data.eq(last), write.en.eq(writes)]
            return copy.read_port()

        added_to = totals("totals")
        m.d.comb += [added_to.addr.eq(reading.address), added_to.en.eq(valid[0])]
        m.d.sync += held.eq(added_to.data)
        self._sweep(m, totals("swept_totals"), loads)

        before = Signal(shape.slot_bits)
        m.d.sync += before.eq(self.slot)
        m.d.sync += Assert(~loads | ~self.busy, "weights arrive while a core is loaded")
        m.d.sync += Assert(
            (before == self.slot) | ~self.busy, "slots advance while a weight is added"
        )
        m.d.sync += Assert(
            ~valid[0] | (reading.address[shape.neuron_bits :] != self.slot),
            "a weight is added to the slot that is read",
        )
        return m

    def _sweep(self, m: Module, total: Any, loads: Signal) -> None:
        """Read totals and marks; write marks. total : read port of a copy of the totals."""
        shape, word = self.shape, self.load.payload
        m.submodules.marks = memory = Memory(
            shape=shape.sum, depth=shape.delay_slots * shape.neurons, init=[], attrs=BLOCK_RAM
        )
        mark: Any = memory.read_port()
        write: Any = memory.write_port()
        address = Cat(self.neuron, self.slot)
        asked, waits = Signal(len(address)), Signal()  # of the request that is not captured
        swept_total, swept_mark = (
            Signal(shape.sum, name=name) for name in ("swept_total", "swept_mark")
        )
        marked, marking = Signal(len(address)), Signal()
        m.d.comb += [
            total.addr.eq(address),
            total.en.eq(self.read),
            mark.addr.eq(address),
            mark.en.eq(self.read),
            self.sum.eq(swept_total - swept_mark),
            write.addr.eq(Mux(loads, word.address, marked)),
            write.data.eq(Mux(loads, 0, swept_total)),
            write.en.eq(marking | loads),
        ]
        m.d.sync += marking.eq(waits & self.hold)
        with m.If(self.hold):
            m.d.sync += [
                swept_total.eq(total.data),
                swept_mark.eq(mark.data),
                marked.eq(asked),
                waits.eq(0),
            ]
        with m.If(self.read):
            m.d.sync += [asked.eq(address), waits.eq(1)]
