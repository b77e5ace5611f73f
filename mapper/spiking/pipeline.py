"""Compilation of a spiking model to the integers of cores: read, discretise, measure, convert.

Each step has its module: `discretise` turns time constants into decays per tick,
`reference` runs the real numbers on samples and measures how large states get, `schedule` computes
which population is how late on the chip, `integers` chooses scales and fraction bits, and `search`
the width of the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hw.core.shape import CoreShape
from mapper.errors import MapperError
from mapper.spiking.discretise import ResetMode, model_of_graph
from mapper.spiking.integers import IntegerModel, IntegerOptions, MeasuredActivity, to_integers
from mapper.spiking.model import SpikingModel
from mapper.spiking.reference import ReferenceRun, run_reference
from mapper.spiking.schedule import Schedule, schedule
from mapper.spiking.search import (
    WEIGHT_BITS,
    AgreementLimits,
    CalibratedModel,
    PrecisionTrial,
    search_precision,
)
from storage.samples.encoding import Encoding
from storage.samples.spikes import SpikeSamples, read_spike_samples

if TYPE_CHECKING:
    import nir


class CompiledSpikes(NamedTuple):
    """A model as cores compute it.

    trials : precisions that were tried, `integers` last; empty without samples
    notes : a line for each kind of rounded or omitted number
    """

    model: SpikingModel
    schedule: Schedule
    integers: IntegerModel
    trials: tuple[PrecisionTrial, ...]
    notes: tuple[str, ...]


class SpikingOptions(NamedTuple):
    """How a model is read and converted.

    tick : duration of a tick in the time unit of the model, None for the model's `dt`
    reset : to `v_reset`, or by subtraction of the threshold
    integers : scales
    limits : agreement with the model on the samples
    weight_bits : widths to try, from narrow to wide
    encoding : of samples that hold real numbers; None for samples of spikes. It determines
        `IntegerOptions.input_unit`.
    """

    tick: float | None = None
    reset: ResetMode = "zero"
    integers: IntegerOptions = IntegerOptions()
    limits: AgreementLimits = AgreementLimits()
    weight_bits: tuple[int, ...] = WEIGHT_BITS
    encoding: Encoding | None = None


def compile_spikes(
    graph: nir.NIRGraph | Path,
    shape: CoreShape,
    calibration: Path | None = None,
    options: SpikingOptions | None = None,
) -> CompiledSpikes:
    """Compile a NIR graph, or a file with one, to the integers of cores of a shape.

    calibration : samples that show how large states get, and on which the narrowest weights that
        agree with the model are chosen; without them, weights have the bits of `shape`, and bounds
        of states are assumed

    Raises `BadInputError` for faulty graphs and samples, `MapperError` for models that cores
    cannot run, and if no weights agree with the model.
    """
    given = options or SpikingOptions()
    notes: list[str] = []
    model = model_of_graph(graph, given.tick, given.reset, notes)
    times = schedule(model, shape.longest_delay)
    trials: tuple[PrecisionTrial, ...] = ()
    scales = _scales(given)
    if calibration is None:
        found = to_integers(model, times, shape, scales)
    else:
        samples = samples_of(model, calibration, given.encoding)
        run = run_reference(model, samples)
        measured = measured_activity(model, samples, run)
        calibrated = CalibratedModel(model, times, samples, run, measured)
        # Sums must hold as many spikes of an input per tick as the samples have.
        most = max(scales.input_spikes, int(samples.value.max(initial=1)))
        scales = scales._replace(input_spikes=most)
        found, trials = search_precision(calibrated, shape, scales, given.limits, given.weight_bits)
    return CompiledSpikes(model, times, found, trials, (*notes, *_losses(found)))


def _scales(options: SpikingOptions) -> IntegerOptions:
    """Return the options of integers, with the spikes of the encoding."""
    given, encoding = options.integers, options.encoding
    if encoding is None:
        return given
    most = max(given.input_spikes, encoding.input_spikes)
    return given._replace(input_unit=encoding.unit, input_spikes=most)


def samples_of(model: SpikingModel, path: Path, encoding: Encoding | None = None) -> SpikeSamples:
    """Read samples for the inputs of a model; raises `BadInputError`.

    encoding : of samples that hold real numbers; the same as in `SpikingOptions`
    """
    inputs = [model.populations[number] for number in model.inputs]
    return read_spike_samples(path, {each.name: each.shape for each in inputs}, encoding)


def measured_activity(
    model: SpikingModel, samples: SpikeSamples, run: ReferenceRun
) -> MeasuredActivity:
    """Return the spikes per tick of all neurons and inputs, and the largest states of neurons.

    run : the model on these samples; raises `MapperError` if there are none
    """
    steps = samples.samples * samples.ticks
    if not steps:
        raise MapperError("calibration: has no samples, or samples without ticks; give some")
    neurons = run.peak.size
    inputs = sum(model.populations[number].size for number in model.inputs)
    counts = np.zeros(neurons + inputs)
    for number, each in enumerate(model.populations):
        if each.dynamics is not None:
            first = model.first[number]
            own = np.bincount(run.spikes[number].neuron, minlength=each.size)
            counts[first : first + each.size] = own
    counts[neurons:] = np.bincount(samples.neuron, samples.value, inputs)
    return MeasuredActivity(run.peak, counts / steps)


def _losses(found: IntegerModel) -> list[str]:
    """Return a line for each kind of number that the integers do not represent."""
    counts = found.counts
    weights = f"of {counts.synapses:,} weights"
    texts = (
        (counts.clipped, f"{weights} clipped to {found.shape.weight_bits} bits"),
        (counts.zeroed, f"{weights} rounded to 0"),
        (counts.lowered, "neurons with coarser weights, so that their states or sums fit"),
        (counts.leakless, "neurons whose leak is rounded to none"),
        (counts.unsettled, "neurons that start late and not at 0"),
    )
    return [f"{count:,} {text}" for count, text in texts if count]
