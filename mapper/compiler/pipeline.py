"""The compiler, top to bottom: from a model to a program for each core, in stages.

read -> optimise -> quantise, verify -> partition -> execution order -> feature memory -> weights ->
tiles and instructions -> host memory -> cycles; `mapper.compiler.output` writes the result.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from mapper.cache.cache import OFF, Cache, Slot
from mapper.compiler.caching import CompileInputs, cuts_slot, kept_ranges
from mapper.compiler.calibration import calibration_of, dataset, left_out
from mapper.compiler.codegen.code import CoreCode
from mapper.compiler.codegen.program import host_words
from mapper.compiler.compiled import Compiled
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.macro import Macro
from mapper.compiler.jobs import job_of, require_core, require_room
from mapper.compiler.log import CompileLog
from mapper.compiler.model import Model, built
from mapper.compiler.multicore.job import CompileJob, Made
from mapper.compiler.multicore.search import spread
from mapper.compiler.multicore.spread import on_one_core, refusal, usable_places
from mapper.compiler.optimise import optimised
from mapper.compiler.partition.hostplan import plan_host
from mapper.compiler.partition.hostwork import host_notes
from mapper.compiler.partition.packing import in_parts
from mapper.compiler.program.presets import Preloaded
from mapper.compiler.quantisation.exact import ExactLayers
from mapper.compiler.quantisation.layer_names import require_layers
from mapper.compiler.quantisation.losses import LayerLoss, layer_losses
from mapper.compiler.quantisation.ranges import RangesFile
from mapper.compiler.quantisation.rest import is_in_part
from mapper.compiler.quantisation.score import Limits
from mapper.compiler.quantisation.verify import (
    MOST_RAISED,
    Verified,
    output_notes,
    raised_note,
    request_of,
    verified,
)
from mapper.compiler.settings import CompileSettings
from mapper.compiler.stages import stage
from mapper.compiler.tiling.packing import PackingCycles, packing_cost
from mapper.compiler.transforms.base import Context, added_by_16_bits
from mapper.compiler.transforms.floats.constants import CONSTANTS
from mapper.compiler.transforms.registry import optimise_quantised
from mapper.errors import DoesNotFitError, MapperError
from mapper.placement.clock import Clock
from storage.samples import SampleArrays


def compile_model(
    model: Model, shape: NpuShape, samples: SampleArrays | RangesFile | None,
    settings: CompileSettings, test: SampleArrays | None = None, chip: Chip | None = None,
    cache: Cache = OFF,
) -> Compiled:  # fmt: skip
    """Compile a model for the cores of a chip, or for one core.

    The running clock of `mapper.compiler.stages` measures each stage.

    samples : calibration samples or their ranges; None for a model that is already quantised
    test : samples to verify with; None uses some of `samples`
    chip : chip with such cores; None is one core
    cache : results of earlier searches, which are extended
    Raises `MapperError` that names the file and the node, `DoesNotFitError` that names the memory.
    """
    require_core(shape, settings)
    chip = chip or Chip("one core", 1, 1, npu=shape)
    kept = cuts_slot(cache, CompileInputs(model, samples, test), chip, settings, shape)
    try:
        return _compiled(model, shape, samples, settings, test, chip, kept)
    except MapperError as error:
        if str(model.path) in str(error):
            raise
        raise type(error)(f"{model.path}: {error}") from error


def _compiled(
    model: Model, shape: NpuShape, samples: SampleArrays | RangesFile | None,
    settings: CompileSettings, test: SampleArrays | None, chip: Chip, kept: Slot,
) -> Compiled:  # fmt: skip
    log, clock = CompileLog(), Clock(settings.time_limit)
    graphs: dict[str, Graph] = {}
    found: Verified | None = None
    losses: list[LayerLoss] = []
    if samples is None:
        with stage("read"):
            graph = built(model, settings.keep, CONSTANTS.name not in settings.off)
        with stage("optimise"):
            log.notes += graph.notes
            optimise_quantised(graph, settings.off, Context(shape, log=log))
    else:
        where = shape, chip, kept.cache
        found, losses = _quantised(model, where, samples, settings, test, log)
        graphs["float"], graph = found.best.source, found.best.graph
    graphs["integer"] = graph
    job = job_of(graph, shape, settings, chip, log, kept.cache)
    job = job._replace(clock=clock, kept=kept)
    partition = job.partition
    log.notes += host_notes(graph, partition, job.operations)
    made = _on_cores(job, chip, log)
    with stage("host memory"):
        regions = {
            tensor: region
            for code in made.codes for tensor, region in code.regions.items()
        } | {one.tensor: one.region for one in made.results}  # fmt: skip
        lists = in_parts(partition) if made.ports else None
        host = plan_host(graph, partition, regions, lists)
        words = host_words(made.host_words, shape)
    with stage("cycles"):
        for code in made.codes:
            _ = code.timeline  # a deadlock ends the compilation here
        packing = max(
            (_packing(code, partition.macros, shape, settings.pack_chunk) for code in made.codes),
            key=lambda one: one.frame,
        )
    return Compiled(
        graph,
        partition,
        made.codes,
        words,
        made.results,
        list(made.ports),
        made.stages,
        packing,
        host,
        found,
        losses,
        graphs,
        log.lines + log.notes,
        list(dict.fromkeys(log.notes)),
        [] if found is None else found.missed(Limits(settings.max_loss, settings.min_signal)),
    )


def _on_cores(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Return programs for all cores, or for one core if only one is allowed or possible."""
    places = usable_places(chip)
    cores = min(len(places), job.settings.cores or len(places))
    why = "" if cores == 1 else refusal(job, cores)
    if cores > 1 and not why:
        try:
            return spread(job, chip, log)
        except DoesNotFitError as error:
            if len(job.partition.functions) == 1:
                raise
            why = str(error)
    if why:
        log.notes.append(f"the model runs on one core: {why}")
    return on_one_core(job, places[0], log)


def _packing(code: CoreCode, macros: list[Macro], shape: NpuShape, chunk: int) -> PackingCycles:
    """Return the cost of packing on a core, compared with packing of all maps on the host."""
    functions = [code.program[begin:stop] for begin, stop in code.spans]
    return packing_cost(functions, macros, shape, chunk, Preloaded.of(code.tables, code.preset))


def _quantised(
    model: Model, where: tuple[NpuShape, Chip, Cache], samples: SampleArrays | RangesFile,
    settings: CompileSettings, test: SampleArrays | None, log: CompileLog,
) -> tuple[Verified, list[LayerLoss]]:  # fmt: skip
    """Quantise a floating-point model; return the loss of each layer if there are samples.

    where : the core, the chip, and results of earlier work; log : extended
    Raises `DoesNotFitError` before calibration if maps fit no core.
    """
    shape, chip, cache = where
    bits, request = settings.layer_bits, request_of(settings)
    if bits.raises and shape.multiplier == "dual":
        added = partial(added_by_16_bits, shape=shape)
        request = replace(request, most_raised=MOST_RAISED, added=added)
    inputs = CompileInputs(model, samples, test)
    measure = kept_ranges(cache, inputs, shape, settings)
    calibration = calibration_of(model, samples, settings, measure)
    beside = None if test is None else dataset(model, test)

    def source_of(kept: Collection[str]) -> Graph:
        source = optimised(model, kept, settings.off, Context(shape, log=log))
        require_layers(bits, source, [part.name for part in model.parts])
        require_room(source, shape, settings, chip, cache)
        log.notes += source.notes + ExactLayers(source).notes()
        return source

    found = verified(
        source_of, calibration, request, Limits(settings.max_loss, settings.min_signal), beside,
    )  # fmt: skip
    best, losses = found.best, []
    log.notes += best.notes + raised_note(found) + left_out(found, calibration, settings)
    log.notes += output_notes(found, settings.min_signal)
    seen = beside if isinstance(calibration, RangesFile) else calibration
    if seen is not None and not is_in_part(best.source):
        with stage("verify"):
            losses = layer_losses(best.source, best.graph, best.stored, seen.of(best.source))
    if found.frames:
        whose = "of --verify" if test is not None else "of those that ranges were measured with"
        log.add(f"verified with {found.frames:,} samples {whose}")
    log.lines += [
        f"{one.layer.conv.label}: largest mean error of a channel {one.before:.3g} -> "
        f"{one.after:.3g} steps"
        for one in best.corrections
    ]
    return found, losses
