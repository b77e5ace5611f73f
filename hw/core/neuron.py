"""Pipelined update of one neuron per cycle.

Memory access and arithmetic do not fit in one clock cycle: on an ECP5 they took 28 ns, of which the
memories' read ports take 6. `hw.core.arithmetic.update` is the reference implementation.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.core.shape import CoreShape

STAGES = 4
"""Cycles from the inputs of a neuron to its results, while `moves` is 1."""


class NeuronUpdate(wiring.Component):
    """Leak, integrate, compare, reset, in this order, after a stage that registers memory reads.

    moves : all stages advance by one in this cycle; otherwise they wait
    potential : before the tick
    sum : sum of the weights that arrived in the previous tick; one move later than the other inputs
        of the neuron
    parameters : `threshold`, `bias`, `leak`, `subtract` of the neuron
    after, fires : results of the neuron that entered `STAGES` moves before: its potential after the
        tick, and whether it spikes
    """

    moves: Signal
    potential: Signal
    sum: Signal
    parameters: data.View
    after: Signal
    fires: Signal

    def __init__(self, shape: CoreShape) -> None:
        self.shape = shape
        super().__init__(
            {
                "moves": In(1),
                "potential": In(shape.potential),
                "sum": In(shape.sum),
                "parameters": In(shape.neuron),
                "after": Out(shape.potential),
                "fires": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        potential, neuron = self.shape.potential, self.shape.neuron
        read, leaking, charging = (  # parameters per stage
            Signal(neuron, name=name) for name in ("read", "leaking", "charging")
        )
        before = Signal(potential)
        leaked = Signal(potential)  # cannot overflow: a leak moves towards zero
        drive = Signal(signed(max(self.shape.sum_bits, self.shape.potential_bits) + 1))
        charged = Signal(potential)
        rest = Signal(signed(self.shape.potential_bits + 1))
        fires = Signal()
        m.d.comb += [rest.eq(charged - charging.threshold), fires.eq(rest >= 0)]
        with m.If(self.moves):
            m.d.sync += [
                read.eq(self.parameters),
                before.eq(self.potential),
                leaking.eq(read),
                leaked.eq(before - Mux(read.leak == self.shape.no_leak, 0, before >> read.leak)),
                drive.eq(self.sum + read.bias),
                charging.eq(leaking),
                charged.eq(saturated(leaked + drive, potential)),
                self.fires.eq(fires),
                self.after.eq(
                    Mux(fires, Mux(charging.subtract, saturated(rest, potential), 0), charged)
                ),
            ]
        return m


def saturated(value: Value, shape: Shape) -> Value:
    """Return the number of the signed `shape` nearest to `value`."""
    over = value[shape.width - 1 :]  # all equal to the sign if the number fits
    least, most = -(1 << (shape.width - 1)), (1 << (shape.width - 1)) - 1
    fits = over.all() | ~over.any()
    return Mux(fits, value[: shape.width].as_signed(), Mux(value < 0, least, most))
