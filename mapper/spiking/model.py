"""A spiking model in ticks: populations, connections and outputs, in real numbers.

In each tick a population computes, with the spikes that reach it::

    current   = current_decay * current + weights * spikes + current_bias
    potential = potential_decay * potential + current + potential_bias
    fires     = potential > threshold, unless it is silent

and a neuron that fires has the potential `reset`, or the potential less its threshold with
`subtract`. Weights and biases contain the factors of time constants and resistances. Currents and
potentials are 0 before the first tick.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]


class NeuronDynamics(NamedTuple):
    """Parameters of a population's neurons, each of shape (neurons,).

    current_decay, potential_decay : part of the current and the potential that is kept per tick
    current_bias, potential_bias : added per tick
    threshold, reset : potentials
    subtract, silent : bool, reset by subtraction; never fires
    """

    current_decay: Floats
    potential_decay: Floats
    current_bias: Floats
    potential_bias: Floats
    threshold: Floats
    reset: Floats
    subtract: NDArray[np.bool_]
    silent: NDArray[np.bool_]


class SpikingPopulation(NamedTuple):
    """A population: neurons with the same kind of dynamics, or inputs.

    name : of its node
    kind : type of the node in NIR
    shape : of the tensor of its spikes
    dynamics : None for inputs
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dynamics: NeuronDynamics | None

    @property
    def size(self) -> int:
        """Number of neurons."""
        return math.prod(self.shape)

    @property
    def silent(self) -> bool:
        """Whether it has neurons, none of which ever fires."""
        return self.dynamics is not None and bool(self.dynamics.silent.all())


class SpikingConnection(NamedTuple):
    """Synapses between two populations.

    source, target : numbers of the populations
    weights : scipy.sparse.csr_array of float64, shape (neurons of target, neurons of source)
    delay : in ticks, as in the frameworks: 0 acts in the tick of the spike
    """

    source: int
    target: int
    weights: Any
    delay: int


class ModelOutput(NamedTuple):
    """An output of the model: the spikes, or the potentials if it is silent, of a population."""

    name: str
    population: int


class SpikingModel(NamedTuple):
    """A model. tick : duration of a tick in the time unit of the model."""

    populations: tuple[SpikingPopulation, ...]
    connections: tuple[SpikingConnection, ...]
    outputs: tuple[ModelOutput, ...]
    tick: float

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of the populations that are inputs."""
        return tuple(n for n, each in enumerate(self.populations) if each.dynamics is None)

    @property
    def host_axons(self) -> dict[int, int]:
        """First axon of the packets to the host, by population: of outputs that are spikes.

        Spikes of `watched` leave the chip as packets, whose axon is the index in it.
        """
        found, at = {}, 0
        for number in sorted({each.population for each in self.outputs}):
            each = self.populations[number]
            if each.dynamics is not None and not each.silent:
                found[number] = at
                at += each.size
        return found

    @property
    def watched(self) -> Int64:
        """Neurons whose spikes go to the host, ndarray[int64], by axon."""
        own = [self.first[n] + np.arange(self.populations[n].size) for n in self.host_axons]
        return np.concatenate([np.zeros(0, np.int64), *own])

    @property
    def first(self) -> tuple[int, ...]:
        """First neuron of each population: neurons in order, followed by inputs in order."""
        found, at = [0] * len(self.populations), 0
        for inputs in (False, True):
            for number, each in enumerate(self.populations):
                if (each.dynamics is None) == inputs:
                    found[number] = at
                    at += each.size
        return tuple(found)
