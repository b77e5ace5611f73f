"""Integer reference of a model: the arithmetic of cores on all samples, without cores.

The spikes of a population that is late on the chip are reported at the ticks of the model, so that
they can be compared with `mapper.spiking.reference`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from hw.core.arithmetic import NeuronStates, update
from hw.core.network import DYNAMICS, STATE, VALUES, SpikingNetwork
from hw.core.shape import CoreShape
from hw.integers import wrap
from mapper.spiking.integers import IntegerModel
from mapper.spiking.model import Floats, SpikingModel
from mapper.spiking.reference import SpikeTrains

if TYPE_CHECKING:
    from storage.samples.spikes import SpikeSamples

BATCH_STATES = 1 << 19  # neurons times samples that are computed together


class IntegerRun(NamedTuple):
    """Results of an integer model on samples, at the ticks of the model.

    spikes : per population; no spikes for inputs
    potentials : per silent population that is an output, real, shape (samples, ticks, neurons)
    saturated : per population, ticks of neurons whose current or potential was at its limit
    """

    spikes: tuple[SpikeTrains, ...]
    potentials: dict[int, Floats]
    saturated: tuple[int, ...]


def run_integers(integers: IntegerModel, model: SpikingModel, samples: SpikeSamples) -> IntegerRun:
    """Compute the spikes of all populations, and the potentials of silent outputs.

    model : that `integers` was made of; its numbers are not used

    Raises `MapperError` if the spikes of the samples have another real value than the integers.
    """
    integers.require_unit(samples)
    network = integers.network
    potentials = {
        each.population: np.zeros(
            (samples.samples, samples.ticks, model.populations[each.population].size)
        )
        for each in model.outputs
        if model.populations[each.population].silent
    }
    first = np.array(model.first)
    size = np.array([each.size for each in model.populations])
    saturated = np.zeros(len(model.populations), np.int64)
    found: list[list[SpikeTrains]] = [[] for _ in model.populations]
    batch = max(1, BATCH_STATES // max(network.neurons, 1))
    for begin in range(0, samples.samples, batch):
        count = min(batch, samples.samples - begin)
        runner = _Batch(network, integers.shape, samples, begin, count)
        for tick in range(samples.ticks + max(integers.latency)):
            states, neuron, sample = runner.advance()
            for number, each in enumerate(model.populations):
                at = tick - integers.latency[number]
                if each.dynamics is None or not 0 <= at < samples.ticks:
                    continue
                own = slice(first[number], first[number] + size[number])
                saturated[number] += _at_limit(states, own, integers.shape)
                bounds = np.searchsorted(neuron, [own.start, own.stop])
                which = slice(*bounds)
                found[number].append(
                    SpikeTrains(
                        sample[which] + begin,
                        np.full(bounds[1] - bounds[0], at),
                        neuron[which] - own.start,
                    )
                )
                if number in potentials:
                    held = states.potential[own] / integers.state_scale[own, None]
                    potentials[number][begin : begin + count, at] = held.T
    return IntegerRun(tuple(_sorted(each) for each in found), potentials, tuple(saturated.tolist()))


class _Batch:
    """State of a network for some samples, as columns: all arrays are (neurons, samples)."""

    def __init__(
        self,
        network: SpikingNetwork,
        shape: CoreShape,
        samples: SpikeSamples,
        first: int,
        count: int,
    ) -> None:
        self._shape, self._count, self._neurons = shape, count, network.neurons
        self._sources = network.neurons + network.inputs
        self._tiled = _tiled(network, count)
        self._states = NeuronStates.of(self._tiled)
        self._ring = np.zeros((shape.delay_slots, network.neurons, count), np.int64)
        self._tick = 0
        self._fired = np.zeros(0, np.int64), np.zeros(0, np.int64)  # neuron, sample
        self._matrices = [
            (int(delay), _matrix(network, int(delay))) for delay in np.unique(network.delay)
        ]
        a, b = np.searchsorted(samples.sample, [first, first + count])
        order = np.argsort(samples.tick[a:b], kind="stable")
        self._events = tuple(
            part[a:b][order]
            for part in (samples.tick, samples.sample - first, samples.neuron, samples.value)
        )
        longest = max(samples.ticks, 1)
        self._ticks = samples.ticks
        self._bounds = np.searchsorted(self._events[0], np.arange(longest + 1))

    def advance(self) -> tuple[NeuronStates, Any, Any]:
        """Compute a tick; return the states, and neuron and sample of the spikes by neuron."""
        neuron, sample = self._fired
        value = np.ones(neuron.size, np.int64)
        if self._tick < self._ticks:
            own = slice(self._bounds[self._tick], self._bounds[self._tick + 1])
            _, of_sample, of_input, times = (part[own] for part in self._events)
            neuron = np.r_[neuron, of_input + self._neurons]
            sample, value = np.r_[sample, of_sample], np.r_[value, times]
        spikes = csr_array((value, (neuron, sample)), shape=(self._sources, self._count))
        slots = len(self._ring)
        for delay, weights in self._matrices:
            arrived = (weights @ spikes).tocoo()
            self._ring[(self._tick + delay) % slots][arrived.row, arrived.col] += arrived.data
        now = self._ring[self._tick % slots]
        total = wrap(now.reshape(-1), self._shape.sum_bits)
        now[:] = 0
        self._states, fires = update(self._tiled, self._shape, self._states, total)
        self._fired = np.divmod(np.flatnonzero(fires), self._count)
        self._tick += 1
        sizes = (self._neurons, self._count)
        return NeuronStates(*(part.reshape(sizes) for part in self._states)), *self._fired


def _tiled(network: SpikingNetwork, count: int) -> SpikingNetwork:
    """Return the neurons of a network, without synapses, each for `count` samples."""
    none = np.zeros(0, np.int64)
    rows: dict[str, Any] = {
        name: np.repeat(getattr(network, name), count)
        for name in (*DYNAMICS, *VALUES, *STATE)
        if getattr(network, name) is not None
    }
    return SpikingNetwork(network.neurons * count, none, none, none, **rows)


def _matrix(network: SpikingNetwork, delay: int) -> Any:
    """Return the weights of the synapses with a delay, shape (neurons, neurons + inputs)."""
    own = network.delay == delay
    return csr_array(
        (network.weight[own], (network.target[own], network.source[own])),
        shape=(network.neurons, network.neurons + network.inputs),
    )


def _at_limit(states: NeuronStates, own: slice, shape: CoreShape) -> int:
    """Return how many neurons have a current or potential at its limit."""
    half = 1 << (shape.state_bits - 1)
    limits = [
        (part[own] == -half) | (part[own] == half - 1)
        for part in (states.current, states.potential)
    ]
    return int((limits[0] | limits[1]).sum())


def _sorted(parts: list[SpikeTrains]) -> SpikeTrains:
    """Return the spikes by sample, tick and neuron."""
    if not parts:
        return SpikeTrains(*[np.zeros(0, np.int64)] * 3)
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort(joined[::-1])
    return SpikeTrains(*(column[order] for column in joined))
