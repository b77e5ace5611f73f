"""Convert an integer graph to macro nodes and functions; check that the cores have the units and
the memory for it."""

from __future__ import annotations

from chipsim.chip.host import ChipHost
from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.npu.arrivals import HostLink
from mapper.cache.cache import OFF, Cache
from mapper.compiler.caching import kept_trials
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Host
from mapper.compiler.ir.verifier import require_sound
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.multicore.job import CompileJob
from mapper.compiler.multicore.room import require_room_on_one, require_room_on_several
from mapper.compiler.multicore.spread import runs_on_one
from mapper.compiler.partition.functions import divide
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.ranges import Ends
from mapper.compiler.quantisation.rest import is_in_part
from mapper.compiler.quantisation.verify import request_of
from mapper.compiler.settings import CompileSettings
from mapper.compiler.stages import stage
from mapper.compiler.transforms.registry import lay_out, optimise_integers
from mapper.compiler.trial import context_of
from mapper.errors import DoesNotFitError, MapperError, UsageError


def job_of(
    graph: Graph, shape: NpuShape, settings: CompileSettings, chip: Chip, log: CompileLog,
    cache: Cache = OFF,
) -> CompileJob:  # fmt: skip
    """Optimise an integer graph and divide it into functions.

    log : extended; cache : costs of earlier trials
    Raises `MapperError` if no node runs on a core.
    """
    choices = Choices(settings.bias, settings.dual, settings.schedule, settings.first_tile)
    with stage("optimise", whole=True):
        require_bits(graph, shape)
        cores = min(chip.usable_count, settings.cores or chip.usable_count)
        if settings.padding == "stored":
            cores = 1  # these models run on one core
        searches = CutSearches()
        context = context_of(
            shape, choices, settings.reuse, settings.few_channels, cores, log, searches
        )
        context.trial = kept_trials(context.trial, cache, shape, choices)
        optimise_integers(graph, context, settings.off)
        require_sound(graph)
    with stage("partition"):
        macros, places = lay_out(graph, context, settings.off)
        if not macros:
            raise MapperError(f"no node runs on a core{_first_reason(graph)}")
    with stage("execution order"):
        partition = divide(graph, macros)
    link, speed = HostLink.of(chip.host), (chip.host or ChipHost()).operations
    return CompileJob(partition, places, shape, choices, settings, link, searches, speed)


def _first_reason(graph: Graph) -> str:
    """Return why the first host node of a model is not on a core."""
    for node in graph.nodes:
        if isinstance(node.operator, Host):
            kind = node.operator.node.kind
            return (
                f": node {node.sources[0]!r} ({kind}): {node.operator.why}; --explain-only "
                "lists the reasons for all nodes"
            )
    return ": there is nothing to compute"


def require_room(
    source: Graph, shape: NpuShape, settings: CompileSettings, chip: Chip, cache: Cache = OFF
) -> None:
    """Raise `DoesNotFitError` if maps and parameters fit no core with any scales.

    This check runs before calibration, which takes long.
    """
    if not shape.map_vectors or is_in_part(source):
        return None
    own = [node for node in source.nodes if not isinstance(node.operator, Host)]
    maps = sum(
        one.height * one.width * blocks_of(one.channels, shape.columns)
        for node in own
        for one in (*node.inputs, *node.outputs)
        if one.value is None
    )
    parameters = sum(2 + 4 * blocks_of(node.output.channels, shape.rows) for node in own)
    if maps <= shape.map_vectors and parameters <= shape.parameter_words:
        return None  # a small model always fits
    converter = Converter(source, request_of(settings).precision)
    try:
        graph = converter.convert({one: Ends(-1, 1) for one in converter.quantised_tensors()})
        job = job_of(graph, shape, settings, chip, CompileLog(), cache)
        if not runs_on_one(job, chip):
            try:
                return require_room_on_several(job, chip, lines=True)
            except DoesNotFitError:
                if len(job.partition.functions) == 1:
                    raise  # several functions may share the memory of one core
        require_room_on_one(job)
    except DoesNotFitError:
        raise
    except MapperError:
        return None  # caused by the placeholder scales


def require_core(shape: NpuShape, settings: CompileSettings) -> None:
    """Raise `UsageError` for options that a core cannot have, with the presets that have its unit.

    Raises `MapperError` for a core that programs cannot use.
    """
    if shape.rows != shape.columns:
        raise MapperError(
            f"npu {shape.name}: {shape.rows} rows and {shape.columns} columns; programs need "
            "equal numbers, because results of one layer are vectors of the next"
        )
    if settings.few_channels == "core" and not shape.filters:
        names = ", ".join(name for name, one in NPU_SHAPES.items() if one.filters)
        raise UsageError(
            f"--few-channels core needs a window unit, which {shape.name} does not have; use "
            f"auto or host, or --npu with one of {names}"
        )
    if settings.layer_bits.has_16:
        require_dual(shape, f"--bits {settings.bits}", UsageError)
    if settings.dual in ("pixels", "kernels"):
        require_dual(shape, f"--dual {settings.dual}", UsageError)


def require_bits(graph: Graph, shape: NpuShape) -> None:
    """Raise `MapperError` that names a map of 16 bits on a core without a dual multiplier."""
    for tensor in graph.tensors():
        if tensor.type == "int16":
            require_dual(shape, f"{tensor.name!r} is stored in 16 bits, and")


def require_dual(shape: NpuShape, what: str, error: type[MapperError] = MapperError) -> None:
    """Raise an error if a core has no multiplier of 16 bits."""
    if shape.multiplier != "dual":
        names = ", ".join(name for name, one in NPU_SHAPES.items() if one.multiplier == "dual")
        raise error(
            f"{what} needs a core with a dual multiplier, which {shape.name} does not have; "
            f"use --npu with one of {names}"
        )
