"""Padding by a node of its own becomes the padding of the convolution or max pooling behind it."""

from __future__ import annotations

from dataclasses import replace

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Activation, Concat, Conv, Node, PadMap, Pool, Upsample
from mapper.compiler.graph.tensor import Pad, Tensor


def fold_padding(graph: Graph) -> list[str]:
    """Where it is legal: zeros before a convolution, and before max pooling what is never larger
    than the map. A pad of -inf that stayed would be part of the calibrated range."""
    told = []
    for node in [node for node in graph.nodes if isinstance(node.operator, PadMap)]:
        user = graph.only_user(node.output)
        if user is None or user.inputs[0] is not node.output or not _legal(graph, node, user):
            continue
        assert isinstance(user.operator, Conv | Pool)
        assert isinstance(node.operator, PadMap)
        window = user.operator.window
        both = zip(window.pad, node.operator.pad, strict=True)
        pad = Pad(*(one + other for one, other in both))
        user.operator = replace(user.operator, window=replace(window, pad=pad))
        told.append(f"{node.label}: into {user.label}")
        user.inputs[0] = node.inputs[0]
        user.sources = node.sources + user.sources
        graph.nodes.remove(node)
    return told


def _legal(graph: Graph, node: Node, user: Node) -> bool:
    assert isinstance(node.operator, PadMap)
    value = node.operator.value
    if isinstance(user.operator, Conv):
        return value == 0
    if not isinstance(user.operator, Pool) or user.operator.kind != "max":
        return False
    reach, window = user.operator.window.reach, user.operator.window
    sides = [one + other for one, other in zip(window.pad, node.operator.pad, strict=True)]
    # a window of padding alone is `value`, and not the least that there is
    inside = max(sides[:2]) < reach[0] and max(sides[2:]) < reach[1]
    return value <= _least(graph, node.inputs[0]) and inside


def _least(graph: Graph, tensor: Tensor) -> float:
    """What no element of a map is below."""
    maker = graph.maker(tensor)
    if maker is not None and isinstance(maker.operator, Activation):
        return maker.operator.low
    mean = maker is not None and isinstance(maker.operator, Pool) and maker.operator.kind != "max"
    if maker is not None and isinstance(maker.operator, Concat | Pool | Upsample) and not mean:
        return min(_least(graph, one) for one in maker.inputs)
    return float("-inf")
