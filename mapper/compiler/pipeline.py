"""The compiler, top to bottom: from a model to a program for each core, in stages.

read -> optimise -> quantise, verify -> partition -> execution order -> feature memory -> weights
-> tiles and instructions -> host memory -> cycles; `mapper.compiler.output` writes what comes out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import Timeline
from hw.npu.isa import Instruction
from mapper.compiler.calibration import calibration_of, dataset, left_out
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.presets import Preset
from mapper.compiler.codegen.program import (
    Core,
    emitted,
    host_words,
    require_instructions,
)
from mapper.compiler.codegen.steps import Step
from mapper.compiler.codegen.tables import Tables
from mapper.compiler.frontend.model import Model, built
from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.padding import NO_BORDERS, borders_of
from mapper.compiler.memory.planner import (
    Region,
    Stored,
    border_log,
    memory_log,
    plan_memory,
)
from mapper.compiler.partition.functions import Partition, divide
from mapper.compiler.partition.hostplan import Step as HostStep
from mapper.compiler.partition.hostplan import plan_host
from mapper.compiler.partition.islands import optimised
from mapper.compiler.passes.base import Context
from mapper.compiler.passes.constants import CONSTANTS
from mapper.compiler.passes.registry import (
    context_of,
    lay_out,
    optimise_integers,
    optimise_quantised,
)
from mapper.compiler.quantise.exact import ExactLayers
from mapper.compiler.quantise.losses import LayerLoss, layer_losses
from mapper.compiler.quantise.ranges_file import RangesFile
from mapper.compiler.quantise.rest import is_in_part
from mapper.compiler.quantise.score import Limits
from mapper.compiler.quantise.verify import Verified, verified
from mapper.compiler.requirements import require_bits, require_core
from mapper.compiler.schedule.packing import Packing, packing_cost
from mapper.compiler.schedule.preloaded import Preloaded
from mapper.compiler.schedule.units import timeline_of_functions
from mapper.compiler.settings import CompileSettings
from mapper.compiler.stages import stage
from mapper.errors import MapperError
from storage.samples import SampleArrays


@dataclass(slots=True)
class Compiled:
    """A model as a program for one core, and how it came about.

    graph : of integers; macros : its nodes as a core runs them
    partition : macro nodes and nodes of the host as functions and what is between
    host_weights : words that the host keeps, shape (words, rows, columns)
    static_words : weight words that stay in the core
    preset : of the maps, before the first frame
    records : the file of macro records that the program is made from
    ends : instructions up to the end of each macro node
    spans : first instruction of each function, and the one behind its END
    verified : how near it is to the model, and what was tried; None if it was quantised already
    notes : of the log, what changes numbers or where they are computed
    losses : of each layer over the calibration samples; graphs : by stage
    """

    graph: Graph
    partition: Partition
    regions: dict[Tensor, Region]
    tables: Tables
    host_weights: NDArray[np.int8]
    static_words: int
    preset: Preset
    steps: list[Step]
    program: list[Instruction]
    records: bytes
    ends: list[int]
    spans: list[tuple[int, int]]
    timeline: Timeline
    packing: Packing
    host: list[HostStep]
    verified: Verified | None
    losses: list[LayerLoss]
    graphs: dict[str, Graph]
    log: list[str]
    notes: list[str]

    @property
    def macros(self) -> list[Macro]:
        """In the order in which they run."""
        return self.partition.macros


def compile_model(
    model: Model, shape: NpuShape, samples: SampleArrays | RangesFile | None,
    settings: CompileSettings, test: SampleArrays | None = None,
) -> Compiled:  # fmt: skip
    """Compile a model for a core. The clock of `mapper.compiler.stages` that runs is told the time
    of each stage.

    samples : to calibrate with, or ranges of some; none for a model that is quantised already
    test : samples to verify with; None takes some of `samples`
    Raises `MapperError` that names the node, `DoesNotFitError` that names the memory.
    """
    require_core(shape, settings)
    log: list[str] = []
    notes: list[str] = []
    graphs: dict[str, Graph] = {}
    found: Verified | None = None
    losses: list[LayerLoss] = []
    if samples is None:
        with stage("read"):
            graph = built(model, settings.keep, CONSTANTS.name not in settings.off)
        with stage("optimise"):
            notes += graph.notes
            log += optimise_quantised(graph, settings.off, Context(shape))
    else:
        found, losses = _quantised(model, shape, samples, settings, test, log, notes)
        graphs["float"], graph = found.best.source, found.best.graph
    graphs["integer"] = graph
    choices = Choices(settings.bias, settings.dual, settings.schedule, settings.first_tile)
    with stage("optimise", whole=True):
        require_bits(graph, shape)
        context = context_of(shape, choices, settings.reuse, settings.few_channels)
        log += optimise_integers(graph, context, settings.off)
    with stage("partition"):
        macros, places, told = lay_out(graph, context, settings.off)
        log += told
        if not macros:
            raise MapperError(f"{model.path}: no node of it runs on a core; nothing to compile")
    with stage("execution order"):
        partition = divide(graph, macros)
    with stage("feature memory"):
        stored = Stored(partition.macros, partition.written(), partition.read(), places)
        borders = NO_BORDERS
        if settings.padding == "stored":
            borders, told = borders_of(partition.macros, places)
            log += told
        regions = plan_memory(stored, shape.columns, shape.map_vectors, settings.reuse, borders)
        log += memory_log(regions, shape.columns) + border_log(regions, shape.columns)
    with stage("weight memory"):
        weights = plan_weights(partition.macros, shape, settings.weights)
    with stage("instructions"):
        made = emitted(partition, Core(shape, regions, weights), choices, log)
        emitter, spans = made.emitter, partition.spans(made.ends)
        program = made.program(spans)
        require_instructions(program, emitter.steps, partition.macros, shape)
    with stage("host memory"):
        host = plan_host(graph, partition, regions, model.opsets)
        words = host_words(emitter.streams.words, shape)
    with stage("cycles"):
        before = Preloaded.of(emitter.tables, made.preset)
        timeline = timeline_of_functions(program, spans, shape, before)
        packing = packing_cost(
            [program[begin:behind] for begin, behind in spans], partition.macros, shape,
            settings.pack_chunk, before,
        )  # fmt: skip
    return Compiled(
        graph,
        partition,
        regions,
        emitter.tables,
        words,
        weights.static,
        made.preset,
        emitter.steps,
        program,
        made.records,
        made.ends,
        spans,
        timeline,
        packing,
        host,
        found,
        losses,
        graphs,
        log + notes,
        list(dict.fromkeys(notes)),
    )


def _quantised(
    model: Model, shape: NpuShape, samples: SampleArrays | RangesFile, settings: CompileSettings,
    test: SampleArrays | None, log: list[str], notes: list[str],
) -> tuple[Verified, list[LayerLoss]]:  # fmt: skip
    """A model in floating point as one of integers, and what each layer loses, if samples tell it.

    log, notes : are added to
    """
    calibration = calibration_of(model, samples, settings)
    beside = None if test is None else dataset(model, test)

    def source_of(kept: Collection[str]) -> Graph:
        source, told = optimised(model, kept, settings.off, shape)
        log.extend(told)
        notes.extend(source.notes)
        notes.extend(ExactLayers(source).notes())
        return source

    found = verified(
        source_of, calibration, settings.wish(shape.multiplier == "dual"),
        Limits(settings.max_loss, settings.min_signal), beside,
    )  # fmt: skip
    best, losses = found.best, []
    notes += best.notes + left_out(found, calibration, settings)
    seen = beside if isinstance(calibration, RangesFile) else calibration
    if seen is not None and not is_in_part(best.source):
        with stage("verify"):
            losses = layer_losses(best.source, best.graph, best.stored, seen.of(best.source))
    if found.frames:
        whose = "of --verify" if test is not None else "of those that ranges were measured with"
        log.append(f"verified with {found.frames:,} samples {whose}")
    log += [
        f"{one.layer.conv.label}: mean error of a channel at most {one.before:.3g} -> "
        f"{one.after:.3g} steps"
        for one in best.corrections
    ]
    return found, losses
