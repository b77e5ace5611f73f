"""Spiking cores in numpy, tick by tick, with everything that a run of the kernel reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.core.arithmetic import DelayedSums, NeuronStates, decayed, update
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.integers import saturate

Int64 = NDArray[np.int64]


class ExpectedRun(NamedTuple):
    """Spikes and potentials after each tick, shape (ticks, neurons), final states, ticks in which a
    value of each neuron was clipped, and synaptic events.
    """

    spikes: NDArray[np.bool_]
    potentials: Int64
    states: NeuronStates
    saturated: Int64
    events: int


def run_network(
    network: SpikingNetwork, shape: CoreShape, told: Sequence[Sequence[int]]
) -> ExpectedRun:
    """Run a network; told : for each tick, neurons and inputs that the host has spike before it."""
    state, sums = NeuronStates.of(network), DelayedSums(network, shape)
    fan_out = np.bincount(network.source, minlength=network.neurons + network.inputs)
    spikes, potentials, clipped, events = [], [], np.zeros(network.neurons, np.int64), 0
    for senders in told:
        given = np.bincount(np.array(senders, np.int64), minlength=fan_out.size)
        sums.add(given)
        total = sums.take()
        before = state
        state, fires = update(network, shape, before, total)
        clipped += _clipped(network, shape, before, total, fires)
        own = np.r_[fires, np.zeros(network.inputs, bool)].astype(np.int64)
        sums.add(own)
        events += int((given + own) @ fan_out)
        spikes.append(fires)
        potentials.append(state.potential)
    return ExpectedRun(np.array(spikes), np.array(potentials), state, clipped, events)


def _clipped(
    network: SpikingNetwork, shape: CoreShape, state: NeuronStates, total: Int64,
    fires: NDArray[np.bool_],
) -> NDArray[np.bool_]:  # fmt: skip
    """Return whether a value that counts was clipped in the update of each neuron."""
    kept = network.dynamics(shape)[:, 1]
    current = decayed(state.current, network.current_decay, shape.decay_bits)
    current = current + (total << network.shift) + network.current_bias
    charged = decayed(state.potential, kept, shape.decay_bits)
    charged = charged + saturate(current, shape.state_bits) + network.potential_bias
    rest = saturate(charged, shape.state_bits) - network.threshold
    found = saturate(current, shape.state_bits) != current
    found |= (state.waits == 0) & (saturate(charged, shape.state_bits) != charged)
    found |= fires & (network.subtract == 1) & (saturate(rest, shape.state_bits) != rest)
    return found
