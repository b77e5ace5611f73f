"""The result of `mapper.compile_model`: a spiking model on the cores of a chip."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.errors import UsageError, as_argument_errors, name_arguments, shown
from mapper.inputs.listener import Listener, NotesListener
from mapper.inputs.samples import GivenSamples, sample_table
from mapper.monitoring.bars import GivenProgress, progress_of, require_progress
from mapper.results.output_folder import output_folder
from mapper.results.output_folder import read_folder as read_output
from mapper.results.temporary_folder import with_folder
from mapper.spiking.artifacts.compile import compile_into, notes_of
from mapper.spiking.artifacts.cycles import TickCycles
from mapper.spiking.artifacts.folder import SpikingFolder, read_folder
from mapper.spiking.artifacts.manifest_file import CoreEntry, Manifest, OutputTrial, PopulationTrial
from mapper.spiking.artifacts.run import SpikesRequest, SpikesRun, run_folder
from mapper.spiking.artifacts.simulate import CoresCheck
from mapper.spiking.pipeline import SampleSource, SpikingOptions

if TYPE_CHECKING:
    import nir

    from chipsim.chip.model import Chip
    from mapper.spiking.reference import SpikeTrains


class SimulatedOutput(NamedTuple):
    """Results of an output of the model.

    counts : spikes, ndarray[int64], shape (samples, neurons)
    potentials : of an output that never fires, shape (samples, ticks, neurons); else None
    classes : ndarray[int64], shape (samples,): the neuron with the most spikes, or with the
        largest mean potential
    accuracy : part of the samples whose class is the label; None without labels
    """

    counts: NDArray[np.int64]
    potentials: NDArray[np.float64] | None
    classes: NDArray[np.int64]
    accuracy: float | None


class SimulatedModel(NamedTuple):
    """Results of the cores on samples, returned by `CompiledModel.simulate`.

    outputs : by name
    spikes : of each population of neurons by name: arrays `sample`, `tick` and `neuron`, of shape
        (spikes,), at the ticks of the model
    events : synaptic events of all samples
    saturated : per population, ticks of neurons in which a value was clipped
    check : comparison with the integer reference and with the model; None without it
    notes : a line for inputs that spike more often than the model was compiled for
    cycles : cycles of all ticks, and packets; None without it
    hardware : ticks, spikes and cycles that are equal in Amaranth; None without it
    figures : the object of `mapper simulate --json`
    """

    outputs: dict[str, SimulatedOutput]
    spikes: dict[str, SpikeTrains]
    events: int
    saturated: dict[str, int]
    check: CoresCheck | None
    notes: tuple[str, ...]
    cycles: TickCycles | None
    hardware: dict[str, int] | None
    figures: dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class CompiledModel:
    """A spiking model on the cores of a chip, returned by `mapper.compile_model`.

    Attributes
    ----------
    folder : with the files of `mapper compile`; a temporary folder lasts as long as this object
    chip : the chip
    manifest : all figures of manifest.json
    core : ndarray[int64], shape (neurons,), core id (y * width + x) of each neuron, in the order of
        the populations in the manifest
    notes : a line for each kind of number that was rounded, omitted or assumed
    """

    folder: Path
    chip: Chip
    manifest: Manifest
    core: NDArray[np.int64]
    notes: tuple[str, ...]
    _content: SpikingFolder

    @property
    def weight_bits(self) -> int:
        """Bits of the weights."""
        return self.manifest.shape["weight_bits"]

    @property
    def cores(self) -> list[CoreEntry]:
        """Words used in the memories of each core with neurons."""
        return self.manifest.cores

    @property
    def agreement(self) -> dict[str, PopulationTrial]:
        """Agreement of each population with the model on the calibration samples, by name."""
        chosen = self.manifest.chosen
        rows = [] if chosen is None else self.manifest.trials[chosen].populations
        return {each.name: each for each in rows}

    @property
    def output_agreement(self) -> dict[str, OutputTrial]:
        """Agreement of the classes of each output on the calibration samples, by name."""
        chosen = self.manifest.chosen
        rows = [] if chosen is None else self.manifest.trials[chosen].outputs
        return {each.name: each for each in rows}

    def simulate(
        self,
        samples: GivenSamples,
        *,
        limit: int | None = None,
        threads: int = 1,
        check: bool = False,
        cycles: bool = False,
        progress: GivenProgress = None,
        hardware: bool = False,
    ) -> SimulatedModel:
        """Run the cores on samples, as `mapper simulate` does.

        Parameters
        ----------
        samples : as `calibrate` of `mapper.compile_model`
        limit : number of samples to run, from the first; default: all
        threads : number of threads; the results do not depend on it
        check : compare every spike with the integers run without cores, and the trains with the
            model in floating point
        cycles : count the cycles of each tick
        progress : called with a stage and the fraction of its work, 0 .. 1; or True or False, see
            `mapper.map_network`
        hardware : also run the samples in Amaranth, and compare all spikes, states and cycles

        Raises `UsageError` for invalid arguments, and `MapperError` for invalid samples.
        """
        for name, value in (("threads", threads), ("limit", 1 if limit is None else limit)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} is {shown(value)}; give a whole number of 1 or more")
        require_progress(progress)
        with as_argument_errors(), progress_of(progress) as on_progress:
            listener = NotesListener(on_progress)
            source = sample_source(samples, "samples")
            request = SpikesRequest(source, limit, check, cycles, hardware, True, threads)
            found = run_folder(self._content, request, listener)
        return _simulated(found, tuple(listener.notes))

    def save(self, output: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the folder of `mapper compile` and return its path; force : replace an output."""
        path = Path(output)
        with as_argument_errors(), output_folder(path, force) as work:
            for each in self.folder.iterdir():
                shutil.copyfile(each, work.folder / each.name)
        return path

    def __repr__(self) -> str:
        found = self.manifest
        return (
            f"<CompiledModel {found.model.name} on {found.chip['name']}: {found.neurons:,} "
            f"neurons, {len(found.cores)} cores, {self.weight_bits}-bit weights>"
        )


def _simulated(found: SpikesRun, notes: tuple[str, ...]) -> SimulatedModel:
    """Return a run whose spikes were all recorded, by the names of outputs and populations."""
    model, run = found.folder.model, found.cores
    neural = [n for n, each in enumerate(model.populations) if each.dynamics is not None]
    names = [each.name for each in model.populations]
    outputs = {}
    for output, row in zip(model.outputs, found.outputs, strict=True):
        trains, size = run.spikes[output.population], row.counts.size
        outputs[output.name] = SimulatedOutput(
            trains.counts(found.samples.samples, size), run.potentials.get(output.population),
            row.classes, row.accuracy,
        )  # fmt: skip
    return SimulatedModel(
        outputs, {names[number]: run.spikes[number] for number in neural}, run.events,
        {names[number]: run.saturated[number] for number in neural}, found.check, notes,
        found.cycles, found.hardware, found.to_json(),
    )  # fmt: skip


def sample_source(samples: GivenSamples, name: str) -> SampleSource:
    """Return samples as a path, or as arrays by name; an array is `x`.

    Raises `UsageError` that calls the argument `name`.
    """
    found = sample_table(
        samples, name,
        "the path of an .npz file, an array of shape (samples, ticks, *shape), or arrays by name",
    )  # fmt: skip
    return found if isinstance(found, Path) else found.arrays


def compile_folder(
    model: nir.NIRGraph | Path,
    chip: Chip,
    samples: SampleSource | None,
    options: SpikingOptions,
    target: tuple[Path | None, bool],
    listener: Listener,
) -> CompiledModel:
    """Compile a model into a folder, or into a temporary one that lasts as long as the result.

    target : the folder, or None, and whether to replace it

    Raises the errors of `compile_into`.
    """
    command = ["mapper.compile_model"]
    return with_folder(
        *target,
        lambda folder: compile_into(folder, model, chip, samples, options, command, listener),
        lambda folder, found: _compiled(found._replace(path=folder)),
    )


def open_model(folder: Path) -> CompiledModel:
    """Return the compiled model of a folder; raise `MapperError` if it is damaged."""
    return _compiled(read_output(folder, lambda: read_folder(folder)))


def _compiled(found: SpikingFolder) -> CompiledModel:
    notes = tuple(map(name_arguments, notes_of(found)))
    return CompiledModel(found.path, found.chip, found.manifest, found.core, notes, found)
