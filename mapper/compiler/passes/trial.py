"""Cost of nodes as a separate program on a core, used by passes to compare changes."""

from __future__ import annotations

from collections.abc import Sequence

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.program import Core, emitted, memory_sizes
from mapper.compiler.codegen.steps import Step, with_tokens
from mapper.compiler.graph.graph import Graph, View
from mapper.compiler.graph.node import Node
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import Stored, memory_use, plan_memory
from mapper.compiler.memory.regions import share
from mapper.compiler.partition.functions import divide
from mapper.compiler.passes.base import Context, Taken, Trial, sweep
from mapper.compiler.passes.fuse import fuse
from mapper.compiler.passes.pool_first import POOL_FIRST
from mapper.compiler.schedule.preloaded import Preloaded
from mapper.compiler.schedule.units import timeline_of_functions
from mapper.errors import MapperError


def trial_of(shape: NpuShape, choices: Choices) -> Trial:
    """Return a function that measures nodes on an otherwise idle core, with maps at any address."""
    return lambda nodes, results: taken(nodes, results, shape, choices)


def taken(
    nodes: Sequence[Node], results: Sequence[Tensor], shape: NpuShape, choices: Choices
) -> Taken | None:
    """Return the cost of nodes as a program, by its timeline; the nodes are unchanged."""
    part = part_of(nodes, results)
    kept = [(tensor, tensor.stored, tensor.address) for tensor in part.tensors()]
    try:
        context = Context(shape)
        sweep(POOL_FIRST, part, context)
        places, _ = share(part, lanes_of(shape))
        partition = divide(part, fuse(part, context=context))
        stored = Stored(partition.macros, partition.written(), partition.read(), places)
        regions = plan_memory(stored, shape.columns, 0)
        weights = plan_weights(partition.macros, shape, "optimal")
        functions = [(one.first, one.stop) for one in partition.functions]
        core = Core.alone(shape, regions, weights)
        made = emitted(partition.macros, functions, core, choices, [])
        emitter, ends = made.emitter, made.ends
        used = max(memory_use(regions).used, emitter.area.stop, shape.map_vectors)
        program = with_tokens(emitter.steps, memory_sizes(shape, used))
        before = Preloaded.of(emitter.tables, made.preset)
        cycles = timeline_of_functions(program, partition.spans(ends), shape, before).cycles
        return Taken(cycles, shape.columns * sum(map(_vectors, emitter.steps)))
    except MapperError:  # usually a memory limit: changes that cannot be tried are not applied
        return None
    finally:
        for tensor, is_stored, address in kept:
            tensor.stored, tensor.address = is_stored, address


def lanes_of(shape: NpuShape) -> dict[str, int]:
    """Return the channels per vector, by the type of a map."""
    return {"int8": shape.columns, "bits": 8 * shape.columns}


def part_of(nodes: Sequence[Node], results: Sequence[Tensor]) -> Graph:
    """Return a graph of some nodes, whose inputs are the maps that none of them computes."""
    graph = Graph()
    graph.nodes = [
        Node(node.operator, list(node.inputs), list(node.outputs), node.sources) for node in nodes
    ]
    made = {tensor for node in nodes for tensor in node.outputs}
    inputs = (tensor for node in nodes for tensor in node.inputs)
    graph.inputs = {
        tensor.name: View(tensor, shape=tensor.shape)
        for tensor in inputs
        if tensor.value is None and tensor not in made
    }
    graph.outputs = {tensor.name: View(tensor, shape=tensor.shape) for tensor in results}
    return graph


def memory_needed(graph: Graph, shape: NpuShape, reuse: bool) -> int:
    """Return the vectors of feature memory that all maps of a graph need; the graph is unchanged.

    Parts that begin inside a block count without their later padding channels.
    """
    whole = part_of(graph.nodes, [])
    whole.inputs, whole.outputs = graph.inputs, graph.outputs
    kept = [(tensor, tensor.stored, tensor.address) for tensor in graph.tensors()]
    try:
        places, _ = share(whole, {"int8": 1, "bits": 1})
        partition = divide(whole, fuse(whole))
        stored = Stored(partition.macros, partition.written(), partition.read(), places)
        return memory_use(plan_memory(stored, shape.columns, 0, reuse)).used
    finally:
        for tensor, is_stored, address in kept:
            tensor.stored, tensor.address = is_stored, address


def _vectors(step: Step) -> int:
    """Return the vectors that an instruction loads or stores, including padding."""
    fields = step.instruction.fields
    if step.unit not in ("LOAD", "STORE") or "c_size" not in fields:
        return 0
    return fields["c_size"] * fields["x_size"] * fields["y_size"]
