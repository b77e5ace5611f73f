"""A network of integrate-and-fire neurons with integer parameters, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hw.core.shape import CoreShape
from hw.errors import check_count
from hw.integers import (
    Int64Array,
    require_range,
    require_sums,
    require_synapses,
    require_weights,
    spread,
    whole,
)

NO_LEAK = -1  # value for no leak instead of a shift
_PER_NEURON = ("threshold", "leak", "bias", "subtract", "potential")
_PER_SYNAPSE = ("source", "target", "weight")


@dataclass(frozen=True, slots=True, eq=False)
class SpikingNetwork:
    """Neurons 0 .. neurons-1, followed by inputs in the numbering.

    neurons : number of neurons
    source, target, weight : ndarray[int64], shape (synapses,). A source is a neuron or an input, a
        target is a neuron. Synapses of the same pair add up.
    threshold : ndarray[int64], shape (neurons,), potential from which on a neuron spikes
    leak : shift of a neuron's leak: in every tick it loses potential / 2^leak, so 0 clears the
        potential; -1, or None for all neurons, means no leak
    bias : added in every tick
    subtract : 1 if a spike subtracts the threshold from the potential, 0 if it resets it to zero
    potential : potential before the first tick
    inputs : number of sources that spike under external control

    A parameter of neurons is an array, or one number for all. Raises `HwError` for arrays of other
    shapes or types, and for ids that do not exist.
    """

    neurons: int
    source: Int64Array
    target: Int64Array
    weight: Int64Array
    threshold: Int64Array
    leak: Int64Array | None = None
    bias: Int64Array = 0  # type: ignore[assignment]
    subtract: Int64Array = 0  # type: ignore[assignment]
    potential: Int64Array = 0  # type: ignore[assignment]
    inputs: int = 0

    def __post_init__(self) -> None:
        check_count("network: neurons", self.neurons)
        check_count("network: inputs", self.inputs, 0)
        for name in _PER_SYNAPSE:
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        for name in _PER_NEURON:
            value = getattr(self, name)
            if name != "leak" or value is not None:
                object.__setattr__(self, name, spread(name, value, self.neurons))
        require_synapses(self.source, self.target, self.weight, self.neurons, self.inputs)

    def leaks(self, shape: CoreShape) -> Int64Array:
        """Return the leaks in the encoding of a core of this shape, shape (neurons,)."""
        if self.leak is None:
            return np.full(self.neurons, shape.no_leak)
        return np.where(self.leak == NO_LEAK, shape.no_leak, self.leak)

    def require_fit(self, shape: CoreShape) -> None:
        """Raise `HwError` naming the first number that does not fit in a core's words.

        It also raises if a neuron's weights could exceed the sums of a core, assuming that every
        source spikes at most once per tick.
        """
        half = 1 << (shape.potential_bits - 1)
        potentials = f"{shape.potential_bits}-bit potentials"
        for name in ("threshold", "bias", "potential"):
            require_range(name, getattr(self, name), -half, half - 1, potentials)
        if self.leak is not None:
            words = f"{shape.leak_bits}-bit leaks, whose last value means no leak"
            require_range("leak", self.leak, NO_LEAK, shape.no_leak - 1, words)
        require_range("subtract", self.subtract, 0, 1, "a bit")
        require_weights(self.source, self.target, self.weight, shape.weight_bits)
        require_sums(self.target, self.weight, self.neurons, shape.sum_bits)
