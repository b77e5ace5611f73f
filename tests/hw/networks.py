"""Small networks for the tests of the hardware."""

from __future__ import annotations

import numpy as np

from hw.network import SpikingNetwork
from hw.shape import CoreShape

TINY = CoreShape(
    neurons=8, axons=16, routes=32, synapses=64, potential_bits=8, weight_bits=5, sum_bits=9,
    leak_bits=3, x_bits=2, y_bits=1,
)  # fmt: skip
"""A core so small that random numbers reach the ends of all its words."""


def random_network(
    rng: np.random.Generator, neurons: int, synapses: int, shape: CoreShape, inputs: int = 2
) -> SpikingNetwork:
    """Any parameters that fit the words of the core, and weights that cannot wrap a sum."""
    half = 1 << (shape.potential_bits - 1)
    most = 1 << (shape.weight_bits - 1)
    source = rng.integers(0, neurons + inputs, synapses)
    target = rng.integers(0, neurons, synapses)
    room = ((1 << (shape.sum_bits - 1)) - 1) // max(1, np.bincount(target).max(initial=0))
    assert room, "more synapses a neuron than the sums can hold"
    return SpikingNetwork(
        neurons,
        source,
        target,
        rng.integers(max(-most, -room), min(most - 1, room) + 1, synapses),
        threshold=rng.integers(-half // 8, half, neurons) >> rng.integers(0, 4, neurons),
        leak=rng.integers(0, shape.no_leak, neurons) if rng.random() < 0.7 else None,
        bias=rng.integers(-half, half, neurons) >> rng.integers(0, 6, neurons),
        subtract=rng.integers(0, 2, neurons),
        potential=rng.integers(-half, half, neurons),
        inputs=inputs,
    )


def random_inputs(rng: np.random.Generator, network: SpikingNetwork, ticks: int) -> list[list[int]]:
    """Up to three spikes of inputs before each tick; an input may spike twice."""
    if not network.inputs:
        return []
    return [rng.integers(0, network.inputs, rng.integers(0, 4)).tolist() for _ in range(ticks)]
