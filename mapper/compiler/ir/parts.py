"""Graph of some nodes of another graph."""

from __future__ import annotations

from collections.abc import Sequence

from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor


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
