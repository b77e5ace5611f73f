"""Programs of a model for one core, or for several that share it: pieces, placement, programs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.noc.mesh import Mesh
from chipsim.npu.cycles import CAUSES
from chipsim.npu.mesh.chip import HostStages, MeshChip
from chipsim.npu.mesh.report import chip_report
from chipsim.npu.mesh.run import MeshTimes, run_mesh
from mapper.compiler.codegen.builder import MemoryPlan
from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.program import (
    CoreTarget,
    Emitted,
    emitted,
    linked_cores,
    require_instructions,
)
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.padding import NO_BORDERS, borders_of
from mapper.compiler.memory.planner import PlannedMaps, log_memory, memory_use, plan_memory
from mapper.compiler.memory.regions import have_common
from mapper.compiler.multicore.costs import PartCosts
from mapper.compiler.multicore.job import ChipPlan, CompileJob, MacroPiece, Made, Whole, ports_of
from mapper.compiler.multicore.meshed import HostSide, mesh_chip
from mapper.compiler.multicore.period import Grouped, Line, Way, taken_rows, turns
from mapper.compiler.multicore.placement import FINAL, TRIED, cores_of
from mapper.compiler.multicore.plan import plan_cores
from mapper.compiler.multicore.received import result_functions
from mapper.compiler.multicore.room import require_room_on_several
from mapper.compiler.multicore.tries import Tried, best_of, each, earliest, tried
from mapper.compiler.multicore.vertices import vertices_of, with_own_nodes
from mapper.compiler.partition.hostwork import host_cycles
from mapper.compiler.program.image import program_of
from mapper.compiler.program.links import CoreLinks, Place
from mapper.compiler.program.presets import Preset
from mapper.compiler.stages import stage
from mapper.errors import DoesNotFitError

WAYS = (Way(2, 0.1), Way(2, 0.2), Way(4, 0.1))
"""Ways to cut that are tried: early rows are more valuable on many cores than on few."""
FILLED = Way(2, 0.1, fills=True)
"""Way to cut if the cores cannot hold all weights otherwise."""
STREAMED = Way(2, 0.1, streams=True)
"""Way to cut if the cores cannot hold all weights."""
FRAMES = 8
"""Simulated frames per cut."""


class Programs(NamedTuple):
    """Programs of a cut, the log of their generation, and the input that they were made from.

    at_port : the port of a node is the bottleneck
    """

    made: Made
    log: CompileLog
    job: CompileJob
    at_port: bool


Ran = list[Tried[Programs]]
"""Simulated cuts."""


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
    for tensor, place in job.places.items():
        beside = place.columns == 1 and tensor.width < place.owner.width
        if beside and tensor in taken:  # whole rows are sent, and parts may depend on each other
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


def spread(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Distribute a model over all usable cores of a chip, for the shortest period.

    Raises `DoesNotFitError` with the resource that is missing in a core, or in all cores.
    """
    places = usable_places(chip)
    ports = ports_of(chip)
    if job.settings.cores is not None:
        chip = _fewer(chip, places[: job.settings.cores])
        places = places[: job.settings.cores]
        ports = [port for port in ports if port in places]
    require_room_on_several(job, chip)
    all_: Ran = []
    for way in WAYS:
        with suppress(DoesNotFitError):  # the next way may need less
            all_ += _cuts(job, way, (chip, ports), all_)
    if not all_:
        with suppress(DoesNotFitError):
            all_ = _cuts(job, FILLED, (chip, ports), [])
    if not all_:
        all_ = _cuts(job, STREAMED, (chip, ports), [])
    first = earliest if job.settings.objective == "latency" else best_of
    best = first(all_)
    if job.settings.placement == "mapper":  # cores at the host's ports would share them with it
        again = [_simulated(best.made.job, best.found, (chip, ports), FINAL)]
        if again[0].made.at_port and max(best.found.groups) < chip.usable_count - len(ports):
            again.append(_simulated(best.made.job, best.found, (chip, ports), FINAL, apart=True))
        best = min(*again, best, key=lambda one: (one.period, one.latency))
    made = best.made.made
    log.lines += best.made.log.lines
    log.add(
        f"{len(best.found.pieces)} parts of {len(job.partition.macros)} layers on "
        f"{len(made.codes)} cores: period {best.period:,.0f} cycles per frame, latency "
        f"{best.latency:,}; best of {len(all_)} simulated cuts"
    )
    if host := sum(made.stages.cycles):
        bound = ", which bounds the period" if host > max(best.cycles) else ""
        log.add(f"host: {host:,} cycles per frame between functions{bound}")
    return made


def _cuts(job: CompileJob, way: Way, where: tuple[Chip, Sequence[Place]], before: Ran) -> Ran:
    """Return some cuts of a way, with their programs and simulated times.

    where : the chip, and the nodes of the host's ports
    """
    chip, _ = where
    whole, shape = Whole.of(job), job.shape
    job = job._replace(choices=replace(job.choices, lag=way.lag))
    costs = PartCosts(whole, shape, job.choices, job.searches, way.streams)
    rows = taken_rows(whole, costs.homes, shape.columns)

    def run(found: Grouped) -> Tried[Programs]:
        return _simulated(job, found, where, TRIED)

    with stage("tiles and cores"):
        line = Line(costs, rows, chip.usable_count, way)
        # in turns each core would compute parts of all functions, and wait for the host
        if job.settings.objective == "latency" and len(job.partition.functions) == 1:
            return each(turns(line, line.cores), run) + tried(line, run)
        return tried(line, run, before)


def _simulated(
    job: CompileJob, found: Grouped, where: tuple[Chip, Sequence[Place]], preset: str,
    apart: bool = False,
) -> Tried[Programs]:  # fmt: skip
    """Place a cut, generate its programs, and run some frames.

    where : the chip, and the nodes of the host's ports; preset, apart : of the placement
    """
    chip, ports = where
    log, shape = CompileLog(), job.shape
    vertices = vertices_of(Whole.of(job), *found, shape)
    vertices = with_own_nodes(vertices) if apart else vertices
    cores = cores_of(vertices, chip, ports, job.settings.placement, preset)
    at = [(int(core) % chip.width, int(core) // chip.width) for core in cores]
    made = on_cores(job, list(zip(found.pieces, at, strict=True)), ports, log)
    with stage("cycles"):
        chip_run = _run(made, chip, job)
        ran = chip_report(*chip_run)
    groups = dict(zip(at, found.groups, strict=True))
    cycles = [0.0] * len(groups)
    for core, work in chip_run[1].cores.items():
        late = work.waits[:, CAUSES.index("router")].max() / FRAMES
        cycles[groups[core]] = ran.cores[core].cycles + float(late)
    assert ran.mean is not None
    programs = Programs(made, log, job, ran.bound.where.startswith("port"))
    return Tried(found, programs, cycles, ran.mean, ran.latency)


def _run(made: Made, chip: Chip, job: CompileJob) -> tuple[MeshChip, MeshTimes]:
    """Simulate a few frames on the chip."""
    programs = {code.place: program_of(code.image(), f"core {code.place}") for code in made.codes}
    feeds = {code.place: code.links for code in made.codes}
    mesh, host = Mesh(chip.width, chip.height), HostSide(made.ports, job.link, made.stages)
    meshed = mesh_chip(job.shape, mesh, programs, feeds, host)
    return meshed, run_mesh(meshed, FRAMES)


def _fewer(chip: Chip, places: list[Place]) -> Chip:
    """Return a chip on which only some cores are usable."""
    kept = {y * chip.width + x for x, y in places}
    return replace(chip, unavailable=tuple(set(range(chip.cores)) - kept), host=None)


def on_cores(
    job: CompileJob, placed: list[tuple[MacroPiece, Place]], ports: Sequence[Place], log: CompileLog
) -> Made:
    """Generate the programs of placed pieces. ports : nodes of the host's ports

    Raises `DoesNotFitError` that names core, memory and layer.
    """
    whole = Whole.of(job)
    with stage("feature memory"):
        plan = plan_cores(whole, placed, job.shape, ports)
    with stage("instructions"):
        codes, words = chip_programs(plan, job, log)
    received = result_functions(plan.results, whole, job.shape.columns)
    stages = HostStages(host_cycles(job.partition, job.operations), received)
    return Made(codes, plan.results, words, ports, stages)


def usable_places(chip: Chip) -> list[Place]:
    """Return the usable cores of a chip: first those with a host port, then row by row."""
    cores = dict.fromkeys([*chip.host_ports, *np.flatnonzero(chip.usable).tolist()])
    return [(core % chip.width, core // chip.width) for core in cores]


def chip_programs(
    plan: ChipPlan, job: CompileJob, log: CompileLog
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
            core = CoreTarget(shape, one.regions, memory, one.links, place, preset, job.searches)
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
    partition, places, shape, choices, settings, _, searches, _ = job
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
