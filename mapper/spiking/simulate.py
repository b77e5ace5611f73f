"""Simulation of samples on the cores of a chip: many independent runs, in threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.spiking.play import HostSpikes, SpikingRun
from hw.core.shape import DEEPEST
from hw.tables import ChipTables, make_tables
from mapper.concurrency.threads import ThreadTeam, WorkspacePool
from mapper.errors import MapperError
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.spiking.integers import IntegerModel
from mapper.spiking.model import Floats, SpikingModel
from mapper.spiking.reference import SpikeTrains
from mapper.spiking.slots import Slots

if TYPE_CHECKING:
    from storage.samples.spikes import SpikeSamples

Int64 = NDArray[np.int64]
MANY_PROFILES = 1 << 10  # the most profiles of a core, and so as many neurons of any kind


class InputSpikes(NamedTuple):
    """Spikes of the inputs in all samples, sorted by sample, then by tick.

    sample, tick, neuron : ndarray[int64], shape (spikes,); `neuron` counts the inputs of the
        network from 0. Each spike counts in its tick, and repeated spikes count repeatedly.
    samples : number of samples
    """

    sample: Int64
    tick: Int64
    neuron: Int64
    samples: int

    @classmethod
    def of(cls, given: SpikeSamples) -> InputSpikes:
        """Return spikes that repeat as often as their values require.

        Raises `MapperError` for values that are not whole numbers from 0.
        """
        wrong = np.flatnonzero((given.value < 0) | (given.value != np.floor(given.value)))
        if wrong.size:
            first = wrong[0]
            raise MapperError(
                f"samples: value {given.value[first]} of input {given.neuron[first]} in tick "
                f"{given.tick[first]} of sample {given.sample[first]}; a chip receives whole "
                "numbers of spikes from 0, so encode other values"
            )
        times = given.value.astype(np.int64)
        sample, tick, neuron = (
            np.repeat(one, times) for one in (given.sample, given.tick, given.neuron)
        )
        return cls(sample, tick, neuron, given.samples)

    def ends(self, ticks: int) -> Int64:
        """Return the ends of the spikes before each tick of runs of `ticks` ticks.

        Shape (samples * ticks + 1,): tick t of sample s has spikes ends[s * ticks + t] to
        ends[s * ticks + t + 1] - 1.
        """
        key = self.sample * ticks + self.tick
        return np.searchsorted(key, np.arange(self.samples * ticks + 1)).astype(np.int64)


class SampleRun(NamedTuple):
    """Run of one sample from the states before the first tick.

    neuron : ndarray[int32], shape (spikes,), neurons that fire, tick by tick, ascending in each
    ends : ndarray[int64], shape (ticks + 1,): tick k has neuron[ends[k]:ends[k + 1]]
    potential : ndarray[int32], shape (ticks, watched), of the watched neurons after each tick
    state : ndarray[int64], shape (neurons, 3), current, potential and refractory ticks at the end
    saturated : ndarray[int64], shape (neurons,), ticks in which a value of the neuron was clipped
    events : number of synaptic events
    """

    neuron: NDArray[np.int32]
    ends: Int64
    potential: NDArray[np.int32]
    state: Int64
    saturated: Int64
    events: int


def simulate_samples(
    slots: Slots, given: InputSpikes, ticks: int, watched: Int64, team: ThreadTeam
) -> Iterator[SampleRun]:
    """Yield the run of each sample, in order; at most two per thread are held in memory.

    Parameters
    ----------
    slots : of the chip's tables
    given : spikes of the inputs
    ticks : ticks per sample
    watched : ndarray[int64], neurons whose potentials are recorded
    team : threads

    Raises `MapperError` for spikes of inputs, samples or ticks that do not exist.
    """
    neurons = slots.neurons.size
    _require(given.neuron, slots.sender.size - neurons, "input")
    _require(given.sample, given.samples, "sample")
    _require(given.tick, ticks, "tick")
    sender = slots.sender[neurons + given.neuron]
    ends = given.ends(ticks)
    pool = WorkspacePool(lambda: SpikingRun(slots.cores))
    chosen = slots.sender[watched]

    def simulate(sample: int) -> SampleRun:
        own = ends[sample * ticks : (sample + 1) * ticks + 1]
        host = HostSpikes(sender[own[0] : own[-1]], own - own[0])
        with pool.borrow() as run:
            run.restart()
            return _run(slots, run, host, chosen)

    return team.stream(simulate, range(given.samples))


def _run(slots: Slots, run: SpikingRun, host: HostSpikes, chosen: Int64) -> SampleRun:
    log = run.run(host, chosen)
    neurons = slots.neurons.size
    tick = np.repeat(np.arange(log.ends.size - 1), np.diff(log.ends))
    found = np.sort(tick * neurons + slots.neurons[log.slot])
    found -= tick * neurons
    own = slots.sender[:neurons]
    return SampleRun(
        found.astype(np.int32), log.ends, log.potential, run.states[own], run.saturated[own],
        run.events,
    )  # fmt: skip


def _require(values: Int64, count: int, name: str) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= count))
    if wrong.size:
        raise MapperError(
            f"input spikes: spike {wrong[0]} (from 0) has {name} {values[wrong[0]]}; there are "
            f"{count}, numbered from 0"
        )


class CoresRun(NamedTuple):
    """Results of the cores on samples, at the ticks of the model.

    spikes : per population; empty for populations that were not recorded
    potentials : per silent population that is an output, real, shape (samples, ticks, neurons)
    fired : spikes of all populations in all ticks
    events : synaptic events
    saturated : per population, ticks of neurons in which a value was clipped
    """

    spikes: tuple[SpikeTrains, ...]
    potentials: dict[int, Floats]
    fired: int
    events: int
    saturated: tuple[int, ...]


class CoresMachine:
    """The cores of a model, ready to run.

    slots : the tables of the cores
    ticks : that a run is longer than its samples, until all populations are done
    """

    def __init__(self, model: SpikingModel, integers: IntegerModel, tables: ChipTables) -> None:
        self._model, self._integers = model, integers
        self.slots = Slots.of(tables)
        self.ticks = max(0, *integers.latency)

    @classmethod
    def unmapped(cls, model: SpikingModel, integers: IntegerModel) -> CoresMachine:
        """Return cores that hold any network: its spikes do not depend on the mapping."""
        network = integers.network
        core = np.arange(network.neurons) // MANY_PROFILES
        shape = replace(
            integers.shape, neurons=MANY_PROFILES, axons=DEEPEST.axons, routes=DEEPEST.routes,
            synapses=DEEPEST.synapses, profiles=MANY_PROFILES, x_bits=16, y_bits=1,
        )  # fmt: skip
        return cls(
            model, integers, make_tables(network, core, int(core.max(initial=0)) + 1, 1, shape)
        )

    def run(
        self,
        samples: SpikeSamples,
        recorded: Collection[int],
        team: ThreadTeam,
        take: Callable[[int, SampleRun], None] | None = None,
        progress: OnFraction = ignore,
    ) -> CoresRun:
        """Run all samples.

        recorded : populations of neurons whose spikes are kept
        take : receives each sample and its run, in order

        Raises `MapperError` for inputs that do not exist, and for spikes with another real value.
        """
        self._integers.require_unit(samples)
        model, latency = self._model, self._integers.latency
        first = np.array(model.first)
        silent = [
            each.population for each in model.outputs if model.populations[each.population].silent
        ]
        watched = [
            np.arange(first[each], first[each] + model.populations[each].size) for each in silent
        ]
        columns = np.cumsum([0, *map(len, watched)])
        trains: list[list[SpikeTrains]] = [[] for _ in model.populations]
        potentials: dict[int, list[Floats]] = {each: [] for each in silent}
        clipped = np.zeros(self.slots.neurons.size, np.int64)
        fired = events = 0
        seen = np.concatenate([np.zeros(0, np.int64), *watched])
        ticks = samples.ticks + self.ticks
        runs = simulate_samples(self.slots, InputSpikes.of(samples), ticks, seen, team)
        for sample, run in enumerate(runs):
            for number in recorded:
                size = model.populations[number].size
                trains[number].append(
                    _trains(run, sample, int(first[number]), size, latency[number], samples.ticks)
                )
            for number, a, b in zip(silent, columns, columns[1:], strict=False):
                scale = self._integers.state_scale[seen[a:b]]
                late = latency[number]
                potentials[number].append(run.potential[late : late + samples.ticks, a:b] / scale)
            fired += run.neuron.size
            events += run.events
            clipped += run.saturated
            if take is not None:
                take(sample, run)
            progress((sample + 1) / samples.samples)
        return CoresRun(
            tuple(_joined(each) for each in trains),
            {number: np.array(rows) for number, rows in potentials.items()},
            fired, events, self._by_population(clipped),
        )  # fmt: skip

    def _by_population(self, values: Int64) -> tuple[int, ...]:
        """Return the sums of values per neuron for each population; 0 for inputs."""
        model = self._model
        return tuple(
            0 if each.dynamics is None else int(values[first : first + each.size].sum())
            for each, first in zip(model.populations, model.first, strict=True)
        )


def _trains(
    run: SampleRun, sample: int, first: int, size: int, late: int, ticks: int
) -> SpikeTrains:
    """Return the spikes of a population in a sample, at the ticks of the model."""
    ends = run.ends[late : late + ticks + 1]
    neuron = run.neuron[ends[0] : ends[-1]].astype(np.int64)
    tick = np.repeat(np.arange(ticks), np.diff(ends))
    own = (neuron >= first) & (neuron < first + size)
    return SpikeTrains(np.full(int(own.sum()), sample), tick[own], neuron[own] - first)


def _joined(parts: list[SpikeTrains]) -> SpikeTrains:
    if not parts:
        return SpikeTrains(*[np.zeros(0, np.int64)] * 3)
    return SpikeTrains(*(np.concatenate(column) for column in zip(*parts, strict=True)))
