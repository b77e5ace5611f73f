"""Run the larger of two added convolutions last.

The ALU adds on the tiles of the last one, where more matrix calls hide the addition.
"""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Add, Clamp, Conv, Node, Requantise
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, calls, vectors


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    return ((node,) for node in graph.nodes_of(Add))


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    (node,) = site
    found = addends(graph, node)
    if found is None:
        return "its addends are not two separate layers"
    light, heavy = found
    at = graph.nodes.index(heavy[0])
    if graph.nodes.index(light[0]) < at:
        return "the smaller one already runs first"
    maker = graph.maker(light[0].inputs[0])
    if maker is not None and graph.nodes.index(maker) >= at:
        return "the smaller one depends on the larger one"
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the ALU cycles of the sum that the larger layer hides; bytes do not change."""
    found = addends(graph, site[0])
    assert found is not None
    light, heavy = (calls(chain[0], context.shape) for chain in found)
    return Taken(min(heavy - light, vectors(site[0].output, context.shape)), 0)


def apply(graph: Graph, site: Site, context: Context) -> str:
    (node,) = site
    found = addends(graph, node)
    assert found is not None
    light, heavy = found
    at = graph.nodes.index(heavy[0])
    for one in light:
        graph.nodes.remove(one)
    graph.nodes[at:at] = light
    return f"{light[0].label}: before {heavy[0].label}; {node.label} runs after it"


ADDENDS = Pass("addends", sites, legal, gain, apply)


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
