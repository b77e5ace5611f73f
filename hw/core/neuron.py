"""Pipelined update of one neuron per cycle.

Memory access and arithmetic do not fit in one clock cycle: on an ECP5 they took 28 ns for a neuron
without products, of which the memories' read ports take 6. `hw.core.arithmetic.update` is the
reference implementation.

The two decays are two products per neuron and cycle, so each has a multiplier.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.core.shape import CoreShape

STAGES = 8
"""Cycles from the inputs of a neuron to its results, while `moves` is 1."""


class NeuronUpdate(wiring.Component):
    """Decay, integrate, compare, reset, in this order, after stages that register memory reads.

    moves : all stages advance by one in this cycle; otherwise they wait
    state : before the tick
    sum : sum of the weights that arrived for this tick; one move later than `state`
    parameters : of the neuron, with `state`
    number : the profile of the neuron that entered one move before
    profile : the word of that profile; two moves later than `state`
    after, fires : results of the neuron that entered `STAGES` moves before: its state after the
        tick, and whether it spikes
    """

    moves: Signal
    state: data.View
    sum: Signal
    parameters: data.View
    number: Signal
    profile: data.View
    after: data.View
    fires: Signal

    def __init__(self, shape: CoreShape) -> None:
        self.shape = shape
        super().__init__(
            {
                "moves": In(1),
                "state": In(shape.neuron_state),
                "sum": In(shape.sum),
                "parameters": In(shape.neuron),
                "number": Out(shape.neuron["profile"].shape),
                "profile": In(shape.profile),
                "after": Out(shape.neuron_state),
                "fires": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self.shape
        # Stages: 1 read, 2 and 3 profile read, 4 products, 5 rounding, 6 current, 7 potential;
        # the last stage has the results.
        own = _line(m, self.moves, "parameters", self.parameters, range(1, 8))
        state = _line(m, self.moves, "state", self.state, range(1, 8))
        total = _line(m, self.moves, "sum", self.sum, range(2, 4))
        profile = _line(m, self.moves, "profile", self.profile, range(3, 8))
        m.d.comb += self.number.eq(own[1].profile)

        decay = profile[3]
        current_product, potential_product = (
            Signal(signed(shape.state_bits + shape.decay_bits + 1), name=f"{name}_product")
            for name in ("current", "potential")
        )
        charge = Signal(signed(shape.sum_bits + (1 << shape.shift_bits) - 1))
        kept_current = Signal(shape.state)
        drive = Signal(signed(max(len(charge), shape.state_bits) + 1))
        kept_potential, biased = (
            Signal(signed(shape.state_bits + 1), name=name) for name in ("kept", "biased")
        )
        current, current_too = Signal(shape.state), Signal(shape.state)
        charged = Signal(shape.state)
        with m.If(self.moves):
            m.d.sync += [
                current_product.eq(state[3].current * decay.current_decay),
                potential_product.eq(state[3].potential * decay.potential_decay),
                charge.eq(total[3] << decay.shift),
                kept_current.eq(_rounded(current_product, shape.decay_bits)),
                kept_potential.eq(
                    _rounded(potential_product, shape.decay_bits) + own[4].potential_bias
                ),
                drive.eq(charge + own[4].current_bias),
                current.eq(saturated(kept_current + drive, shape.state)),
                biased.eq(kept_potential),
                charged.eq(saturated(biased + current, shape.state)),
                current_too.eq(current),
            ]

        neuron, shared, waits = own[7], profile[7], state[7].waits
        rest = Signal(signed(shape.state_bits + 1))
        waiting, fires = Signal(), Signal()
        capped = Signal(shape.state)  # the rest after a spike, which is not negative
        m.d.comb += [
            capped.eq(Cat(rest[:-2] | rest[-2].replicate(shape.state_bits - 1), 0)),
            rest.eq(charged - neuron.threshold),
            waiting.eq(waits != 0),
            fires.eq((rest >= 0) & ~waiting & ~shared.silent),
        ]
        with m.If(self.moves):
            m.d.sync += [
                self.fires.eq(fires),
                self.after.current.eq(current_too),
                self.after.potential.eq(
                    Mux(
                        waiting | (fires & ~shared.subtract),
                        neuron.reset,
                        Mux(fires, capped, charged),
                    )
                ),
                self.after.waits.eq(Mux(fires, shared.refractory, waits - waiting)),
            ]
        return m


def _line(m: Module, moves: Signal, name: str, value: Any, stages: range) -> dict[int, Any]:
    """Add registers that hold a value in consecutive stages; return them by stage."""
    found = {}
    with m.If(moves):
        for stage in stages:
            found[stage] = Signal(value.shape(), name=f"{name}_{stage}")
            m.d.sync += found[stage].eq(value)
            value = found[stage]
    return found


def _rounded(product: Value, bits: int) -> Value:
    """Return product / 2^bits, rounded towards zero."""
    return (product >> bits) + ((product < 0) & product[:bits].any())


def saturated(value: Value, shape: Shape) -> Value:
    """Return the number of the signed `shape` nearest to `value`."""
    over = value[shape.width - 1 :]  # all equal to the sign if the number fits
    least, most = -(1 << (shape.width - 1)), (1 << (shape.width - 1)) - 1
    fits = over.all() | ~over.any()
    return Mux(fits, value[: shape.width].as_signed(), Mux(value < 0, least, most))
