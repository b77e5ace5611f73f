"""A network of spiking neurons with integer parameters, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.cuba.shape import CoreShape
from hw.errors import HwError, check_count

Int64Array = NDArray[np.int64]
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
        per tick, times 2^decay_bits; None for all neurons: no current, and no leak
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
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        size = self.source.shape
        if not size == self.target.shape == self.weight.shape or len(size) != 1:
            raise HwError(
                f"network: {self.source.shape} sources, {self.target.shape} targets, "
                f"{self.weight.shape} weights; give one of each per synapse"
            )
        self._spread("delay", size[0], "synapses")
        for name in (*DYNAMICS, *VALUES, *STATE):
            if name != "potential_decay" or self.potential_decay is not None:
                self._spread(name, self.neurons, "neurons")
        for name, end in (("source", self.neurons + self.inputs), ("target", self.neurons)):
            ids = getattr(self, name)
            wrong = np.flatnonzero((ids < 0) | (ids >= end))
            if wrong.size:
                raise HwError(
                    f"network: {name} of synapse {wrong[0]} is {ids[wrong[0]]}; "
                    f"give ids from 0 to {end - 1}"
                )

    def _spread(self, name: str, count: int, of: str) -> None:
        """Make a parameter an array of `count` whole numbers."""
        value = _whole(name, getattr(self, name))
        if value.shape not in ((), (count,)):
            raise HwError(
                f"network: {name} has shape {value.shape}; give one number, or one for each of "
                f"the {count} {of}"
            )
        object.__setattr__(self, name, np.broadcast_to(value, count))

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
        for name in (*VALUES, "current", "potential"):
            self._require(name, -half, half - 1, f"{shape.state_bits}-bit states")
        decays = f"decays with {shape.decay_bits} fraction bits"
        self._require("current_decay", 0, shape.unity, decays)
        if self.potential_decay is not None:
            self._require("potential_decay", 0, shape.unity, decays)
        self._require("shift", 0, (1 << shape.shift_bits) - 1, f"{shape.shift_bits}-bit shifts")
        ticks = f"{shape.refractory_bits}-bit refractory ticks"
        for name in ("refractory", "waits"):
            self._require(name, 0, (1 << shape.refractory_bits) - 1, ticks)
        for name in ("subtract", "silent"):
            self._require(name, 0, 1, "a bit")
        self._require_weights(shape)
        wrong = np.flatnonzero((self.delay < 0) | (self.delay > shape.longest_delay))
        if wrong.size:
            first = wrong[0]
            raise HwError(
                f"network: delay {self.delay[first]} of the synapse from {self.source[first]} to "
                f"{self.target[first]} is outside 0..{shape.longest_delay}, the delays of a core "
                f"with {shape.delay_slots} delay slots ({wrong.size} such); use more delay_slots"
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

    def _require_weights(self, shape: CoreShape) -> None:
        half = 1 << (shape.weight_bits - 1)
        wrong = np.flatnonzero((self.weight < -half) | (self.weight >= half))
        if wrong.size:
            first = wrong[0]
            raise HwError(
                f"network: weight {self.weight[first]} of the synapse from {self.source[first]} to "
                f"{self.target[first]} is outside {-half}..{half - 1}, the {shape.weight_bits}-bit "
                f"weights of a core ({wrong.size} such); scale the weights, or widen weight_bits"
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
