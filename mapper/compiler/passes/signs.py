"""What stands before a sign becomes part of it: it only moves the place where the sign changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Activation, Affine, Node, Pool, Sign
from mapper.compiler.integer.binary import applied, signs, steps_of


def simplify_signs(graph: Graph) -> list[str]:
    """Factors and offsets directly before a sign, and what never changes a sign.

    BatchNormalization becomes steps of the sign; of a sign of another sign and an offset (Sign,
    Add 0.1, Sign) one is left; activations that keep the sign go; max pooling goes before signs.
    """
    told = []
    changed = True
    while changed:
        changed = False
        for node in [node for node in graph.nodes if isinstance(node.operator, Sign)]:
            line = _simplify(graph, node)
            if line:
                told.append(line)
                changed = True
    return told


def _simplify(graph: Graph, node: Node) -> str | None:
    """One change before or behind a sign; what was done, or None."""
    user = graph.only_user(node.output)
    if user is not None and _is_max(user) and len(node.inputs) == 1:
        _swap(graph, node, user)
        return f"{user.label}: before {node.label}"
    maker = graph.maker(node.inputs[0])
    if maker is None:
        return None
    if isinstance(maker.operator, Sign):
        ends = [signs(applied(steps_of(node), value)) for value in (-1.0, 1.0)]
        if (np.asarray(ends[0]) < 0).all() and (np.asarray(ends[1]) > 0).all():
            graph.remove(node, maker.output)
            maker.sources += node.sources
            return f"{node.label}: is {maker.label}"
        return None
    if graph.only_user(maker.output) is not node:
        return None
    if isinstance(maker.operator, Affine):
        node.inputs = [maker.inputs[0], *maker.inputs[1:], *node.inputs[1:]]
    elif len(node.inputs) == 1 and _keeps_sign(maker):
        node.inputs = [maker.inputs[0]]
    else:
        return None
    graph.nodes.remove(maker)
    node.sources = maker.sources + node.sources
    return f"{maker.label}: into {node.label}"


def _is_max(node: Node) -> bool:
    return isinstance(node.operator, Pool) and node.operator.kind == "max"


def _swap(graph: Graph, node: Node, pool: Node) -> None:
    """The largest of signs is the sign of the largest; of fewer numbers."""
    node.inputs, pool.inputs = [node.output], node.inputs
    node.outputs, pool.outputs = pool.outputs, node.outputs
    pool.output.shape = node.output.shape
    graph.nodes.remove(node)
    graph.nodes.insert(graph.nodes.index(pool) + 1, node)


def _keeps_sign(node: Node) -> bool:
    """Whether an activation leaves every number on its side of zero."""
    operator = node.operator
    if not isinstance(operator, Activation):
        return False
    slope: Any = node.inputs[1].value if len(node.inputs) > 1 else operator.slope
    return bool(np.min(slope) > 0 and operator.low < 0 <= operator.high)
