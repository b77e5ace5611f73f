"""A network of integrate-and-fire neurons with integer parameters, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.core.shape import CoreShape
from hw.errors import HwError, check_count

Int64Array = NDArray[np.int64]
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
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        size = self.source.shape
        if not size == self.target.shape == self.weight.shape or len(size) != 1:
            raise HwError(
                f"network: {self.source.shape} sources, {self.target.shape} targets, "
                f"{self.weight.shape} weights; give one of each per synapse"
            )
        for name in _PER_NEURON:
            value = getattr(self, name)
            if name == "leak" and value is None:
                continue
            value = _whole(name, value)
            if value.shape not in ((), (self.neurons,)):
                raise HwError(
                    f"network: {name} has shape {value.shape}; give one number, or one for each of "
                    f"the {self.neurons} neurons"
                )
            object.__setattr__(self, name, np.broadcast_to(value, self.neurons))
        for name, end in (("source", self.neurons + self.inputs), ("target", self.neurons)):
            ids = getattr(self, name)
            wrong = np.flatnonzero((ids < 0) | (ids >= end))
            if wrong.size:
                raise HwError(
                    f"network: {name} of synapse {wrong[0]} is {ids[wrong[0]]}; "
                    f"give ids from 0 to {end - 1}"
                )

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
            self._require(name, -half, half - 1, potentials)
        if self.leak is not None:
            words = f"{shape.leak_bits}-bit leaks, whose last value means no leak"
            self._require("leak", NO_LEAK, shape.no_leak - 1, words)
        self._require("subtract", 0, 1, "a bit")
        half = 1 << (shape.weight_bits - 1)
        wrong = np.flatnonzero((self.weight < -half) | (self.weight >= half))
        if wrong.size:
            first = wrong[0]
            raise HwError(
                f"network: weight {self.weight[first]} of the synapse from {self.source[first]} to "
                f"{self.target[first]} is outside {-half}..{half - 1}, the {shape.weight_bits}-bit "
                f"weights of a core ({wrong.size} such); scale the weights, or widen weight_bits"
            )
        half = 1 << (shape.sum_bits - 1)
        for bound, part in (
            (-half, np.minimum(self.weight, 0)),
            (half - 1, np.maximum(self.weight, 0)),
        ):
            total = np.zeros(self.neurons, np.int64)
            np.add.at(total, self.target, part)
            worst = int(np.abs(total).argmax())
            if abs(total[worst]) > abs(bound):
                raise HwError(
                    f"network: weights on neuron {worst} add up to {total[worst]} at worst, beyond "
                    f"{bound}, the limit of the {shape.sum_bits}-bit sums of a core; widen sum_bits"
                )

    def _require(self, name: str, least: int, most: int, words: str) -> None:
        values = getattr(self, name)
        wrong = np.flatnonzero((values < least) | (values > most))
        if wrong.size:
            raise HwError(
                f"network: {name} {values[wrong[0]]} of neuron {wrong[0]} is outside "
                f"{least}..{most}, the {words} of a core ({wrong.size} such)"
            )


def check_inputs(inputs: Sequence[Sequence[int]], known: int, ticks: int) -> list[list[int]]:
    """Return the inputs that spike before each of `ticks` ticks; missing ticks have none.

    Raises `HwError` if there are more lists than ticks, or inputs outside 0 .. known-1.
    """
    if len(inputs) > ticks:
        raise HwError(
            f"inputs for {len(inputs)} ticks, but the run has {ticks}; give at most {ticks}"
        )
    events = [[int(one) for one in told] for told in inputs]
    for tick, told in enumerate(events):
        for one in told:
            if not 0 <= one < known:
                raise HwError(
                    f"input {one} spikes before tick {tick}; the network has {known} inputs, "
                    "numbered from 0"
                )
    return events + [[]] * (ticks - len(events))


def _whole(name: str, values: Any) -> Int64Array:
    """Return `values` as int64; raise `HwError` if they are not whole numbers."""
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype != bool and not np.issubdtype(array.dtype, np.integer):
        raise HwError(f"network: {name} are {array.dtype}; cores compute with whole numbers")
    return array.astype(np.int64)
