"""A network of spiking neurons with integer parameters, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hw.core.shape import CoreShape
from hw.errors import HwError, check_count
from hw.integers import (
    Int64Array,
    require_range,
    require_sums,
    require_synapses,
    require_weights,
    spread,
    whole,
)

DYNAMICS = (
    "current_decay", "potential_decay", "shift", "refractory", "subtract", "silent",
)  # fmt: skip
"""Parameters that neurons of a core share: the fields of a profile."""
VALUES = ("threshold", "reset", "current_bias", "potential_bias")
"""Parameters that each neuron has for itself."""
STATE = ("current", "potential", "waits")
"""State before the first tick."""
_PER_SYNAPSE = ("source", "target", "weight")


@dataclass(frozen=True, slots=True, eq=False)
class SpikingNetwork:
    """Neurons 0 .. neurons-1, followed by inputs in the numbering.

    neurons : number of neurons
    source, target, weight : ndarray[int64], shape (synapses,). A source is a neuron or an input, a
        target is a neuron. Synapses of the same pair add up.
    threshold : ndarray[int64], shape (neurons,), potential from which on a neuron spikes
    delay : ticks by which a synapse is later than one without a delay
    reset : potential after a spike, and in refractory ticks
    current_decay, potential_decay : part of the current and of the potential that a neuron keeps
        per tick, times 2^decay_bits; by default a neuron keeps no current, and with None all of its
        potential
    current_bias, potential_bias : added in every tick
    shift : sums of weights are multiplied by 2^shift
    refractory : ticks after a spike in which the potential stays at `reset`
    subtract : 1 if a spike subtracts the threshold from the potential instead of resetting it
    silent : 1 if a neuron never spikes
    current, potential, waits : before the first tick; `waits` refractory ticks are left
    inputs : number of sources that spike under external control

    A parameter of neurons is an array, or one number for all; so is `delay` for synapses. Raises
    `HwError` for arrays of other shapes or types, and for ids that do not exist.
    """

    neurons: int
    source: Int64Array
    target: Int64Array
    weight: Int64Array
    threshold: Int64Array
    delay: Int64Array = 0  # type: ignore[assignment]
    reset: Int64Array = 0  # type: ignore[assignment]
    current_decay: Int64Array = 0  # type: ignore[assignment]
    potential_decay: Int64Array | None = None
    current_bias: Int64Array = 0  # type: ignore[assignment]
    potential_bias: Int64Array = 0  # type: ignore[assignment]
    shift: Int64Array = 0  # type: ignore[assignment]
    refractory: Int64Array = 0  # type: ignore[assignment]
    subtract: Int64Array = 0  # type: ignore[assignment]
    silent: Int64Array = 0  # type: ignore[assignment]
    current: Int64Array = 0  # type: ignore[assignment]
    potential: Int64Array = 0  # type: ignore[assignment]
    waits: Int64Array = 0  # type: ignore[assignment]
    inputs: int = 0

    def __post_init__(self) -> None:
        check_count("network: neurons", self.neurons)
        check_count("network: inputs", self.inputs, 0)
        for name in _PER_SYNAPSE:
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        object.__setattr__(self, "delay", spread("delay", self.delay, self.source.size, "synapses"))
        for name in (*DYNAMICS, *VALUES, *STATE):
            value = getattr(self, name)
            if name != "potential_decay" or value is not None:
                object.__setattr__(self, name, spread(name, value, self.neurons))
        require_synapses(self.source, self.target, self.weight, self.neurons, self.inputs)

    def dynamics(self, shape: CoreShape) -> Int64Array:
        """Return the parameters named `DYNAMICS` of each neuron, shape (neurons, 6)."""
        kept = self.potential_decay
        if kept is None:
            kept = np.full(self.neurons, shape.unity)
        columns = [kept if n == "potential_decay" else getattr(self, n) for n in DYNAMICS]
        return np.column_stack(columns)

    def require_fit(self, shape: CoreShape) -> None:
        """Raise `HwError` naming the first number that does not fit in a core's words.

        It also raises if a neuron's weights could exceed the sums of a core, assuming that every
        source spikes at most once per tick.
        """
        half = 1 << (shape.state_bits - 1)
        decays = f"decays with {shape.decay_bits} fraction bits"
        ticks = (1 << shape.refractory_bits) - 1, f"{shape.refractory_bits}-bit refractory ticks"
        for name in (*VALUES, "current", "potential"):
            words = f"{shape.state_bits}-bit states"
            require_range(name, getattr(self, name), -half, half - 1, words)
        require_range("current_decay", self.current_decay, 0, shape.unity, decays)
        if self.potential_decay is not None:
            require_range("potential_decay", self.potential_decay, 0, shape.unity, decays)
        most = (1 << shape.shift_bits) - 1
        require_range("shift", self.shift, 0, most, f"{shape.shift_bits}-bit shifts")
        require_range("refractory", self.refractory, 0, *ticks)
        require_range("waits", self.waits, 0, *ticks)
        require_range("subtract", self.subtract, 0, 1, "a bit")
        require_range("silent", self.silent, 0, 1, "a bit")
        require_weights(self.source, self.target, self.weight, shape.weight_bits)
        wrong = np.flatnonzero((self.delay < 0) | (self.delay > shape.longest_delay))
        if wrong.size:
            first = wrong[0]
            raise HwError(
                f"network: delay {self.delay[first]} of the synapse from {self.source[first]} to "
                f"{self.target[first]} is outside 0..{shape.longest_delay}, the delays of a core "
                f"with {shape.delay_slots} delay slots ({wrong.size} such); use more delay_slots"
            )
        require_sums(self.target, self.weight, self.neurons, shape.sum_bits)
