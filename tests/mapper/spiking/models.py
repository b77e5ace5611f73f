"""Small spiking models and samples for tests; their numbers are exact in floating point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from mapper.spiking.model import (
    ModelOutput,
    NeuronDynamics,
    SpikingConnection,
    SpikingModel,
    SpikingPopulation,
)
from storage.samples.spikes import SpikeSamples
from tests.reference.spiking import Inputs


def dynamics(rng: np.random.Generator, size: int) -> NeuronDynamics:
    """Return random neurons that keep a half or nothing of currents, and a half or all else."""
    subtract = rng.random(size) < 0.5
    return NeuronDynamics(
        rng.choice([0.0, 0.5], size),
        rng.choice([0.5, 1.0], size),
        rng.integers(-1, 3, size) / 8,
        rng.integers(-1, 2, size) / 8,
        rng.integers(4, 9, size) / 8,
        np.zeros(size),
        subtract,
        rng.random(size) < 0.1,
    )


def inputs_and(*sizes: int, inputs: int = 1, seed: int = 0) -> tuple[SpikingPopulation, ...]:
    """Return populations of these sizes, of which the first `inputs` are inputs."""
    rng = np.random.default_rng(seed)
    return tuple(
        SpikingPopulation(
            f"p{number}",
            "Input" if number < inputs else "CubaLIF",
            (size,),
            None if number < inputs else dynamics(rng, size),
        )
        for number, size in enumerate(sizes)
    )


def connected(
    populations: tuple[SpikingPopulation, ...],
    pairs: Sequence[tuple[int, int, int]],
    seed: int = 0,
) -> SpikingModel:
    """Return a model with random weights between pairs (source, target, delay)."""
    rng = np.random.default_rng(seed)
    connections = []
    for source, target, delay in pairs:
        shape = (populations[target].size, populations[source].size)
        weights = rng.integers(-3, 6, shape) / 8 * (rng.random(shape) < 0.7)
        connections.append(SpikingConnection(source, target, csr_array(weights), delay))
    outputs = (ModelOutput("output", len(populations) - 1),)
    return SpikingModel(populations, tuple(connections), outputs, 1.0)


def convolution(
    sides: tuple[int, int, int],
    channels: int,
    kernel: int,
    stride: int,
    padding: int,
    seed: int = 0,
) -> tuple[csr_array, tuple[int, int, int]]:
    """Return a matrix of distinct weights other than 0, and channels, rows and columns of targets.

    sides : channels, rows and columns of the sources
    """
    rng = np.random.default_rng(seed)
    rows, columns = ((side + 2 * padding - kernel) // stride + 1 for side in sides[1:])
    count = channels * sides[0] * kernel * kernel
    values = rng.permutation(np.r_[1 : count - count // 3 + 1, -(count // 3) : 0])
    weights = values.reshape(channels, sides[0], kernel, kernel) / 64
    matrix = np.zeros((channels, rows, columns, sides[0], sides[1], sides[2]))
    for row, column, y, x in np.ndindex(rows, columns, kernel, kernel):
        source = row * stride + y - padding, column * stride + x - padding
        if 0 <= source[0] < sides[1] and 0 <= source[1] < sides[2]:
            matrix[:, row, column, :, source[0], source[1]] = weights[:, :, y, x]
    return csr_array(matrix.reshape(channels * rows * columns, -1)), (channels, rows, columns)


def spikes_of(model: SpikingModel, samples: int, ticks: int, seed: int) -> SpikeSamples:
    """Return random spikes of the inputs of a model, some of which count twice."""
    rng = np.random.default_rng(seed)
    size = sum(model.populations[number].size for number in model.inputs)
    fires = rng.random((samples, ticks, size)) < rng.choice([0.02, 0.4])
    sample, tick, neuron = np.nonzero(fires)
    value = rng.integers(1, 3, sample.size)
    return SpikeSamples(sample, tick, neuron, value, samples, ticks, None)


def inputs_of(model: SpikingModel, samples: SpikeSamples, number: int) -> Inputs:
    """Return the spikes of one sample as the reference implementation takes them."""
    first, found = 0, {}
    for population in model.inputs:
        size = model.populations[population].size
        own = (samples.sample == number) & (samples.neuron >= first)
        own &= samples.neuron < first + size
        columns = (samples.tick[own], samples.neuron[own] - first, samples.value[own])
        found[population] = {
            (tick, neuron): float(value)
            for tick, neuron, value in zip(*(each.tolist() for each in columns), strict=True)
        }
        first += size
    return found
