"""Context of the passes: cost of nodes as a separate program on a core, and room for all maps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.program import CoreTarget, emitted, memory_sizes
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.ir.graph import Graph, part_of
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.planner import PlannedMaps, memory_use, plan_memory
from mapper.compiler.memory.regions import lanes_of, share
from mapper.compiler.partition.functions import divide
from mapper.compiler.program.presets import Preloaded
from mapper.compiler.program.steps import Step, with_tokens
from mapper.compiler.settings import FewChannels
from mapper.compiler.tiling.units import timeline_of_functions
from mapper.compiler.transforms.base import Context, Taken, Trial, sweep
from mapper.compiler.transforms.fuse import fuse
from mapper.compiler.transforms.pool_first import POOL_FIRST
from mapper.errors import MapperError


def context_of(
    shape: NpuShape, choices: Choices, reuse: bool, few_channels: FewChannels = "auto",
    cores: int = 1, log: CompileLog | None = None, searches: CutSearches | None = None,
) -> Context:  # fmt: skip
    """Return the context of passes.

    reuse : whether maps with disjoint lifetimes share memory; few_channels : where windows of
        layers of few channels are built; cores : number of cores that share the layers
    log : extended by the passes
    searches : searches for cuts of this compilation
    """

    def fits(graph: Graph) -> bool:
        most = cores * shape.map_vectors
        return not most or memory_needed(graph, shape, reuse) <= most

    trial = trial_of(shape, replace(choices, first_tile=None), searches or CutSearches())
    return Context(shape, trial, fits, few_channels, cores=cores, log=log or CompileLog())


def trial_of(shape: NpuShape, choices: Choices, searches: CutSearches) -> Trial:
    """Return a function that measures nodes on an otherwise idle core, with maps at any address."""
    return lambda nodes, results: taken(nodes, results, shape, choices, searches)


def taken(
    nodes: Sequence[Node], results: Sequence[Tensor], shape: NpuShape, choices: Choices,
    searches: CutSearches,
) -> Taken | None:  # fmt: skip
    """Return the cost of nodes as a program, by its timeline; the nodes are unchanged."""
    part = part_of(nodes, results)
    # usually a memory limit: changes that cannot be tried are not applied
    with part.unchanged(), suppress(MapperError):
        context = Context(shape)
        sweep(POOL_FIRST, part, context)
        places = share(part, lanes_of(shape), context.log)
        partition = divide(part, fuse(part, context=context))
        stored = PlannedMaps(partition.macros, partition.written(), partition.read(), places)
        regions = plan_memory(stored, shape.columns, 0)
        weights = plan_weights(partition.macros, shape, "optimal")
        functions = [(one.first, one.stop) for one in partition.functions]
        core = CoreTarget.alone(shape, regions, weights)._replace(searches=searches)
        made = emitted(partition.macros, functions, core, choices, context.log)
        emitter, ends = made.emitter, made.ends
        used = max(memory_use(regions).used, emitter.area.stop, shape.map_vectors)
        program = with_tokens(emitter.steps, memory_sizes(shape, used))
        before = Preloaded.of(emitter.tables, made.preset)
        cycles = timeline_of_functions(program, partition.spans(ends), shape, before).cycles
        return Taken(cycles, shape.columns * sum(map(_vectors, emitter.steps)))
    return None


def memory_needed(graph: Graph, shape: NpuShape, reuse: bool) -> int:
    """Return the vectors of feature memory that all maps of a graph need; the graph is unchanged.

    Parts that begin inside a block count without their later padding channels.
    """
    whole = part_of(graph.nodes, [])
    whole.inputs, whole.outputs = graph.inputs, graph.outputs
    with graph.unchanged():
        places = share(whole, {"int8": 1, "bits": 1}, CompileLog())
        partition = divide(whole, fuse(whole))
        stored = PlannedMaps(partition.macros, partition.written(), partition.read(), places)
        return memory_use(plan_memory(stored, shape.columns, 0, reuse)).used


def _vectors(step: Step) -> int:
    """Return the vectors that an instruction loads or stores, including padding."""
    fields = step.instruction.fields
    if step.unit not in ("LOAD", "STORE") or "c_size" not in fields:
        return 0
    return fields["c_size"] * fields["x_size"] * fields["y_size"]
