"""Run the cores of a compiled spiking model on samples, and compare them with its references."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.tables import make_tables
from mapper.concurrency.threads import ThreadTeam
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.spiking.agreement import (
    OutputAgreement,
    PopulationAgreement,
    classes_of,
    compare_outputs,
    compare_populations,
)
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.integer_run import run_integers
from mapper.spiking.model import Floats
from mapper.spiking.reference import SpikeTrains, run_reference
from mapper.spiking.simulate import InputSpikes, SampleRun, simulate_samples
from mapper.spiking.slots import Slots
from storage.samples.spikes import SpikeSamples

Int64 = NDArray[np.int64]


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


class OutputCounts(NamedTuple):
    """Classes of the samples at an output: the neuron with the most spikes, or if the output is
    silent with the largest mean potential.

    counts : spikes of each neuron in all samples, shape (neurons,)
    classes : shape (samples,)
    accuracy : part of the samples whose class is the label, None without labels
    """

    name: str
    counts: Int64
    classes: Int64
    accuracy: float | None


class CoresCheck(NamedTuple):
    """Comparison of the cores with the references.

    spikes : spikes of the integer reference; differences : spikes that only one of both has, and
        potentials of silent outputs that differ
    populations, outputs : agreement with the model in floating point
    model : spikes of the model in floating point, by population
    """

    spikes: int
    differences: int
    populations: tuple[PopulationAgreement, ...]
    outputs: tuple[OutputAgreement, ...]
    model: tuple[SpikeTrains, ...]


class CoresMachine:
    """The cores of a folder, ready to run.

    slots : the tables of the cores
    """

    def __init__(self, folder: SpikingFolder) -> None:
        self.folder = folder
        network, shape = folder.integers.network, folder.integers.shape
        tables = make_tables(network, folder.core, folder.chip.width, folder.chip.height, shape)
        self.slots = Slots.of(tables)

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

        Raises `MapperError` for inputs that do not exist.
        """
        model, latency = self.folder.model, self.folder.integers.latency
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
        ticks = samples.ticks + self.folder.last
        runs = simulate_samples(self.slots, InputSpikes.of(samples), ticks, seen, team)
        for sample, run in enumerate(runs):
            for number in recorded:
                size = model.populations[number].size
                trains[number].append(
                    _trains(run, sample, int(first[number]), size, latency[number], samples.ticks)
                )
            for number, a, b in zip(silent, columns, columns[1:], strict=False):
                scale = self.folder.integers.state_scale[seen[a:b]]
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
        model = self.folder.model
        return tuple(
            0 if each.dynamics is None else int(values[first : first + each.size].sum())
            for each, first in zip(model.populations, model.first, strict=True)
        )


def count_outputs(
    folder: SpikingFolder, samples: SpikeSamples, run: CoresRun
) -> list[OutputCounts]:
    """Return the classes of the samples at each output, and their accuracy."""
    found = []
    for output in folder.model.outputs:
        size = folder.model.populations[output.population].size
        counts = np.bincount(run.spikes[output.population].neuron, minlength=size)
        classes = classes_of(folder.model, samples, run, output.population)
        accuracy = None
        if samples.labels is not None and samples.samples:
            accuracy = float(np.mean(classes == samples.labels))
        found.append(OutputCounts(output.name, counts, classes, accuracy))
    return found


def check_run(folder: SpikingFolder, samples: SpikeSamples, run: CoresRun) -> CoresCheck:
    """Compare a run whose spikes were all recorded with the integers, and with the real model."""
    model = folder.model
    whole = run_integers(folder.integers, model, samples)
    spikes = differences = 0
    for number, each in enumerate(model.populations):
        one, other = (
            (trains.sample * samples.ticks + trains.tick) * each.size + trains.neuron
            for trains in (whole.spikes[number], run.spikes[number])
        )
        spikes += one.size
        differences += np.setxor1d(one, other, assume_unique=True).size
    for number, values in whole.potentials.items():
        differences += int((values != run.potentials[number]).sum())
    real = run_reference(model, samples)
    return CoresCheck(
        spikes, differences, compare_populations(model, samples, real, run),
        compare_outputs(model, samples, real, run), real.spikes,
    )  # fmt: skip


def run_digest(folder: SpikingFolder, run: CoresRun) -> str:
    """Return the SHA-256 of the spikes and potentials of all outputs; equal on any mapping."""
    found = hashlib.sha256()
    for output in folder.model.outputs:
        for column in run.spikes[output.population]:
            found.update(np.ascontiguousarray(column, "<i8").tobytes())
        if output.population in run.potentials:
            found.update(np.ascontiguousarray(run.potentials[output.population], "<f8").tobytes())
    return found.hexdigest()


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
