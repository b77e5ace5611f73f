"""The compiler, top to bottom: from a model to a program for each core, in stages.

read -> optimise -> quantise -> partition -> feature memory -> tiles and instructions -> images
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.cycles import Timeline
from hw.npu.isa import Instruction
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.presets import Preset
from mapper.compiler.codegen.program import (
    Core,
    emitted,
    host_words,
    memory_sizes,
    require_instructions,
)
from mapper.compiler.codegen.steps import Step, with_tokens
from mapper.compiler.codegen.tables import Tables
from mapper.compiler.frontend.model import Model
from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.padding import NO_BORDERS, borders_of
from mapper.compiler.memory.planner import Region, Stored, border_log, memory_use, plan_memory
from mapper.compiler.memory.regions import share
from mapper.compiler.partition.functions import Partition, divide
from mapper.compiler.partition.hostplan import Step as HostStep
from mapper.compiler.partition.hostplan import plan_host
from mapper.compiler.partition.islands import optimised
from mapper.compiler.passes.blocks import whole_blocks
from mapper.compiler.passes.fuse import fuse
from mapper.compiler.passes.integers import optimise_integers
from mapper.compiler.passes.normalise import dense_as_conv
from mapper.compiler.passes.split_outputs import split_outputs
from mapper.compiler.quantise.convert import Converter
from mapper.compiler.quantise.exact import ExactLayers
from mapper.compiler.quantise.losses import LayerLoss, layer_losses
from mapper.compiler.quantise.rest import is_in_part
from mapper.compiler.quantise.score import Dataset, Limits
from mapper.compiler.quantise.verify import Compared, Verified, compared, verified
from mapper.compiler.requirements import require_core, require_dual
from mapper.compiler.schedule.packing import Packing, packing_cost
from mapper.compiler.schedule.units import timeline_of_functions
from mapper.compiler.settings import CompileSettings
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
    ends: list[int]
    spans: list[tuple[int, int]]
    timeline: Timeline
    packing: Packing
    host: list[HostStep]
    verified: Verified | None
    losses: list[LayerLoss]
    graphs: dict[str, Graph]
    seconds: dict[str, float]
    log: list[str]
    notes: list[str]

    @property
    def macros(self) -> list[Macro]:
        """In the order in which they run."""
        return self.partition.macros


PIXEL_SAMPLES, MOST_PIXEL = 16, 255


def compare_settings(
    model: Model, samples: SampleArrays, settings: CompileSettings
) -> list[Compared]:
    """How near a model is in 8 and 16 bits, with zero points and without, by all methods."""
    source = optimised(model, settings.keep, settings.off)[0]
    return compared(source, _calibration(model, samples, settings), settings.wish())


def pixel_samples(model: Model, settings: CompileSettings) -> SampleArrays:
    """Random pixels for a model of which nothing but the input needs a range, as binary ones; any
    numbers, if not even that does.

    Raises `MapperError` if more does: ranges of maps are measured with samples of its own.
    """
    source = optimised(model, settings.keep, settings.off)[0]
    inputs = {view.tensor for view in source.inputs.values()}
    needed = Converter(source, settings.wish().precision).quantised_tensors()
    if not inputs >= set(needed):
        raise MapperError(
            f"{model.path}: is in floating point; give samples with --calibrate to measure the "
            "ranges of its maps"
        )
    shape, random = (PIXEL_SAMPLES, *model.view.shape[1:]), np.random.default_rng(1)
    if not needed:
        return SampleArrays(random.normal(0, 1, shape).astype(np.float32), None, [])
    pixels = random.integers(0, MOST_PIXEL + 1, shape)
    pixels[:2] = np.array([0, MOST_PIXEL]).reshape(2, *(1,) * (len(shape) - 1))
    note = (
        f"{model.name!r} is taken for pixels, whole numbers from 0 to {MOST_PIXEL}: no other range "
        "is needed; give samples with --calibrate if it holds something else"
    )
    return SampleArrays(pixels.astype(np.float32), None, [note])


def _calibration(model: Model, samples: SampleArrays, settings: CompileSettings) -> Dataset:
    """The samples to calibrate with, by the name of the model's input."""
    maps = np.ascontiguousarray(model.view.stored(samples.x[: settings.samples]))
    labels = None if samples.labels is None else samples.labels[: settings.samples]
    return Dataset({model.name: maps}, labels)


def compile_model(
    model: Model, shape: NpuShape, samples: SampleArrays | None, settings: CompileSettings,
    on_stage: Callable[[str, float], None] = lambda _, __: None,
) -> Compiled:  # fmt: skip
    """Compile a model for a core.

    samples : to calibrate and to verify with; none for a model that is quantised already
    on_stage : is told the name of each stage that has ended, and its seconds
    Raises `MapperError` that names the node, `DoesNotFitError` that names the memory.
    """
    require_core(shape, settings)
    off, seconds = settings.off, dict[str, float]()
    log: list[str] = []
    notes: list[str] = []
    graphs: dict[str, Graph] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - started
        on_stage(name, seconds[name])

    def source_of(kept: Collection[str]) -> Graph:
        source, told = optimised(model, kept, settings.off)
        log.extend(told)
        notes.extend(source.notes)
        notes.extend(ExactLayers(source).notes())
        return source

    found: Verified | None = None
    losses: list[LayerLoss] = []
    if samples is None:
        with stage("read"):
            graph = model.build(settings.keep)
            notes += graph.notes
            log += dense_as_conv(graph)
    else:
        with stage("read, optimise, quantise, verify"):
            calibration = _calibration(model, samples, settings)
            found = verified(
                source_of, calibration, settings.wish(shape.multiplier == "dual"),
                Limits(settings.max_loss, settings.min_signal),
            )  # fmt: skip
            graphs["float"], graph = found.best.source, found.best.graph
            notes += found.best.notes
            if not is_in_part(found.best.source):
                losses = layer_losses(
                    found.best.source, graph, found.best.stored, calibration.of(found.best.source)
                )
            log += [
                f"{one.layer.conv.label}: mean error of a channel at most {one.before:.3g} -> "
                f"{one.after:.3g} steps"
                for one in found.best.corrections
            ]
    graphs["integer"] = graph
    choices = Choices(settings.bias, settings.dual, settings.schedule, settings.first_tile)
    with stage("partition"):
        for tensor in graph.tensors():
            if tensor.type == "int16":
                require_dual(shape, f"{tensor.name!r} is stored in 16 bits, and")
        log += optimise_integers(graph, shape, choices, settings.reuse, off)
        log += split_outputs(graph, shape)
        log += whole_blocks(graph, shape.columns)
        places, shared = share(graph, {"int8": shape.columns, "bits": 8 * shape.columns})
        log += shared
        macros = fuse(graph, "fuse" not in off)
        if not macros:
            raise MapperError(f"{model.path}: no node of it runs on a core; nothing to compile")
        partition = divide(graph, macros)
    with stage("feature memory"):
        stored = Stored(partition.macros, partition.written(), partition.read(), places)
        borders = NO_BORDERS
        if settings.padding == "stored":
            borders, told = borders_of(partition.macros, places)
            log += told
        regions = plan_memory(stored, shape.columns, shape.map_vectors, settings.reuse, borders)
        host = plan_host(graph, partition, regions, model.opsets)
        use, vector = memory_use(regions), shape.columns
        log.append(
            f"feature memory: {use.used * vector:,} bytes of maps, {use.bound * vector:,} at "
            "least: the largest sum that is alive at once"
        )
        log += border_log(regions, vector)
    with stage("instructions"):
        weights = plan_weights(partition.macros, shape, settings.weights)
        emitter, ends = emitted(partition, Core(shape, regions, weights), choices, log)
        used = max(memory_use(regions).used, emitter.area.behind)
        sizes = memory_sizes(shape, shape.map_vectors or used)
        spans = partition.spans(ends)
        program: list[Instruction] = []
        for begin, behind in spans:
            program += with_tokens(emitter.steps[begin:behind], sizes)
        require_instructions(program, emitter.steps, partition.macros, shape)
    with stage("cycles"):
        timeline = timeline_of_functions(program, spans, shape)
        packing = packing_cost(
            [program[begin:behind] for begin, behind in spans], partition.macros, shape,
            settings.pack_chunk,
        )  # fmt: skip
    return Compiled(
        graph,
        partition,
        regions,
        emitter.tables,
        host_words(emitter.streams.words, shape),
        weights.static,
        Preset.of(regions, emitter.area),
        emitter.steps,
        program,
        ends,
        spans,
        timeline,
        packing,
        host,
        found,
        losses,
        graphs,
        seconds,
        log + notes,
        list(dict.fromkeys(notes)),
    )
