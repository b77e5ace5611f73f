"""Cycles of the host for nodes between functions of cores.

The host converts the maps that it reads from cores or writes to them, element by element, and
computes its nodes. It is a scalar processor with the clock of the cores; chips may have a faster
one (`operations` of their table ``[host]``).

The work before the first function and after the last one is not counted: it can run on samples and
results while the chip works on other frames.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.partition.functions import Partition
from mapper.compiler.tiling.streams import HOST_LATENCY

HOST_OPERATION = 1
"""Numbers that the host computes for a multiply-add, for a comparison, or to convert an element to
or from an integer; each takes a cycle unless the chip says otherwise."""

NOTED = 4
"""Nodes on the host that a compilation reports."""


def exchange_cycles(maps: Iterable[Tensor]) -> int:
    """Return the host cycles to take maps from cores and give others back: the latency of both
    directions, and the conversion of each element."""
    return 2 * HOST_LATENCY + sum(map(conversions, maps))


def conversions(tensor: Tensor) -> int:
    """Return the numbers that the host computes to convert a map."""
    return math.prod(tensor.shape) * HOST_OPERATION


def operations(node: Node) -> int:
    """Return the numbers that the host computes for a node: products, or elements."""
    operator = node.operator
    if isinstance(operator, op.Host):
        return _of_model_node(node, operator) * HOST_OPERATION
    channels = node.inputs[1].shape[-1] if isinstance(operator, op.Conv | op.Dense) else 1
    return math.prod(node.output.shape) * taps(node) * channels * HOST_OPERATION


def taps(node: Node) -> int:
    """Return the input pixels per element of the result of a node, per input channel."""
    operator = node.operator
    if isinstance(operator, op.Dense):
        return node.inputs[0].height * node.inputs[0].width
    return math.prod(operator.window.size) if isinstance(operator, op.Conv | op.Pool) else 1


def _of_model_node(node: Node, operator: op.Host) -> int:
    """Return the products of a node with weights; else the elements of its largest tensor."""
    made, taken = (
        max((math.prod(one.shape) for one in tensors), default=1)
        for tensors in (node.outputs, node.inputs)
    )
    shapes = [tuple(one.shape) for one in operator.given if one is not None]
    match operator.node.kind:
        case "Conv":
            return made * math.prod(shapes[1][1:])
        case "ConvTranspose":
            return taken * math.prod(shapes[1][1:])
        case "MatMul":
            return made * shapes[0][-1]
        case "Gemm":  # rows x inner, inner x columns: the product of both sizes has inner twice
            return math.isqrt(math.prod(shapes[0]) * math.prod(shapes[1]) * made)
    return max(made, taken)


def node_operations(partition: Partition) -> list[dict[Node, int]]:
    """Return the numbers that the host computes for each of its nodes before each function.

    A node counts the conversion of the maps of cores that it is the first to read, and of the maps
    that it makes for cores.
    """
    unread = {tensor for one in partition.functions for tensor in one.results}
    given = {tensor for one in partition.functions for tensor in one.inputs}
    found: list[dict[Node, int]] = []
    for function in partition.functions:
        found.append({})
        for node in function.host:
            taken = [tensor for tensor in dict.fromkeys(node.inputs) if tensor in unread]
            unread.difference_update(taken)
            maps = [*taken, *(tensor for tensor in node.outputs if tensor in given)]
            own = operations(node) if isinstance(node.operator, op.Host) else 0
            found[-1][node] = own + sum(map(conversions, maps))
    return found


def node_cycles(partition: Partition, per_cycle: float) -> dict[tuple[str, ...], int]:
    """Return the cycles of the host for model nodes between functions, by the nodes' names.

    per_cycle : numbers that the host computes per cycle
    """
    found: Counter[tuple[str, ...]] = Counter()
    for work in node_operations(partition)[1:]:
        for node, count in work.items():
            found[node.sources] += count
    return {names: math.ceil(count / per_cycle) for names, count in found.items()}


def host_notes(graph: Graph, partition: Partition, per_cycle: float) -> list[str]:
    """Return a line per model node on the host, with its operator, why no core computes it, and its
    cycles per frame; the most expensive ones first, the last line counts the rest.

    per_cycle : numbers that the host computes per cycle
    """
    cycles = node_cycles(partition, per_cycle)
    hosts = [node for node in graph.nodes if isinstance(node.operator, op.Host)]
    hosts.sort(key=lambda node: -cycles.get(node.sources, 0))
    lines = []
    for node in hosts[:NOTED]:
        assert isinstance(node.operator, op.Host)
        cost = "does not delay the cores, at an end of the model"
        if node.sources in cycles:
            cost = f"takes {cycles[node.sources]:,} cycles of the host per frame"
        kind, why = node.operator.node.kind, node.operator.why
        lines.append(f"{' + '.join(node.sources)} ({kind}) stays on the host: {why}; it {cost}")
    if rest := len(hosts) - len(lines):
        lines.append(f"{rest} more node{'s' * (rest > 1)} on the host; --explain lists them")
    return lines


def host_cycles(partition: Partition, per_cycle: float) -> list[int]:
    """Return the cycles of the host before each function; 0 before the first one.

    per_cycle : numbers that the host computes per cycle
    """
    cycles = [0]
    for function, work in zip(partition.functions[1:], node_operations(partition)[1:], strict=True):
        made = {tensor for node in function.host for tensor in node.outputs}
        rest = sum(conversions(tensor) for tensor in function.inputs if tensor not in made)
        cycles.append(2 * HOST_LATENCY + math.ceil((sum(work.values()) + rest) / per_cycle))
    return cycles
