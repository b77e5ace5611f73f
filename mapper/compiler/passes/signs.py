"""What stands before a sign, or before levels, becomes part of it: it only moves the places where
one level becomes the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import (
    Activation,
    Conv,
    Dense,
    Levels,
    Node,
    Operator,
    Pool,
    Sign,
)
from mapper.compiler.integer.binary import applied, signs, steps_of
from mapper.compiler.integer.levels import levels_of

ENDS = Sign | Levels


def simplify_signs(graph: Graph) -> list[str]:
    """What changes no sign and no level goes; factors and offsets before them are another pass.

    Of a sign of another sign and an offset (Sign, Add 0.1, Sign) one is left; activations go, or
    clip levels; max pooling goes before.
    """
    told = []
    changed = True
    while changed:
        changed = False
        for node in [node for node in graph.nodes if isinstance(node.operator, ENDS)]:
            line = _simplify(graph, node)
            if line:
                told.append(line)
                changed = True
    return told


def _simplify(graph: Graph, node: Node) -> str | None:
    """One change before or behind a sign; what was done, or None."""
    user = graph.only_user(node.output)
    if user is not None and _is_max(user) and len(node.inputs) == 1 and _on_tile(graph, node, user):
        _swap(graph, node, user)
        return f"{user.label}: before {node.label}"
    maker = graph.maker(node.inputs[0])
    if maker is None:
        return None
    if isinstance(maker.operator, Sign) and isinstance(node.operator, Sign):
        scale = maker.operator.scale
        ends = [signs(applied(steps_of(node), value)) for value in (-scale, scale)]
        if (np.asarray(ends[0]) < 0).all() and (np.asarray(ends[1]) > 0).all():
            if node.operator.scale != scale and graph.only_user(maker.output) is not node:
                return None
            graph.remove(node, maker.output)
            maker.operator = node.operator
            maker.sources += node.sources
            return f"{node.label}: is {maker.label}"
        return None
    if graph.only_user(maker.output) is not node or len(node.inputs) > 1:
        return None
    clipped = _without(maker, node)
    if clipped is None:
        return None
    node.operator = clipped
    node.inputs = [maker.inputs[0]]
    graph.nodes.remove(maker)
    node.sources = maker.sources + node.sources
    return f"{maker.label}: into {node.label}"


def _is_max(node: Node) -> bool:
    return isinstance(node.operator, Pool) and node.operator.kind == "max"


def _on_tile(graph: Graph, node: Node, pool: Node) -> bool:
    """Whether pooling can come before a sign: the sums of a layer are pooled on its tile, once and
    without padding, or not at all."""
    maker = graph.maker(node.inputs[0])
    pooled = maker is not None and _is_max(maker)
    layer = graph.maker(maker.inputs[0]) if maker is not None and pooled else maker
    if layer is None or not isinstance(layer.operator, Conv | Dense):
        return not pooled
    return not pooled and isinstance(pool.operator, Pool) and not any(pool.operator.window.pad)


def _swap(graph: Graph, node: Node, pool: Node) -> None:
    """The largest of signs is the sign of the largest; of fewer numbers."""
    node.inputs, pool.inputs = [node.output], node.inputs
    node.outputs, pool.outputs = pool.outputs, node.outputs
    pool.output.shape = node.output.shape
    graph.nodes.remove(node)
    graph.nodes.insert(graph.nodes.index(pool) + 1, node)


def _without(activation: Node, node: Node) -> Operator | None:
    """Signs or levels that an activation before them changes nothing of; None if it does.

    It must leave every number on its side of zero; or it clips, and so clips levels.
    """
    how, operator = activation.operator, node.operator
    if not isinstance(how, Activation):
        return None
    slope: Any = activation.inputs[1].value if len(activation.inputs) > 1 else how.slope
    if isinstance(operator, Sign):
        return operator if np.min(slope) > 0 and how.low < 0 <= how.high else None
    assert isinstance(operator, Levels)
    if len(activation.inputs) > 1 or how.slope not in (0.0, 1.0):
        return None
    least = max(how.low, 0.0) if how.slope == 0.0 else how.low
    low, high = (int(one) for one in levels_of([least, how.high], [], operator))
    return replace(operator, stored_low=low, stored_high=high)
