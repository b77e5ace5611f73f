"""Compilation of a spiking model to the integers of cores: read, discretise, measure, convert.

Each step has its module: `discretise` turns time constants into decays per tick,
`reference` runs the real numbers on samples and measures how large states get, `schedule` computes
which population is how late on the chip, `integers` chooses scales and fraction bits, `search` the
width of the weights, and `mapping` the core of each neuron.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipsim.chip.model import Chip
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.tables import ChipTables, make_tables
from mapper.errors import CheckFailedError, DoesNotFitError, MapperError
from mapper.inputs.listener import QUIET, Listener
from mapper.spiking.chip_core import core_within
from mapper.spiking.discretise import ResetMode, model_of_graph
from mapper.spiking.integers import IntegerModel, IntegerOptions, MeasuredActivity, to_integers
from mapper.spiking.mapping import map_neurons
from mapper.spiking.model import SpikingModel
from mapper.spiking.reference import ReferenceRun, run_reference
from mapper.spiking.schedule import Schedule, schedule
from mapper.spiking.search import (
    WEIGHT_BITS,
    AgreementLimits,
    CalibratedModel,
    PrecisionSearch,
    PrecisionTrial,
    search_precision,
)
from storage.errors import BadInputError
from storage.samples.encoding import Encoding
from storage.samples.spikes import SpikeSamples, read_spike_samples, spikes_of_arrays

if TYPE_CHECKING:
    import nir


SampleSource = Path | Mapping[str, ArrayLike]
"""Samples in a file, or in arrays with the names of its arrays."""


class CompiledSpikes(NamedTuple):
    """A model as cores compute it.

    trials : precisions that were tried; empty without samples
    chosen : number of the trial of `integers`, None without samples
    missed : the limits that `integers` miss, in one line; "" if they hold
    notes : a line for each kind of rounded or omitted number
    activity : spikes per tick of each neuron and input on the samples, shape (neurons + inputs,);
        None without samples
    """

    model: SpikingModel
    schedule: Schedule
    integers: IntegerModel
    trials: tuple[PrecisionTrial, ...]
    chosen: int | None
    missed: str
    notes: tuple[str, ...]
    activity: NDArray[np.float64] | None


class SpikingOptions(NamedTuple):
    """How a model is read and converted.

    tick : duration of a tick in the time unit of the model, None for the model's `dt`
    reset : to `v_reset`, or by subtraction of the threshold
    integers : scales
    limits : agreement with the model on the samples
    weight_bits : widths to try, from narrow to wide
    encoding : of samples that hold real numbers; None for samples of spikes. It determines
        `IntegerOptions.input_unit`.
    keep_going : whether to return the best integers if none hold the limits
    memory : budget in bytes for content whose size the model declares; None: the default
    """

    tick: float | None = None
    reset: ResetMode = "zero"
    integers: IntegerOptions = IntegerOptions()
    limits: AgreementLimits = AgreementLimits()
    weight_bits: tuple[int, ...] = WEIGHT_BITS
    encoding: Encoding | None = None
    keep_going: bool = False
    memory: int | None = None


def compile_spikes(
    graph: nir.NIRGraph | Path,
    shape: CoreShape,
    calibration: SampleSource | None = None,
    options: SpikingOptions | None = None,
    listener: Listener = QUIET,
) -> CompiledSpikes:
    """Compile a NIR graph, or a file with one, to the integers of cores of a shape.

    calibration : samples that show how large states get, and on which the narrowest weights that
        agree with the model are chosen; without them, weights have the bits of `shape`, and bounds
        of states are assumed

    Raises `BadInputError` for faulty graphs and samples, `MapperError` for models that cores
    cannot run, and `CheckFailedError` if no weights agree with the model.
    """
    given = options or SpikingOptions()
    notes: list[str] = []
    with listener.stage("read"):
        model = model_of_graph(graph, given.tick, given.reset, notes, given.memory)
    times = schedule(model, shape.longest_delay)
    scales = _scales(given)
    activity = None
    if calibration is None:
        found = PrecisionSearch(to_integers(model, times, shape, scales), (), None)
    else:
        with listener.stage("calibrate") as progress:
            samples = samples_of(model, calibration, given.encoding)
            run = run_reference(model, samples, progress)
            measured = measured_activity(model, samples, run)
        calibrated = CalibratedModel(model, times, samples, run, measured)
        # Sums must hold as many spikes of an input per tick as the samples have.
        activity = measured.activity
        most = max(scales.input_spikes, int(samples.value.max(initial=1)))
        scales = scales._replace(input_spikes=most)
        with listener.stage("choose weight bits") as progress:
            found = search_precision(
                calibrated, shape, scales, given.limits, given.weight_bits, progress
            )
        if found.missed and not given.keep_going:
            raise CheckFailedError(
                f"calibration: no weights agree with the model: {found.missed}; change "
                "--max-loss or --min-agreement, or keep the result with --keep-going"
            )
    return CompiledSpikes(
        model, times, found.integers, found.trials, found.chosen, found.missed,
        (*notes, *_losses(found.integers)), activity,
    )  # fmt: skip


class MappedSpikes(NamedTuple):
    """A compiled model on the cores of a chip.

    core : core id y * width + x of each neuron, ndarray[int64], shape (neurons,)
    tables : contents of the cores' memories
    """

    compiled: CompiledSpikes
    core: NDArray[np.int64]
    tables: ChipTables


def compile_for_chip(
    graph: nir.NIRGraph | Path,
    chip: Chip,
    calibration: SampleSource | None = None,
    options: SpikingOptions | None = None,
    listener: Listener = QUIET,
) -> MappedSpikes:
    """Compile a NIR graph as `compile_spikes` does, for the cores of a chip, and map it onto them.

    Raises also `DoesNotFitError`, naming the population or the core, and the limit.
    """
    given = options or SpikingOptions()
    compiled = compile_spikes(
        graph, core_within(chip, given.weight_bits[0]), calibration, given, listener
    )
    network, wide = compiled.integers.network, compiled.integers.shape
    slots = core_within(chip, longest_delay=int(network.delay.max(initial=0))).delay_slots
    shape = replace(wide, delay_slots=slots)
    with listener.stage("map"):
        core = map_neurons(compiled.model, network, chip, shape, compiled.activity)
        try:
            tables = make_tables(
                network, core, chip.width, chip.height, shape, compiled.model.watched.tolist()
            )
        except HwError as error:
            raise DoesNotFitError(str(error)) from error
    fitted = compiled._replace(integers=compiled.integers._replace(shape=shape))
    return MappedSpikes(fitted, core, tables)


def _scales(options: SpikingOptions) -> IntegerOptions:
    """Return the options of integers, with the spikes of the encoding."""
    given, encoding = options.integers, options.encoding
    if encoding is None:
        return given
    most = max(given.input_spikes, encoding.input_spikes)
    return given._replace(input_unit=encoding.unit, input_spikes=most)


def samples_of(
    model: SpikingModel, source: SampleSource, encoding: Encoding | None = None
) -> SpikeSamples:
    """Read samples for the inputs of a model; raises `BadInputError`.

    encoding : of samples that hold real numbers; the same as in `SpikingOptions`
    """
    inputs = [model.populations[number] for number in model.inputs]
    shapes = {each.name: each.shape for each in inputs}
    if isinstance(source, Path):
        return read_spike_samples(source, shapes, encoding)
    try:
        return spikes_of_arrays(source, shapes, encoding)
    except BadInputError as error:
        raise BadInputError(f"samples: {error}") from error


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
