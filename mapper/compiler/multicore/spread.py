"""Programs of a model for one core, or for several that share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.npu.mesh.chip import HostStages
from mapper.compiler.codegen.builder import MemoryPlan
from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.program import (
    CoreTarget,
    Emitted,
    Tiling,
    emitted,
    linked_cores,
    require_instructions,
)
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.padding import NO_BORDERS, borders_of
from mapper.compiler.memory.planner import PlannedMaps, log_memory, memory_use, plan_memory
from mapper.compiler.memory.regions import have_common
from mapper.compiler.multicore.job import ChipPlan, CompileJob, MacroPiece, Made, Whole
from mapper.compiler.multicore.line_buffers.lines import CutsOfCore, Lines, narrow_cut
from mapper.compiler.multicore.plan import plan_cores
from mapper.compiler.multicore.received import result_functions
from mapper.compiler.partition.hostwork import host_cycles
from mapper.compiler.program.links import CoreLinks, Place
from mapper.compiler.program.presets import Preset
from mapper.compiler.stages import stage
from mapper.compiler.tiling.tiles import Cut
from mapper.errors import DoesNotFitError

NONE: Mapping[Place, Tiling] = MappingProxyType({})


def refusal(job: CompileJob, cores: int) -> str:
    """Return why a model must run on a single core; "" if several can share it.

    cores : number of usable cores
    """
    if (count := len(job.partition.functions)) > cores:
        return f"the host runs nodes between its {count} functions, the chip has {cores} cores"
    if job.settings.padding == "stored":
        return "--padding stored supports a single core only"
    whole = Whole.of(job)

    def owner(tensor: Tensor) -> Tensor:
        return job.places[tensor].owner if tensor in job.places else tensor

    if any(tensor.type == "int32" and owner(tensor) is not tensor for tensor in job.places):
        return "32-bit sums are concatenated or split"
    taken = {tensor for macro in job.partition.macros for tensor in macro.inputs}
    made = {owner(tensor) for macro in job.partition.macros for tensor in macro.outputs}
    for tensor, place in job.places.items():
        beside = place.columns == 1 and tensor.width < place.owner.width
        # whole rows are sent, and parts that cores compute may depend on each other
        if beside and tensor in taken and place.owner in made:
            return f"a layer reads {tensor.name!r}, which is next to other maps in the same rows"
    for tensor in whole.written:
        if not any(have_common(tensor, one, job.places) for one in taken):
            return f"no layer reads {tensor.name!r}, which the host concatenates with other maps"
    given = {(owner(tensor), number) for tensor, number in whole.written.items()}
    owners = [one for one, _ in given]
    if any(owner(tensor) in owners for tensor in whole.read):
        return "the host reads a feature map of which it writes a part"
    if len(set(owners)) < len(owners):
        return "the host writes parts of a feature map before different functions"
    return ""


def runs_on_one(job: CompileJob, chip: Chip) -> bool:
    """Return whether a model runs on one core: other cores are unavailable or unsuitable."""
    cores = min(chip.usable_count, job.settings.cores or chip.usable_count)
    return cores == 1 or bool(refusal(job, cores))


def on_cores(
    job: CompileJob, placed: list[tuple[MacroPiece, Place]], ports: Sequence[Place],
    log: CompileLog, lines: Lines | None = None, tilings: Mapping[Place, Tiling] = NONE,
) -> Made:  # fmt: skip
    """Generate the programs of placed pieces.

    ports : nodes of the host's ports; lines : line buffers, if cores keep some columns of each map
    tilings : known results of the search for tiles

    Raises `DoesNotFitError` that names core, memory and layer.
    """
    whole = Whole.of(job)
    with stage("feature memory"):
        plan = plan_cores(whole, placed, job.shape, ports, _cuts_of(job, lines))
    with stage("instructions"):
        codes, words = chip_programs(plan, job, log, tilings)
    received = result_functions(plan.results, whole, job.shape.columns)
    stages = HostStages(host_cycles(job.partition, job.operations), received)
    return Made(codes, plan.results, words, ports, stages)


def _cuts_of(job: CompileJob, lines: Lines | None) -> CutsOfCore | None:
    """Return the tile sizes of parts of layers with line buffers; None without them."""
    if lines is None:
        return None
    shape, widths = job.shape, lines.widths

    def cuts(numbers: Sequence[int], macros: Sequence[Macro]) -> list[Cut]:
        plan_weights(macros, shape, job.settings.weights)  # limits the words that a tile needs
        return [
            narrow_cut(macro, shape, widths[number])
            for number, macro in zip(numbers, macros, strict=True)
        ]

    return cuts


def usable_places(chip: Chip) -> list[Place]:
    """Return the usable cores of a chip: first those with a host port, then row by row."""
    cores = dict.fromkeys([*chip.host_ports, *np.flatnonzero(chip.usable).tolist()])
    return [(core % chip.width, core // chip.width) for core in cores]


def chip_programs(
    plan: ChipPlan, job: CompileJob, log: CompileLog, tilings: Mapping[Place, Tiling] = NONE
) -> tuple[list[CoreCode], list[NDArray[np.int64]]]:
    """Generate the programs of all cores; return them, and the weight words that they stream,
    shape (rows, columns) each.

    Raises `DoesNotFitError` that names the core, the memory and the layer.
    """
    shape = job.shape
    functions = Whole.of(job).functions
    words: list[NDArray[np.int64]] = []
    unlinked: list[tuple[Place, Emitted, CoreLinks]] = []
    for place, one in plan.cores.items():
        try:
            weights = plan_weights(one.macros, shape, job.settings.weights)
            memory = MemoryPlan(weights, stop=one.used, host_first=len(words), targets=one.targets)
            preset = Preset.filled(one.filled, shape.columns)
            core = CoreTarget(
                shape, one.regions, memory, one.links, place, preset, one.order, job.searches,
                tilings.get(place),
            )  # fmt: skip
            spans = _only(functions[one.pieces[0].macro], len(one.macros), job)
            made = emitted(one.macros, spans, core, job.choices, log)
        except DoesNotFitError as error:
            raise DoesNotFitError(f"core ({place[0]}, {place[1]}): {error}") from error
        words += made.emitter.streams.words
        unlinked.append((place, made, one.links))
    codes = []
    for (place, one), (made, links) in zip(plan.cores.items(), linked_cores(unlinked), strict=True):
        steps = made.emitter.steps
        spans = _only(functions[one.pieces[0].macro], len(steps), job)
        program = made.program(spans)
        require_instructions(program, steps, one.macros, shape)
        numbers = [piece.macro for piece in one.pieces]
        with stage("cycles"):
            codes.append(CoreCode.of(
                place, (numbers, one.macros), (one.parts, one.used),
                made.emitter.memory.weights.static, made, (program, spans), links,
                job.link,
            ))  # fmt: skip
    return codes, words


def _only(function: int, stop: int, job: CompileJob) -> list[tuple[int, int]]:
    """Return the spans of all functions on a core that computes one of them, up to `stop`."""
    count = len(job.partition.functions)
    return [(stop * (function < one), stop * (function <= one)) for one in range(count)]


def on_one_core(job: CompileJob, place: Place, log: CompileLog) -> Made:
    """Generate the code of a model for one core.

    Raises `DoesNotFitError` that names the memory and the layer.
    """
    partition, places, shape, choices, settings, _, searches, *_ = job
    macros = partition.macros
    with stage("feature memory"):
        stored = PlannedMaps(macros, partition.written(), partition.read(), places)
        stores = settings.padding == "stored"
        borders = borders_of(macros, places, log) if stores else NO_BORDERS
        regions = plan_memory(stored, shape.columns, shape.map_vectors, settings.reuse, borders)
        log_memory(regions, shape.columns, log)
    with stage("weight memory"):
        weights = plan_weights(macros, shape, settings.weights)
    with stage("instructions"):
        functions = [(one.first, one.stop) for one in partition.functions]
        core = CoreTarget.alone(shape, regions, weights, place)._replace(searches=searches)
        made = emitted(macros, functions, core, choices, log)
        spans = partition.spans(made.ends)
        program = made.program(spans)
        require_instructions(program, made.emitter.steps, macros, shape)
    with stage("cycles"):
        code = CoreCode.of(
            place, (list(range(len(macros))), macros),
            ([Lying.whole(one) for one in regions.values()], memory_use(regions).used),
            weights.static, made, (program, spans), link=job.link,
        )  # fmt: skip
    stages = HostStages(host_cycles(partition, job.operations))
    return Made([code], [], made.emitter.streams.words, stages=stages)
