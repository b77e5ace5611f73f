"""Signs and levels: fold nodes into them that only move thresholds, and store signs as bits.

Maps of +1 and -1 between binary layers are stored as bits, 128 channels per vector. Binary products
take an eighth of the matrix calls, and their weights an eighth of the memory. Other maps of +1 and
-1 are stored in bytes, with the same numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Node, Operator, Quantise, Requantise, Sign, Threshold
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.binary import Thresholds, applied, levels_of, signs, steps_of
from mapper.compiler.transforms.base import Context


def simplify_signs(graph: Graph, context: Context) -> bool:
    """Remove nodes that do not change signs and levels; return whether there were any.

    Sign, Add 0.1, Sign becomes one sign; activations are removed, or clip levels; max pooling moves
    before the sign. Factors and offsets before signs are a separate pass.
    """
    found = False
    changed = True
    while changed:
        changed = False
        for node in graph.nodes_of(op.ENDS):
            if line := _simplify(graph, node):
                context.log.add(f"signs: {line}")
                found = changed = True
    return found


def _simplify(graph: Graph, node: Node) -> str | None:
    """Apply one change before or after a sign; return its log line, or None."""
    user = graph.only_user(node.output, op.Pool) if len(node.inputs) == 1 else None
    if user is not None and user.is_max_pool and _on_tile(graph, node, user):
        _swap(graph, node, user)
        return f"{user.label}: before {node.label}"
    maker = graph.maker(node.inputs[0])
    if maker is None:
        return None
    if isinstance(maker.operator, op.Sign) and isinstance(node.operator, op.Sign):
        scale = maker.operator.scale
        ends = [signs(applied(steps_of(node), value)) for value in (-scale, scale)]
        if (np.asarray(ends[0]) < 0).all() and (np.asarray(ends[1]) > 0).all():
            if node.operator.scale != scale and graph.only_user(maker.output) is not node:
                return None
            graph.remove(node, maker.output)
            maker.operator = node.operator
            maker.sources += node.sources
            return f"{node.label}: same as {maker.label}"
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


def _on_tile(graph: Graph, node: Node, pool: Node) -> bool:
    """Return whether pooling can move before a sign.

    The sums of a layer are pooled on its tile, at most once and without padding.
    """
    maker = graph.maker(node.inputs[0])
    pooled = maker is not None and maker.is_max_pool
    layer = graph.maker(maker.inputs[0]) if maker is not None and pooled else maker
    if layer is None or not isinstance(layer.operator, op.Conv | op.Dense):
        return not pooled
    return not pooled and isinstance(pool.operator, op.Pool) and not any(pool.operator.window.pad)


def _swap(graph: Graph, node: Node, pool: Node) -> None:
    """Swap sign and max pooling: they commute, and fewer signs are computed."""
    node.inputs, pool.inputs = [node.output], node.inputs
    node.outputs, pool.outputs = pool.outputs, node.outputs
    pool.output.shape = node.output.shape
    graph.nodes.remove(node)
    graph.nodes.insert(graph.nodes.index(pool) + 1, node)


def _without(activation: Node, node: Node) -> Operator | None:
    """Return signs or levels without the activation before them; None if that changes their result.

    The activation must keep the sign of every number, or clip, which clips levels.
    """
    how, operator = activation.operator, node.operator
    if not isinstance(how, op.Activation):
        return None
    slope: Any = activation.inputs[1].value if len(activation.inputs) > 1 else how.slope
    if isinstance(operator, op.Sign):
        return operator if np.min(slope) > 0 and how.low < 0 <= how.high else None
    assert isinstance(operator, op.Levels)
    if len(activation.inputs) > 1 or how.slope not in (0.0, 1.0):
        return None
    least = max(how.low, 0.0) if how.slope == 0.0 else how.low
    low, high = (int(one) for one in levels_of([least, how.high], [], operator))
    return replace(operator, stored_low=low, stored_high=high)


MAKES = Sign | Threshold


def pack_bits(graph: Graph, context: Context) -> None:
    """Store maps as bits if only binary layers read them."""
    log = context.log
    for maker in [node for node in graph.nodes if makes_signs(node)]:
        tensor = maker.output
        if not context.shape.binary:
            log.add(f"{maker.label}: in bytes, because the core has no binary unit")
        elif not _legal(graph, tensor):
            log.add(f"{maker.label}: in bytes, because layers that are not binary read it")
        else:
            tensor.type = "bits"
            log.lines += [f"{node.label}: {_calls(node)}" for node in graph.users(tensor)]
    for node in graph.nodes_of(Conv):
        if node.inputs[0].type == "bits":
            node.inputs[1].type = "bits"


def makes_signs(node: Node) -> bool:
    """Return whether a node produces only +1 and -1."""
    hosted = isinstance(node.operator, Quantise) and isinstance(node.operator.levels, Sign)
    return hosted or isinstance(node.operator, MAKES)


def _legal(graph: Graph, tensor: Tensor) -> bool:
    users = graph.users(tensor)
    return bool(users) and not graph.is_output(tensor) and all(map(_is_binary, users))


def _is_binary(node: Node) -> bool:
    if not isinstance(node.operator, Conv) or node.operator.groups != 1:
        return False
    weights = node.inputs[1].value
    return weights is not None and bool((np.abs(weights) == 1).all())


def _calls(node: Node) -> str:
    outputs, kh, kw, inputs = node.inputs[1].shape
    return f"binary, {outputs} kernels of {kh}x{kw}x{inputs} bits"


def signs_in_bytes(graph: Graph) -> None:
    """Compute signs that are stored in bytes as sums clipped to +1 and -1.

    2 * (d - T) + 1 is never 0, nor is its negative.
    """
    for node in graph.nodes:
        if not isinstance(node.operator, MAKES) or node.output.type == "bits":
            continue
        if isinstance(node.operator, Threshold):
            limit = Thresholds(node.operator.least, node.operator.flip)
        else:
            zeros = np.zeros(node.output.channels, np.int64)
            limit = Thresholds(zeros + node.inputs[0].zero_point, zeros)
        side = 1 - 2 * limit.flip
        least = np.clip(limit.least, -(1 << 30) + 1, (1 << 30) - 1)
        factor = Multiplier(2 * side, np.zeros_like(side))
        node.operator = Requantise(
            Requantisation(factor, 0, -1, 1, "floor", offset=side * (1 - 2 * least))
        )
