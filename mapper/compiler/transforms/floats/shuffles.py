"""Fold channel permutations, such as ShuffleNet's between groups, into the surrounding layers.

The front end turns such a Reshape, Transpose and Reshape into a 1x1 convolution. The kernels of the
layer before are permuted, across channelwise nodes; if this is impossible, the input channels of
the layer after are permuted. Groups become one convolution with zeros, as their channels are no
longer contiguous. Otherwise the permutation stays a convolution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Activation, Affine, Conv, Node, Pool, Window
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.split_groups import block_diagonal

Order = NDArray[np.int64]
"""For each channel of a result, its channel in the input."""
EACH = (Activation, Affine, Pool)
"""Operators that work per channel, with per-channel constants as further inputs."""


def order_of(node: Node) -> Order | None:
    """Return the permutation of a convolution; None if it does more than permute."""
    operator = node.operator
    if not isinstance(operator, Conv) or operator.window != Window((1, 1)) or operator.groups > 1:
        return None
    weights = node.inputs[1].value
    if weights is None or len(node.inputs) > 2 or weights.shape[0] != weights.shape[3]:
        return None
    flat = weights.reshape(weights.shape[0], -1)
    order = flat.argmax(1)
    one = np.eye(len(flat), dtype=flat.dtype)
    permutes = np.array_equal(flat, one[order]) and np.unique(order).size == len(flat)
    return order if permutes else None


def fold_shuffles(graph: Graph, context: Context) -> None:
    """Fold permutations into other layers."""
    for node in [node for node in graph.nodes if order_of(node) is not None]:
        order = order_of(node)
        assert order is not None
        found = _before(graph, node)
        change: Callable[[Node, Order], None] = _give
        if found is not None:
            moved = [one.output for one in found]
        else:
            found, change = _behind(graph, node), _take
            if found is None:
                continue
            moved = [one.output for one in found[:-1]]
        for one in found:
            change(one, order)
        for tensor in moved:  # no value of the model has this channel order
            tensor.name += ".shuffled"
        if change is _give:
            node.inputs[0].name = node.output.name  # the last one is the shuffled value
        layer = found[-1]
        layer.sources = (*layer.sources, *node.sources)
        graph.remove(node, node.inputs[0])
        text = f"channel permutation, into {layer.label}"
        context.log.add(f"shuffles: {node.sources[0]!r}: {text}")


def _is_each(node: Node) -> bool:
    operator = node.operator
    if isinstance(operator, Conv):
        return operator.groups == node.inputs[0].channels == node.output.channels
    return isinstance(operator, EACH)


def _before(graph: Graph, node: Node) -> list[Node] | None:
    """Return the nodes that compute the map, back to a layer over all channels."""

    def maker(one: Node) -> Node | None:
        found = graph.maker(one.inputs[0])
        return found if found is not None and graph.only_user(found.output) is one else None

    return _up_to_layer(node, maker)


def _behind(graph: Graph, node: Node) -> list[Node] | None:
    """Return the nodes that read the map, up to a layer over all channels."""

    def user(one: Node) -> Node | None:
        found = graph.only_user(one.output)
        return found if found is not None and found.inputs[0] is one.output else None

    return _up_to_layer(node, user)


def _up_to_layer(node: Node, step: Callable[[Node], Node | None]) -> list[Node] | None:
    """Return the next nodes up to a layer over all channels; None if another node is before it."""
    found: list[Node] = []
    while (one := step(found[-1] if found else node)) is not None:
        found.append(one)
        if not _is_each(one):
            return found if isinstance(one.operator, Conv) else None
    return None


def _give(node: Node, order: Order) -> None:
    """Permute the result channels of a node."""
    _ungroup(node)
    node.inputs[1:] = [_chosen(one, order) for one in node.inputs[1:]]


def _take(node: Node, order: Order) -> None:
    """Undo a permutation in the input channels of a node.

    The constants of channelwise nodes are permuted; a layer gets its inputs back in the former
    order.
    """
    back = np.argsort(order)
    if isinstance(node.operator, Conv) and not _is_each(node):
        _ungroup(node)
        weights = node.inputs[1]
        node.inputs[1] = replace(weights, value=np.ascontiguousarray(weights.numbers[..., back]))
    else:
        node.inputs[1:] = [_chosen(one, back) for one in node.inputs[1:]]


def _chosen(constant: Tensor, order: Order) -> Tensor:
    value = constant.numbers
    return replace(constant, value=value[order]) if value.shape[0] == len(order) else constant


def _ungroup(node: Node) -> None:
    operator = node.operator
    if not isinstance(operator, Conv) or operator.groups == 1 or _is_each(node):
        return
    weights = node.inputs[1]
    value = block_diagonal(weights.numbers, operator.groups)
    node.inputs[1] = replace(weights, shape=value.shape, value=value)
    node.operator = replace(operator, groups=1)
