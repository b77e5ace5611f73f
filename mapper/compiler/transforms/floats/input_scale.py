"""Fold factors and offsets on the model's input into the first layer.

For each input channel w' = w * factor, and b' = b + sum of w * offset.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Affine, Conv, Dense, Node
from mapper.compiler.ir.tensor import constant
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, of_each_channel


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield factors and offsets that directly follow an input."""
    for view in graph.inputs.values():
        for node in graph.users(view.tensor):
            if isinstance(node.operator, Affine):
                yield (node,)


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Return why a site is illegal: with an offset the layer must not pad, as it pads after the
    factor.
    """
    (node,) = site
    if graph.only_user(node.inputs[0]) is not node:
        return "the input has other users"
    layer = graph.only_user(node.output)
    if layer is None or layer.inputs[0] is not node.output:
        return "its result has several users"
    if isinstance(layer.operator, Dense | Affine):
        return None
    if not isinstance(layer.operator, Conv):
        return "no layer follows"
    if any(layer.operator.window.pad) and np.any(node.inputs[2].value):
        return "the layer pads with zeros, which are not zero before the offset"
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    (node,) = site
    return of_each_channel(node.inputs[0], node.output, context.shape)


def apply(graph: Graph, site: Site, context: Context) -> str:
    (node,) = site
    layer = graph.only_user(node.output)
    assert layer is not None
    told = f"{node.label}: into {layer.label}"
    if isinstance(layer.operator, Affine):
        _join(node, layer)
    else:
        _fold(node, layer)
    graph.nodes.remove(node)
    return told


def _join(node: Node, layer: Node) -> None:
    """Merge two consecutive factors and offsets into the second node."""
    first, second = ([np.asarray(t.value, np.float64) for t in n.inputs[1:]] for n in (node, layer))
    made = first[0] * second[0], first[1] * second[0] + second[1]
    for at, value in enumerate(made, 1):
        layer.inputs[at] = constant(layer.inputs[at].name, value.astype(np.float32))
    layer.inputs[0] = node.inputs[0]
    layer.sources = node.sources + layer.sources


def _fold(node: Node, layer: Node) -> None:
    factor, offset = (np.asarray(one.value, np.float64) for one in node.inputs[1:])
    weights = layer.inputs[1]
    values = weights.numbers
    outputs, share = values.shape[0], values.shape[3]
    groups = factor.size // share
    # factors of the input channels of each kernel
    seen = np.repeat(np.arange(groups), outputs // groups)
    factors, offsets = (one.reshape(groups, share)[seen] for one in (factor, offset))
    bias = (values * offsets[:, None, None, :]).sum((1, 2, 3))
    if len(layer.inputs) > 2:
        bias = bias + layer.inputs[2].numbers
    layer.inputs = [
        node.inputs[0],
        constant(weights.name, (values * factors[:, None, None, :]).astype(np.float32)),
        constant(f"{layer.sources[0]}.bias", bias.astype(np.float32)),
    ]
    layer.sources = node.sources + layer.sources


INPUT_SCALE = Pass("input-scale", sites, legal, gain, apply)
