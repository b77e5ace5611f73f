"""Float passes: constant factors go into the layer before, activations before pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Activation, Affine, Conv, Dense, Node, Pool, Window
from mapper.compiler.graph.tensor import Tensor


def fold_affine(graph: Graph) -> list[str]:
    """w' = w * factor, b' = b * factor + offset, where a layer's result goes to a constant factor
    and offset alone: BatchNormalization, and biases that are added by a node of their own."""
    told = []
    for node in [node for node in graph.nodes if isinstance(node.operator, Affine)]:
        maker = graph.maker(node.inputs[0])
        if maker is None or not isinstance(maker.operator, Conv | Dense):
            continue
        if graph.only_user(maker.output) is not node:
            continue
        factor, offset = (np.asarray(t.value, np.float64) for t in node.inputs[1:])
        weights = maker.inputs[1]
        assert weights.value is not None
        made = (weights.value * factor[:, None, None, None]).astype(np.float32)
        bias = offset
        if len(maker.inputs) > 2:
            assert maker.inputs[2].value is not None
            bias = maker.inputs[2].value * factor + offset
        maker.inputs[1:] = [
            Tensor(weights.name, made.shape, value=made),
            Tensor(f"{maker.sources[0]}.bias", bias.shape, value=bias.astype(np.float32)),
        ]
        graph.nodes.remove(node)
        maker.sources += node.sources
        maker.outputs = node.outputs
        told.append(f"{node.label}: into {maker.label}")
    return told


def activate_first(graph: Graph) -> list[str]:
    """Activations of pooled maps go before max pooling: they never decrease, so nothing changes,
    and they become part of the layer before. Pooling of sums is another pass."""
    told = []
    for node in [node for node in graph.nodes if isinstance(node.operator, Activation)]:
        maker = graph.maker(node.inputs[0])
        if maker is None or not isinstance(maker.operator, Pool) or maker.operator.kind != "max":
            continue
        assert isinstance(node.operator, Activation)
        slope: Any = node.inputs[1].value if len(node.inputs) > 1 else node.operator.slope
        if np.min(slope) < 0 or graph.only_user(maker.output) is not node:
            continue
        middle = Tensor(f"{node.output.name}.before_pool", maker.inputs[0].shape)
        first = Node(node.operator, [maker.inputs[0], *node.inputs[1:]], [middle], node.sources)
        graph.nodes.insert(graph.nodes.index(maker), first)
        graph.nodes.remove(node)
        maker.inputs[0], maker.outputs = middle, node.outputs
        told.append(f"{node.label}: before {maker.label}")
    return told


def dense_as_conv(graph: Graph) -> list[str]:
    """Dense layers become convolutions whose kernel is as large as the map."""
    told = []
    for node in graph.nodes:
        if isinstance(node.operator, Dense):
            size = node.inputs[1].shape[1], node.inputs[1].shape[2]
            node.operator = Conv(Window(size))
            told.append(f"{node.label}: kernel of {size[0]}x{size[1]}")
    return told
