"""Last changes of a floating-point graph, which always run.

Activations move before max pooling, so that they become part of the layer before it. Nodes without
a core operator become depthwise 1x1 convolutions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Activation, Affine, Conv, Dense, Node, PadMap, Pool, Window
from mapper.compiler.ir.tensor import Tensor, constant
from mapper.compiler.transforms.base import Context


def activate_first(graph: Graph, context: Context) -> None:
    """Swap max pooling and activations that never decrease.

    An activation without a layer takes another pass over the map. Pooling of sums is a separate
    pass.
    """
    for node in graph.nodes_of(Activation):
        maker = graph.maker(node.inputs[0], Pool)
        assert isinstance(node.operator, Activation)
        if maker is None or not maker.is_max_pool:
            continue
        slope: Any = node.inputs[1].value if len(node.inputs) > 1 else node.operator.slope
        if np.min(slope) < 0 or graph.only_user(maker.output) is not node:
            continue
        middle = Tensor(f"{node.output.name}.before_pool", maker.inputs[0].shape)
        first = Node(node.operator, [maker.inputs[0], *node.inputs[1:]], [middle], node.sources)
        graph.nodes.insert(graph.nodes.index(maker), first)
        graph.nodes.remove(node)
        maker.inputs[0], maker.outputs = middle, node.outputs
        context.log.add(f"{node.label}: before {maker.label}")


def channel_convolutions(graph: Graph, context: Context) -> None:
    """Convert factors and offsets, zero padding, and leaky activations that follow no
    convolution, after all passes that fold such nodes."""
    for node in list(graph.nodes):
        operator = node.operator
        if isinstance(operator, Affine):
            factor, offset = (one.numbers.astype(np.float32) for one in node.inputs[1:])
            _become(node, Window((1, 1)), factor, offset)
        elif isinstance(operator, PadMap) and operator.value == 0:
            _become(node, Window((1, 1), pad=operator.pad), *_same(node.inputs[0].channels))
        elif isinstance(operator, Activation) and _alone(graph, node, operator):
            between = Tensor(f"{node.output.name}.before", node.output.shape)
            first = Node(operator, node.inputs[:1], [between], node.sources)
            _become(first, Window((1, 1)), *_same(between.channels))
            graph.nodes.insert(graph.nodes.index(node), first)
            node.inputs[0] = between
        else:
            continue
        context.log.add(f"{node.sources[0]!r} ({operator.name}): as a depthwise convolution")


def _same(channels: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.ones(channels, np.float32), np.zeros(channels, np.float32)


def _become(
    node: Node, window: Window, factor: NDArray[np.float32], offset: NDArray[np.float32]
) -> None:
    node.operator = Conv(window, groups=factor.size)
    name = node.sources[0]
    node.inputs = [
        node.inputs[0],
        constant(f"{name}.weights", factor.reshape(-1, 1, 1, 1)),
        constant(f"{name}.bias", offset),
    ]


def _alone(graph: Graph, node: Node, operator: Activation) -> bool:
    """Return whether no layer before a leaky activation can include it in its requantisation."""
    if len(node.inputs) == 1 and operator.slope in (0.0, 1.0):
        return False
    layer = graph.maker(node.inputs[0], Conv | Dense)
    return layer is None or graph.only_user(node.inputs[0]) is not node
