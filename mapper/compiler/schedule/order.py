"""The order in which nodes run, where the graph leaves a choice."""

from __future__ import annotations

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Add, Clamp, Conv, Node, Requantise


def heavy_addends_last(graph: Graph) -> list[str]:
    """Of two convolutions whose results are added, the one with more products runs last: the ALU
    adds to its tiles, and has the most time to hide that in. Returns a line for each change."""
    told = []
    for node in list(graph.nodes):
        if not isinstance(node.operator, Add) or node.inputs[0] is node.inputs[1]:
            continue
        chains = [_chain(graph, tensor, node) for tensor in node.inputs]
        if not all(chains):
            continue
        light, heavy = sorted(chains, key=lambda chain: _products(chain[0]))
        at = graph.nodes.index(heavy[0])
        if graph.nodes.index(light[0]) < at or _products(light[0]) == _products(heavy[0]):
            continue
        maker = graph.maker(light[0].inputs[0])
        if maker is not None and graph.nodes.index(maker) >= at:
            continue
        for one in light:
            graph.nodes.remove(one)
        graph.nodes[at:at] = light
        told.append(f"{light[0].label}: before {heavy[0].label}, which {node.label} runs behind")
    return told


def _products(conv: Node) -> int:
    """Multiplications of a convolution."""
    outputs, kh, kw, inputs = conv.inputs[1].shape
    return conv.output.height * conv.output.width * outputs * kh * kw * inputs


def _chain(graph: Graph, tensor: object, user: Node) -> list[Node]:
    """A convolution and the nodes behind it that lead to a node alone; none if there is no such."""
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
