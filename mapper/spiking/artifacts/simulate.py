"""Classes of the samples in a run of the cores, and its comparison with the references."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.spiking.agreement import (
    OutputAgreement,
    PopulationAgreement,
    classes_of,
    compare_outputs,
    compare_populations,
)
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.integer_run import run_integers
from mapper.spiking.reference import SpikeTrains, run_reference
from mapper.spiking.simulate import CoresRun
from storage.samples.spikes import SpikeSamples

Int64 = NDArray[np.int64]


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


def wrap_warning(folder: SpikingFolder, samples: SpikeSamples) -> str | None:
    """Return a line if inputs spike more often than the sums of the cores are sized for."""
    most, held = int(samples.value.max(initial=0)), folder.integers.options.input_spikes
    if most <= held:
        return None
    return (
        f"inputs spike up to {most:,} times per tick; sums are sized for {held:,} and may wrap: "
        "compile with such samples in --calibrate"
    )


def run_digest(folder: SpikingFolder, run: CoresRun) -> str:
    """Return the SHA-256 of the spikes and potentials of all outputs; equal on any mapping."""
    found = hashlib.sha256()
    for output in folder.model.outputs:
        for column in run.spikes[output.population]:
            found.update(np.ascontiguousarray(column, "<i8").tobytes())
        if output.population in run.potentials:
            found.update(np.ascontiguousarray(run.potentials[output.population], "<f8").tobytes())
    return found.hexdigest()
