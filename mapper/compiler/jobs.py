"""Convert an integer graph to macro nodes and functions, and check that their maps fit the
cores."""

from __future__ import annotations

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import HostLink
from mapper.compiler.codegen.builder import Choices
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
from mapper.compiler.requirements import require_bits
from mapper.compiler.settings import CompileSettings
from mapper.compiler.stages import stage
from mapper.compiler.transforms.registry import lay_out, optimise_integers
from mapper.compiler.trial import context_of
from mapper.errors import DoesNotFitError, MapperError


def job_of(
    graph: Graph, shape: NpuShape, settings: CompileSettings, chip: Chip, log: CompileLog
) -> CompileJob:
    """Optimise an integer graph and divide it into functions.

    log : extended
    Raises `MapperError` if no node runs on a core.
    """
    choices = Choices(settings.bias, settings.dual, settings.schedule, settings.first_tile)
    with stage("optimise", whole=True):
        require_bits(graph, shape)
        cores = min(chip.usable_count, settings.cores or chip.usable_count)
        if not shape.map_vectors or settings.padding == "stored":
            cores = 1  # these models run on one core
        context = context_of(shape, choices, settings.reuse, settings.few_channels, cores, log)
        optimise_integers(graph, context, settings.off)
        require_sound(graph)
    with stage("partition"):
        macros, places = lay_out(graph, context, settings.off)
        if not macros:
            raise MapperError(f"no node runs on a core{_first_reason(graph)}")
    with stage("execution order"):
        partition = divide(graph, macros)
    return CompileJob(partition, places, shape, choices, settings, HostLink.of(chip.host))


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


def require_room(source: Graph, shape: NpuShape, settings: CompileSettings, chip: Chip) -> None:
    """Raise `DoesNotFitError` if maps and parameters fit no core with any scales.

    This check runs before calibration, which takes long.
    """
    if not shape.map_vectors or is_in_part(source):
        return
    own = [node for node in source.nodes if not isinstance(node.operator, Host)]
    maps = sum(
        one.height * one.width * blocks_of(one.channels, shape.columns)
        for node in own
        for one in (*node.inputs, *node.outputs)
        if one.value is None
    )
    parameters = sum(2 + 4 * blocks_of(node.output.channels, shape.rows) for node in own)
    if maps <= shape.map_vectors and parameters <= shape.parameter_words:
        return  # a small model always fits
    converter = Converter(source, request_of(settings).precision)
    try:
        graph = converter.convert({one: Ends(-1, 1) for one in converter.quantised_tensors()})
        job = job_of(graph, shape, settings, chip, CompileLog())
        if runs_on_one(job, chip):
            require_room_on_one(job)
        else:
            require_room_on_several(job, chip)
    except DoesNotFitError:
        raise
    except MapperError:
        return  # caused by the placeholder scales
