"""The arithmetic of the cores without any hardware: what docs/core.md says, on numpy arrays.

The cores agree with it bit for bit. `simulate` knows nothing of cores, packets or cycles: it is the
network as its author sees it, and what a mapped network must do whatever the mapping.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hw.core.network import Int64Array, SpikingNetwork, check_inputs
from hw.core.shape import CoreShape


def update(
    network: SpikingNetwork, shape: CoreShape, potential: Int64Array, total: Int64Array
) -> tuple[Int64Array, NDArray[np.bool_]]:
    """One tick of all neurons: leak, integrate, compare, reset.

    potential : before the tick; total : sums of the weights that arrived in the tick before; each
        ndarray[int64], shape (neurons,)

    Returns the potential after the tick and which neurons spike, each shape (neurons,).
    """
    leak = network.leaks(shape)
    leaked = np.where(leak == shape.no_leak, potential, potential - (potential >> leak))
    charged = saturate(leaked + total + network.bias, shape.potential_bits)
    fires = charged >= network.threshold
    rest = saturate(charged - network.threshold, shape.potential_bits)
    return np.where(fires, np.where(network.subtract == 1, rest, 0), charged), fires


def saturate(values: Int64Array, bits: int) -> Int64Array:
    """The nearest numbers that signed words of so many bits can hold."""
    half = 1 << (bits - 1)
    return np.clip(values, -half, half - 1)


def wrap(values: Int64Array, bits: int) -> Int64Array:
    """The numbers that signed words of so many bits hold when what does not fit is cut off."""
    half = 1 << (bits - 1)
    return ((values + half) & (2 * half - 1)) - half


def add_weights(
    network: SpikingNetwork, shape: CoreShape, spikes: NDArray[np.integer]
) -> Int64Array:
    """Sums of the weights on every neuron, shape (neurons,), when sources spike.

    spikes : how often each of the neurons and inputs spikes, shape (neurons + inputs,)
    """
    total = np.zeros(network.neurons, np.int64)
    np.add.at(total, network.target, network.weight * spikes[network.source])
    return wrap(total, shape.sum_bits)


def simulate(
    network: SpikingNetwork,
    shape: CoreShape,
    ticks: int,
    inputs: Sequence[Sequence[int]] = (),
) -> tuple[NDArray[np.bool_], Int64Array]:
    """Spikes of `ticks` ticks, shape (ticks, neurons), and the potentials after the last.

    inputs : of each tick, the inputs (0 .. network.inputs-1) that spike before it, so that their
        weights count in it; ticks that are left out have none. An input may spike repeatedly.
    """
    events = check_inputs(inputs, network.inputs, ticks)
    potential = network.potential.copy()
    fires = np.zeros(network.neurons, bool)
    spikes = np.zeros((ticks, network.neurons), bool)
    for tick in range(ticks):
        told = np.bincount(np.array(events[tick], np.int64), minlength=network.inputs)
        total = add_weights(network, shape, np.r_[fires, told])
        potential, fires = update(network, shape, potential, total)
        spikes[tick] = fires
    return spikes, potential
