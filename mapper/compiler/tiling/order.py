"""Execution order of nodes where the graph leaves a choice."""

from __future__ import annotations

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Add, Clamp, Conv, Node, Requantise


def addends(graph: Graph, node: Node) -> tuple[list[Node], list[Node]] | None:
    """Return the nodes that compute the two addends of an addition, the one with fewer products
    first; None unless both are convolutions with different numbers of products."""
    if not isinstance(node.operator, Add) or node.inputs[0] is node.inputs[1]:
        return None
    chains = [_chain(graph, tensor, node) for tensor in node.inputs]
    if not all(chains):
        return None
    light, heavy = sorted(chains, key=lambda chain: _products(chain[0]))
    return None if _products(light[0]) == _products(heavy[0]) else (light, heavy)


def _products(conv: Node) -> int:
    """Return the number of multiplications of a convolution."""
    outputs, kh, kw, inputs = conv.inputs[1].shape
    return conv.output.height * conv.output.width * outputs * kh * kw * inputs


def _chain(graph: Graph, tensor: object, user: Node) -> list[Node]:
    """Return the chain from a convolution to `user`, without branches; empty if there is none."""
    found: list[Node] = []
    for node in reversed(graph.nodes[: graph.nodes.index(user)]):
        if node.output is not tensor:
            continue
        if graph.only_user(node.output) is not (found[0] if found else user):
            return []
        found.insert(0, node)
        if isinstance(node.operator, Conv):
            return found
        if not isinstance(node.operator, Requantise | Clamp):
            return []
        tensor = node.inputs[0]
    return []
