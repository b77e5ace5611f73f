"""Small networks for tests of the hardware."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from storage.store.network import RATE
from storage.store.writer import NetworkWriter

TINY = CoreShape(
    neurons=8, axons=16, routes=32, synapses=64, profiles=8, delay_slots=4, state_bits=8,
    decay_bits=4, weight_bits=5, sum_bits=9, shift_bits=2, refractory_bits=2, x_bits=2, y_bits=1,
)  # fmt: skip
"""A core so small that random numbers reach the limits of all its words."""


def random_network(
    rng: np.random.Generator, neurons: int, synapses: int, shape: CoreShape, inputs: int = 2
) -> SpikingNetwork:
    """Return random parameters that fit the words of the core and cannot wrap a sum."""
    half = 1 << (shape.state_bits - 1)
    most = 1 << (shape.weight_bits - 1)
    source = rng.integers(0, neurons + inputs, synapses)
    target = rng.integers(0, neurons, synapses)
    room = ((1 << (shape.sum_bits - 1)) - 1) // max(1, np.bincount(target).max(initial=0))
    assert room, "more synapses a neuron than the sums can hold"
    kinds = int(rng.integers(1, shape.profiles + 1))  # of dynamics
    kind = rng.integers(0, kinds, neurons)
    decays = np.r_[0, shape.unity, shape.unity, rng.integers(0, shape.unity + 1, 3)]
    ticks = (1 << shape.refractory_bits) - 1
    return SpikingNetwork(
        neurons,
        source,
        target,
        rng.integers(max(-most, -room), min(most - 1, room) + 1, synapses),
        threshold=rng.integers(-half // 8, half, neurons) >> rng.integers(0, 4, neurons),
        delay=rng.integers(0, shape.longest_delay + 1, synapses),
        reset=rng.integers(-half, half, neurons) >> rng.integers(0, 6, neurons),
        current_decay=rng.choice(decays, kinds)[kind],
        potential_decay=rng.choice(decays, kinds)[kind] if rng.random() < 0.9 else None,
        current_bias=rng.integers(-half, half, neurons) >> rng.integers(0, 8, neurons),
        potential_bias=rng.integers(-half, half, neurons) >> rng.integers(0, 6, neurons),
        shift=rng.integers(0, 1 << shape.shift_bits, kinds)[kind],
        refractory=(rng.integers(0, ticks + 1, kinds) * rng.integers(0, 2, kinds))[kind],
        subtract=rng.integers(0, 2, kinds)[kind],
        silent=(rng.random(kinds) < 0.1).astype(np.int64)[kind],
        current=rng.integers(-half, half, neurons),
        potential=rng.integers(-half, half, neurons),
        waits=rng.integers(0, ticks + 1, neurons) * rng.integers(0, 2, neurons),
        inputs=inputs,
    )


def with_kernels(rng: np.random.Generator, network: SpikingNetwork) -> SpikingNetwork:
    """Replace the synapses by a kernel that moves with its source, so that lists are shared."""
    size = int(rng.integers(1, min(6, network.neurons) + 1))
    sources, offset = np.indices((network.neurons + network.inputs, size)).reshape(2, -1)
    target = sources * int(rng.integers(1, 3)) + offset - size // 2
    inside = (target >= 0) & (target < network.neurons)
    weights = rng.integers(-8, 16, size)
    slots = int(network.delay.max(initial=0)) + 1
    return replace(
        network, source=sources[inside], target=target[inside],
        weight=weights[offset][inside], delay=rng.integers(0, slots, size)[offset][inside],
    )  # fmt: skip


def random_inputs(rng: np.random.Generator, network: SpikingNetwork, ticks: int) -> list[list[int]]:
    """Return up to three input spikes before each tick; an input may spike twice."""
    if not network.inputs:
        return []
    return [rng.integers(0, network.inputs, rng.integers(0, 4)).tolist() for _ in range(ticks)]


def ring(neurons: int = 27) -> SpikingNetwork:
    """Return a ring with two circulating spikes: each neuron fires a tick after its input."""
    here = np.arange(neurons)
    potential = np.zeros(neurons, np.int64)
    potential[[0, neurons // 3]] = 100
    return SpikingNetwork(
        neurons, here, (here + 1) % neurons, np.full(neurons, 60), threshold=60, potential=potential
    )


def recurrent(neurons: int = 200, degree: int = 5, seed: int = 3) -> SpikingNetwork:
    """Return four excitatory neurons per inhibitory one; bias currents keep them active."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(neurons), degree)
    excites = source % 5 > 0
    strength = rng.integers(20, 60, source.size)
    return SpikingNetwork(
        neurons,
        source,
        rng.integers(0, neurons, source.size),
        np.where(excites, strength, -2 * strength),
        threshold=rng.integers(180, 300, neurons),
        potential_decay=4096 - (4096 >> rng.integers(2, 6, neurons)),
        potential_bias=rng.integers(-4, 40, neurons),
        subtract=rng.integers(0, 2, neurons),
        potential=rng.integers(-50, 180, neurons),
    )


def layered(sizes: tuple[int, ...] = (9, 6, 3), inputs: int = 4, seed: int = 5) -> SpikingNetwork:
    """Return inputs and fully connected layers."""
    rng = np.random.default_rng(seed)
    neurons = sum(sizes)
    ends = np.cumsum(sizes)
    layers = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    before = [neurons + np.arange(inputs), *layers[:-1]]
    pairs = [
        np.stack(np.meshgrid(a, b)).reshape(2, -1) for a, b in zip(before, layers, strict=True)
    ]
    source, target = np.concatenate(pairs, axis=1)
    return SpikingNetwork(
        neurons,
        source,
        target,
        rng.integers(-50, 120, source.size),
        threshold=100,
        potential_decay=3072,
        subtract=1,
        inputs=inputs,
    )


def save_traffic(path: Path, network: SpikingNetwork, spikes: NDArray[np.bool_]) -> None:
    """Write the network file for `mapper`: its weights are its traffic.

    spikes : spikes of a run without a chip, shape (ticks, neurons) (`hw.core.arithmetic.simulate`).
        A synapse has the number of spikes of its source as weight; for a silent source it is 0, but
        kept.

    Inputs are omitted, since they are on no core.
    """
    between = network.source < network.neurons
    source, target = network.source[between], network.target[between]
    pairs = np.unique(np.stack([source, target]), axis=1)  # one packet per spike and core
    rate = spikes.sum(axis=0)
    with NetworkWriter(path, network.neurons) as writer:
        writer.add(pairs[0], pairs[1], rate[pairs[0]])
        writer.set_attribute(RATE, rate)
        writer.finish()
