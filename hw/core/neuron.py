"""One tick of one neuron, as logic without state. `hw.core.arithmetic.update` is its twin."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.core.shape import CoreShape


class NeuronUpdate(wiring.Component):
    """Leak, integrate, compare, reset: in this order.

    potential, sum : before the tick, and of the weights that arrived in the tick before
    parameters : `threshold`, `bias`, `leak`, `subtract` of the neuron
    after, fires : potential after the tick, and whether the neuron spikes in it
    """

    potential: Signal
    sum: Signal
    parameters: data.View
    after: Signal
    fires: Signal

    def __init__(self, shape: CoreShape) -> None:
        self.shape = shape
        super().__init__(
            {
                "potential": In(shape.potential),
                "sum": In(shape.sum),
                "parameters": In(shape.neuron),
                "after": Out(shape.potential),
                "fires": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        about: Any = self.parameters
        leaked = Signal(self.shape.potential)  # cannot overflow: a leak moves towards zero
        charged = Signal(self.shape.potential)
        m.d.comb += [
            leaked.eq(
                Mux(
                    about.leak == self.shape.no_leak,
                    self.potential,
                    self.potential - (self.potential >> about.leak),
                )
            ),
            charged.eq(saturated(leaked + self.sum + about.bias, self.shape.potential)),
            self.fires.eq(charged >= about.threshold),
            self.after.eq(charged),
        ]
        with m.If(self.fires):
            m.d.comb += self.after.eq(
                Mux(about.subtract, saturated(charged - about.threshold, self.shape.potential), 0)
            )
        return m


def saturated(value: Value, shape: Shape) -> Value:
    """The number of the signed `shape` that is nearest to `value`."""
    least, most = -(1 << (shape.width - 1)), (1 << (shape.width - 1)) - 1
    return Mux(value > most, most, Mux(value < least, least, value))
