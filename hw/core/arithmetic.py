"""Reference arithmetic of cores with currents and delays, on numpy arrays.

In each tick a neuron computes::

    current   = saturate(decayed(current) + (sum << shift) + current_bias)
    charged   = saturate(decayed(potential) + current + potential_bias)
    fires     = charged >= threshold, unless it is silent or waits
    potential = reset while it waits; after a spike reset, or saturate(charged - threshold) with
                `subtract`; otherwise charged

A spike of tick t over a synapse of delay d is in the sum of tick t + 1 + d. After a spike a neuron
waits for `refractory` ticks. `simulate` does not model cores or packets: it runs the network as its
author defines it, which a mapped network must reproduce under any mapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.core.network import DYNAMICS, SpikingNetwork
from hw.core.shape import CoreShape
from hw.integers import Int64Array, check_inputs, saturate, wrap


class NeuronStates(NamedTuple):
    """State of all neurons, each ndarray[int64], shape (neurons,).

    current, potential : as in `SpikingNetwork`
    waits : refractory ticks that are left
    """

    current: Int64Array
    potential: Int64Array
    waits: Int64Array

    @classmethod
    def of(cls, network: SpikingNetwork) -> NeuronStates:
        """Return the states before the first tick."""
        return cls(network.current.copy(), network.potential.copy(), network.waits.copy())


def update(
    network: SpikingNetwork, shape: CoreShape, state: NeuronStates, total: Int64Array
) -> tuple[NeuronStates, NDArray[np.bool_]]:
    """Compute one tick of all neurons: decay, integrate, compare, reset.

    state : before the tick
    total : sums of the weights that arrived for this tick, ndarray[int64], shape (neurons,)

    Returns the states after the tick and which neurons spike, shape (neurons,).
    """
    own = dict(zip(DYNAMICS, network.dynamics(shape).T, strict=True))
    bits = shape.state_bits
    current = decayed(state.current, own["current_decay"], shape.decay_bits)
    current = saturate(current + (total << own["shift"]) + network.current_bias, bits)
    charged = decayed(state.potential, own["potential_decay"], shape.decay_bits)
    charged = saturate(charged + current + network.potential_bias, bits)
    waits = state.waits > 0
    fires = ~waits & (own["silent"] == 0) & (charged >= network.threshold)
    rest = saturate(charged - network.threshold, bits)
    after = np.where(fires & (own["subtract"] == 1), rest, network.reset)
    potential = np.where(fires | waits, after, charged)
    left = np.where(fires, own["refractory"], state.waits - waits)
    return NeuronStates(current, potential, left), fires


def decayed(values: Int64Array, factor: Int64Array, bits: int) -> Int64Array:
    """Return values times factor / 2^bits, rounded towards zero."""
    return np.sign(values) * ((np.abs(values) * factor) >> bits)


class DelayedSums:
    """Sums of the weights that arrive in the next ticks, by the delays of the synapses.

    Sums wrap, as in a core. Several spikes of a source in one tick count as often.
    """

    def __init__(self, network: SpikingNetwork, shape: CoreShape) -> None:
        self._network, self._bits = network, shape.sum_bits
        self._ring = np.zeros((shape.delay_slots, network.neurons), np.int64)
        self._now = 0

    def add(self, spikes: NDArray[np.integer]) -> None:
        """Add the weights of spikes, of which those without a delay count in the next tick.

        spikes : number of spikes of each neuron and input, shape (neurons + inputs,)
        """
        network = self._network
        slot = (self._now + network.delay) % len(self._ring)
        np.add.at(self._ring, (slot, network.target), network.weight * spikes[network.source])

    def take(self) -> Int64Array:
        """Return the sums of the next tick, shape (neurons,), and advance by a tick."""
        total = wrap(self._ring[self._now], self._bits)
        self._ring[self._now] = 0
        self._now = (self._now + 1) % len(self._ring)
        return total


def simulate(
    network: SpikingNetwork,
    shape: CoreShape,
    ticks: int,
    inputs: Sequence[Sequence[int]] = (),
) -> tuple[NDArray[np.bool_], NeuronStates]:
    """Return the spikes of `ticks` ticks, shape (ticks, neurons), and the final states.

    inputs : for each tick, the inputs (0 .. network.inputs-1) that spike before it, so that their
        weights count in it; missing ticks have none. An input may spike repeatedly.
    """
    events = check_inputs(inputs, network.inputs, ticks)
    state = NeuronStates.of(network)
    sums = DelayedSums(network, shape)
    fires = np.zeros(network.neurons, bool)
    spikes = np.zeros((ticks, network.neurons), bool)
    for tick in range(ticks):
        told = np.bincount(np.array(events[tick], np.int64), minlength=network.inputs)
        sums.add(np.r_[fires, told])
        state, fires = update(network, shape, state, sums.take())
        spikes[tick] = fires
    return spikes, state
