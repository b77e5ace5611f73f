"""Float reference of a spiking model: the results of a framework, for all samples at once.

In each tick, populations are computed in the order of `execution_order`. A spike acts in its own
tick through a feed-forward connection, and a tick later through a recurrent one, plus the delay of
the connection.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mapper.errors import MapperError
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.spiking.arrivals import NO_SPIKES, BatchSpikes, Ints, SourceLists
from mapper.spiking.model import Floats, NeuronDynamics, SpikingModel
from mapper.spiking.order import execution_order

if TYPE_CHECKING:
    from storage.samples.spikes import SpikeSamples

STATE_BYTES = 8 << 20  # of currents and potentials of samples in a batch, about a cache
MAX_BATCH = 1 << 15  # samples, whose numbers sort fastest in 16 bits


class SpikeTrains(NamedTuple):
    """Spikes of a population in order of sample, tick and neuron, each of shape (spikes,)."""

    sample: Ints
    tick: Ints
    neuron: Ints

    def counts(self, samples: int, neurons: int) -> Ints:
        """Return the number of spikes, shape (samples, neurons)."""
        keys = self.sample * neurons + self.neuron
        return np.bincount(keys, minlength=samples * neurons).reshape(samples, neurons)


class ReferenceRun(NamedTuple):
    """Results of a model on samples.

    spikes : per population; no spikes for inputs, whose spikes are in the samples
    potentials : per silent population that is an output, shape (samples, ticks, neurons)
    peak : largest magnitude of the current and potential of each neuron, shape (neurons,)
    """

    spikes: tuple[SpikeTrains, ...]
    potentials: dict[int, Floats]
    peak: Floats


def run_reference(
    model: SpikingModel, samples: SpikeSamples, progress: OnFraction = ignore
) -> ReferenceRun:
    """Compute the spikes of all populations, and the potentials of silent outputs.

    Raises `MapperError` for a spike of an input that the model does not have.
    """
    inputs = sum(model.populations[number].size for number in model.inputs)
    if samples.neuron.size and not 0 <= samples.neuron.min() <= samples.neuron.max() < inputs:
        wrong = samples.neuron[(samples.neuron < 0) | (samples.neuron >= inputs)][0]
        raise MapperError(
            f"samples: input {wrong} spikes, but the inputs of the model are 0..{inputs - 1}; "
            "give samples for this model"
        )
    potentials = {
        each.population: np.zeros(
            (samples.samples, samples.ticks, model.populations[each.population].size)
        )
        for each in model.outputs
        if model.populations[each.population].silent
    }
    neurons = sum(each.size for each in model.populations if each.dynamics is not None)
    batch = max(1, min(MAX_BATCH, STATE_BYTES // (16 * max(neurons, 1))))
    network = _Network(model)
    peak = np.zeros(neurons)
    trains: list[list[SpikeTrains]] = [[] for _ in model.populations]
    for first in range(0, samples.samples, batch):
        count = min(batch, samples.samples - first)
        recorded = {number: rows[first : first + count] for number, rows in potentials.items()}
        for number, spikes in network.run(samples, first, count, recorded, peak).items():
            trains[number].append(_trains(spikes, first))
        progress((first + count) / samples.samples)
    return ReferenceRun(tuple(_joined(each) for each in trains), potentials, peak)


class _Network:
    """The order of a model's populations, and the connections to each."""

    def __init__(self, model: SpikingModel) -> None:
        self._model = model
        self._order = execution_order(model).populations
        self._history = 1 + max((each.delay for each in model.connections), default=0)
        self._incoming = {
            number: _Incoming(model, number)
            for number in sorted({each.target for each in model.connections})
        }

    def run(
        self, samples: SpikeSamples, first: int, count: int, potentials: dict[int, Floats],
        peak: Floats,
    ) -> dict[int, list[BatchSpikes]]:  # fmt: skip
        """Return the spikes per tick of each population of neurons, for a batch of samples.

        potentials, peak : updated, as in `ReferenceRun`
        """
        model = self._model
        given = _input_spikes(model, samples, first, count)
        states = {
            number: _States(each.dynamics, count)
            for number, each in enumerate(model.populations)
            if each.dynamics is not None
        }
        history = [deque([NO_SPIKES] * self._history, self._history) for _ in model.populations]
        recorded: dict[int, list[BatchSpikes]] = {number: [] for number in states}
        for tick in range(samples.ticks):
            for number in self._order:
                if number in given:
                    history[number].append(given[number][tick])
                    continue
                if number in self._incoming:
                    self._incoming[number].add_to(states[number].arrived, history)
                fired = states[number].advance()
                history[number].append(fired)
                recorded[number].append(fired)
                if number in potentials:
                    potentials[number][:, tick] = states[number].potential
        for number, state in states.items():
            own = peak[model.first[number] :][: state.peak.size]
            np.maximum(own, state.peak, out=own)
        return recorded


class _Incoming:
    """All connections to a population; their sources are numbered consecutively."""

    def __init__(self, model: SpikingModel, target: int) -> None:
        leading = [each for each in model.connections if each.target == target]
        starts = np.cumsum([0] + [model.populations[each.source].size for each in leading])
        self._reads = [
            (each.source, -1 - each.delay, start)
            for each, start in zip(leading, starts.tolist(), strict=False)
        ]
        self._lists = SourceLists.of([each.weights for each in leading])

    def add_to(self, total: Floats, history: list[deque[BatchSpikes]]) -> None:
        """Add the weights of the spikes that arrive to sums of shape (samples, neurons).

        history : latest spikes of each population; for a recurrent connection, spikes of the
            previous tick, because its source is computed after its target
        """
        for source, index, start in self._reads:
            spikes = history[source][index]
            if spikes.neuron.size:
                self._lists.add_to(total, spikes, start)


class _States:
    """Currents and potentials of a population, shape (samples, neurons).

    Steps that change nothing are left out, because each is a pass over all states: the decay of a
    current of which nothing remains, a potential without leak, biases of 0.
    """

    def __init__(self, dynamics: NeuronDynamics, count: int) -> None:
        self._own = dynamics
        shape = (count, dynamics.threshold.size)
        self.arrived, self._current, self.potential = (np.zeros(shape) for _ in range(3))
        self.peak = np.zeros(shape[1])
        self._fires = not dynamics.silent.all()
        self._some_silent = bool(dynamics.silent.any())
        self._keeps_current = bool(dynamics.current_decay.any())
        self._leaks = bool((dynamics.potential_decay != 1).any())
        self._biased = [
            bool(bias.any()) for bias in (dynamics.current_bias, dynamics.potential_bias)
        ]

    def advance(self) -> BatchSpikes:
        """Compute a tick, with the weights that have arrived, and return the spikes."""
        own, potential = self._own, self.potential
        if self._keeps_current:
            self._current *= own.current_decay
            self._current += self.arrived
        else:
            self._current, self.arrived = self.arrived, self._current
        if self._biased[0]:
            self._current += own.current_bias
        if self._leaks:
            potential *= own.potential_decay
        potential += self._current
        if self._biased[1]:
            potential += own.potential_bias
        self.arrived[:] = 0
        for values in (self._current, potential):
            np.maximum(self.peak, values.max(axis=0), out=self.peak)
            np.maximum(self.peak, -values.min(axis=0), out=self.peak)
        if not self._fires:
            return NO_SPIKES
        fires = potential > own.threshold
        if self._some_silent:
            fires &= ~own.silent
        # Faster than `nonzero` of two axes.
        sample, neuron = np.divmod(np.flatnonzero(fires), fires.shape[1])
        rest = potential[sample, neuron] - own.threshold[neuron]
        potential[sample, neuron] = np.where(own.subtract[neuron], rest, own.reset[neuron])
        return BatchSpikes(sample, neuron, np.ones(neuron.size))


def _input_spikes(
    model: SpikingModel, samples: SpikeSamples, first: int, count: int
) -> dict[int, list[BatchSpikes]]:
    """Return the spikes per tick of each input, for a batch of samples; equal ones are added.

    Their values are real: numbers of spikes times `samples.unit`.
    """
    begin, end = np.searchsorted(samples.sample, [first, first + count])
    sample, tick = samples.sample[begin:end] - first, samples.tick[begin:end]
    neuron, value = samples.neuron[begin:end], samples.value[begin:end]
    found, at = {}, 0
    for number in model.inputs:
        size = model.populations[number].size
        own = (neuron >= at) & (neuron < at + size) & (tick < samples.ticks)
        keys = (tick[own] * count + sample[own]) * size + neuron[own] - at
        keys, place = np.unique(keys, return_inverse=True)
        total: Floats = np.bincount(place, value[own] * samples.unit, keys.size).astype(np.float64)
        rows, of_neuron = np.divmod(keys, size)
        of_tick, of_sample = np.divmod(rows, count)
        bounds = np.searchsorted(of_tick, np.arange(samples.ticks + 1))
        found[number] = [
            BatchSpikes(of_sample[a:b], of_neuron[a:b], total[a:b]) for a, b in pairwise(bounds)
        ]
        at += size
    return found


def _trains(spikes: list[BatchSpikes], first: int) -> SpikeTrains:
    """Return the spikes of consecutive ticks of a batch of samples, which begins at `first`."""
    if not spikes:
        return _NO_TRAINS
    sample = np.concatenate([each.sample for each in spikes])
    order = np.argsort(sample.astype(np.int16), kind="stable")
    tick = np.repeat(np.arange(len(spikes)), [each.sample.size for each in spikes])
    neuron = np.concatenate([each.neuron for each in spikes])
    return SpikeTrains(sample[order] + first, tick[order], neuron[order])


def _joined(batches: list[SpikeTrains]) -> SpikeTrains:
    if not batches:
        return _NO_TRAINS
    return SpikeTrains(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))


_NO_TRAINS = SpikeTrains(*[np.zeros(0, np.int64)] * 3)
