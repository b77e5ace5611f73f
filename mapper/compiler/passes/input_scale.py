"""Factors and offsets on the model's input go into the first layer behind it."""

from __future__ import annotations

import numpy as np

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Affine, Conv, Dense, Node
from mapper.compiler.graph.tensor import Tensor


def fold_input_scale(graph: Graph) -> list[str]:
    """w' = w * factor of each input channel, b' = b + sum of w * offset.

    Legal if the layer does not pad, or nothing is added: its padding is zero behind the factor.
    """
    told = []
    for tensor in [view.tensor for view in graph.inputs.values()]:
        while (node := graph.only_user(tensor)) is not None and isinstance(node.operator, Affine):
            layer = graph.only_user(node.output)
            if layer is None or not _legal(node, layer):
                break
            told.append(f"{node.label}: into {layer.label}")
            if isinstance(layer.operator, Affine):
                _join(node, layer)
            else:
                _fold(node, layer)
            graph.nodes.remove(node)
    return told


def _legal(node: Node, layer: Node) -> bool:
    if layer.inputs[0] is not node.output:
        return False
    if isinstance(layer.operator, Dense | Affine):
        return True
    padded = isinstance(layer.operator, Conv) and any(layer.operator.window.pad)
    return isinstance(layer.operator, Conv) and (not padded or not np.any(node.inputs[2].value))


def _join(node: Node, layer: Node) -> None:
    """Two of them behind each other become the second one."""
    first, second = ([np.asarray(t.value, np.float64) for t in n.inputs[1:]] for n in (node, layer))
    made = first[0] * second[0], first[1] * second[0] + second[1]
    for at, value in enumerate(made, 1):
        name = layer.inputs[at].name
        layer.inputs[at] = Tensor(name, value.shape, value=value.astype(np.float32))
    layer.inputs[0] = node.inputs[0]
    layer.sources = node.sources + layer.sources


def _fold(node: Node, layer: Node) -> None:
    factor, offset = (np.asarray(one.value, np.float64) for one in node.inputs[1:])
    weights = layer.inputs[1]
    assert weights.value is not None
    outputs, share = weights.value.shape[0], weights.value.shape[3]
    groups = factor.size // share
    # of each kernel, the factors of the channels that it sees
    seen = np.repeat(np.arange(groups), outputs // groups)
    factors, offsets = (one.reshape(groups, share)[seen] for one in (factor, offset))
    bias = (weights.value * offsets[:, None, None, :]).sum((1, 2, 3))
    if len(layer.inputs) > 2:
        assert layer.inputs[2].value is not None
        bias = bias + layer.inputs[2].value
    made = (weights.value * factors[:, None, None, :]).astype(np.float32)
    layer.inputs = [
        node.inputs[0],
        Tensor(weights.name, made.shape, value=made),
        Tensor(f"{layer.sources[0]}.bias", bias.shape, value=bias.astype(np.float32)),
    ]
    layer.sources = node.sources + layer.sources
