"""Mapping of a whole model to one core."""

from __future__ import annotations

from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.program import CoreTarget, emitted, require_instructions
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.padding import NO_BORDERS, borders_of
from mapper.compiler.memory.planner import PlannedMaps, log_memory, memory_use, plan_memory
from mapper.compiler.multicore.job import CompileJob, Made
from mapper.compiler.program.links import Place
from mapper.compiler.stages import stage


def on_one_core(job: CompileJob, place: Place, log: CompileLog) -> Made:
    """Generate the code of a model for one core.

    Raises `DoesNotFitError` that names the memory and the layer.
    """
    partition, places, shape, choices, settings, _ = job
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
        core = CoreTarget.alone(shape, regions, weights, place)
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
    return Made([code], [], made.emitter.streams.words)
