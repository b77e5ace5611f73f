"""Reference arithmetic of the cores on numpy arrays, as specified in docs/core.md.

The cores agree with it bit for bit. `simulate` does not model cores, packets or cycles: it runs the
network as its author defines it, which a mapped network must reproduce under any mapping.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.integers import Int64Array, check_inputs, saturate, wrap


def update(
    network: SpikingNetwork, shape: CoreShape, potential: Int64Array, total: Int64Array
) -> tuple[Int64Array, NDArray[np.bool_]]:
    """Compute one tick of all neurons: leak, integrate, compare, reset.

    potential : potentials before the tick, ndarray[int64], shape (neurons,)
    total : sums of the weights that arrived in the previous tick, ndarray[int64], shape (neurons,)

    Returns the potential after the tick and which neurons spike, each shape (neurons,).
    """
    leak = network.leaks(shape)
    leaked = np.where(leak == shape.no_leak, potential, potential - (potential >> leak))
    charged = saturate(leaked + total + network.bias, shape.potential_bits)
    fires = charged >= network.threshold
    rest = saturate(charged - network.threshold, shape.potential_bits)
    return np.where(fires, np.where(network.subtract == 1, rest, 0), charged), fires


def add_weights(
    network: SpikingNetwork, shape: CoreShape, spikes: NDArray[np.integer]
) -> Int64Array:
    """Return the sums of the weights on every neuron, shape (neurons,), when sources spike.

    spikes : number of spikes of each neuron and input, shape (neurons + inputs,)
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
    """Return the spikes of `ticks` ticks, shape (ticks, neurons), and the final potentials.

    inputs : for each tick, the inputs (0 .. network.inputs-1) that spike before it, so that their
        weights count in it; missing ticks have none. An input may spike repeatedly.
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
