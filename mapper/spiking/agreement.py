"""Agreement of two runs of a model on the same samples: spike trains, and classes of outputs.

Trains are compared as vectors of spike counts per neuron and bin of ticks, by the cosine of the
angle between them: 1 for equal trains, 0 if no spikes fall together.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from mapper.spiking.arrivals import Ints
from mapper.spiking.model import Floats, SpikingModel
from mapper.spiking.reference import SpikeTrains
from storage.samples.spikes import SpikeSamples

BINS = (1, 5, 20)
"""Widths of the bins in ticks."""


class ModelRun(Protocol):
    """Results of a model on samples, in real numbers or in integers."""

    @property
    def spikes(self) -> tuple[SpikeTrains, ...]: ...
    @property
    def potentials(self) -> dict[int, Floats]: ...


class BinnedCosine(NamedTuple):
    """Cosine of trains in bins of `ticks`: its mean over the samples, and the least."""

    ticks: int
    mean: float
    least: float


class PopulationAgreement(NamedTuple):
    """Agreement of the trains of a population.

    expected, found : numbers of spikes in the two runs
    cosines : for each width of `BINS`
    diverges : first tick in which a sample differs, None if all are equal
    """

    name: str
    expected: int
    found: int
    cosines: tuple[BinnedCosine, ...]
    diverges: int | None


class OutputAgreement(NamedTuple):
    """Agreement of the classes of an output.

    The class of a sample is the neuron with the most spikes, or with the largest mean potential if
    the output is silent.

    same : part of the samples with the same class in both runs
    expected, found : part of the samples whose class is the label; None without labels
    """

    name: str
    same: float
    expected: float | None
    found: float | None


def compare_populations(
    model: SpikingModel, samples: SpikeSamples, expected: ModelRun, found: ModelRun
) -> tuple[PopulationAgreement, ...]:
    """Compare the trains of each population that fires; both runs have the ticks of the model."""
    rows = []
    for number, each in enumerate(model.populations):
        if each.dynamics is None or each.silent:
            continue
        pair = (expected.spikes[number], found.spikes[number])
        rows.append(
            PopulationAgreement(
                each.name,
                pair[0].tick.size,
                pair[1].tick.size,
                tuple(_cosine(*pair, ticks, each.size, samples) for ticks in BINS),
                _divergence(*pair, each.size, samples),
            )
        )
    return tuple(rows)


def compare_outputs(
    model: SpikingModel, samples: SpikeSamples, expected: ModelRun, found: ModelRun
) -> tuple[OutputAgreement, ...]:
    """Compare the classes of each output; there are none without samples."""
    rows = []
    for output in model.outputs if samples.samples and samples.ticks else ():
        one, other = (
            classes_of(model, samples, run, output.population) for run in (expected, found)
        )
        right: list[float | None] = [None, None]
        if samples.labels is not None:
            right = [float(np.mean(each == samples.labels)) for each in (one, other)]
        rows.append(OutputAgreement(output.name, float(np.mean(one == other)), *right))
    return tuple(rows)


def classes_of(model: SpikingModel, samples: SpikeSamples, run: ModelRun, number: int) -> Ints:
    """Return the class of each sample at a population."""
    if model.populations[number].silent:
        return run.potentials[number].mean(axis=1).argmax(axis=1)
    size = model.populations[number].size
    return run.spikes[number].counts(samples.samples, size).argmax(axis=1)


def _cosine(
    one: SpikeTrains, other: SpikeTrains, ticks: int, size: int, samples: SpikeSamples
) -> BinnedCosine:
    bins = -(-samples.ticks // ticks)
    parts = [_counted(each, ticks, bins, size) for each in (one, other)]
    common, at, there = np.intersect1d(
        parts[0][0], parts[1][0], assume_unique=True, return_indices=True
    )
    count = samples.samples
    product = np.bincount(
        common // (bins * size), parts[0][1][at] * parts[1][1][there], minlength=count
    )
    norms = [
        np.sqrt(np.bincount(key // (bins * size), value * value, minlength=count))
        for key, value in parts
    ]
    length = norms[0] * norms[1]
    silent = (norms[0] == 0) & (norms[1] == 0)
    if not count:
        return BinnedCosine(ticks, 1.0, 1.0)
    cosine = np.where(silent, 1.0, product / np.where(length > 0, length, 1.0))
    cosine = np.minimum(cosine, 1.0)  # equal trains may round above
    return BinnedCosine(ticks, float(cosine.mean()), float(cosine.min()))


def _counted(trains: SpikeTrains, ticks: int, bins: int, size: int) -> tuple[Ints, Floats]:
    """Return the bins of a neuron in a sample that have spikes, ascending, and their counts."""
    key = (trains.sample * bins + trains.tick // ticks) * size + trains.neuron
    found, counts = np.unique(key, return_counts=True)
    return found, counts.astype(np.float64)


def _divergence(
    one: SpikeTrains, other: SpikeTrains, size: int, samples: SpikeSamples
) -> int | None:
    """Return the first tick with a spike that one of the runs lacks."""
    first, second = (
        (each.tick * max(samples.samples, 1) + each.sample) * size + each.neuron
        for each in (one, other)
    )
    differs = np.setxor1d(first, second, assume_unique=True)
    return int(differs.min() // (max(samples.samples, 1) * size)) if differs.size else None
