"""Move DepthToSpace after elementwise nodes, so that these run with the layer that computes it."""

from __future__ import annotations

from dataclasses import replace

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor

ELEMENTWISE = op.Activation | op.Affine | op.Function | op.Quantise


def delay_depth_to_space(graph: Graph) -> None:
    """Move DepthToSpace after the elementwise nodes that follow it, and before Dequantise."""
    for node in graph.nodes_of(op.DepthToSpace):
        while (user := graph.only_user(node.output, ELEMENTWISE)) is not None:
            if isinstance(user.operator, op.Quantise) and user.operator.levels is not None:
                break
            _swap(graph, node, user)
        maker = graph.maker(node.inputs[0], op.Dequantise)
        if maker is not None:
            data, result = maker.inputs[0], node.output
            moved = data.like(f"{result.name}.stored", result.shape)
            node.inputs, node.outputs = [data], [moved]
            at = graph.nodes.index(node) + 1
            graph.nodes.insert(at, Node(op.Dequantise(), [moved], [result], maker.sources))


def _swap(graph: Graph, node: Node, user: Node) -> None:
    """Let a node read the input of DepthToSpace instead of its result."""
    assert isinstance(node.operator, op.DepthToSpace)
    data, between, result = node.inputs[0], node.output, user.output
    order = node.operator.channels(between.channels).ravel()

    def chosen(one: Tensor) -> Tensor:
        if one.value is None or one.value.shape != (between.channels,):
            return one
        return replace(one, value=one.value[order], shape=order.shape)

    # no value of the model has this shape
    before = replace(result, name=f"{result.name}.phases", shape=data.shape)
    user.inputs = [data, *map(chosen, user.inputs[1:])]
    user.outputs, node.inputs, node.outputs = [before], [before], [result]
    graph.nodes.remove(node)
    graph.nodes.insert(graph.nodes.index(user) + 1, node)
