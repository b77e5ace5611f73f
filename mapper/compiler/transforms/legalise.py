"""Turn nodes without a core operator into depthwise 1x1 convolutions.

These are factors and offsets, zero padding, and leaky activations that follow no convolution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Activation, Affine, Conv, Dense, Node, PadMap, Window
from mapper.compiler.ir.tensor import Tensor


def channel_convolutions(graph: Graph) -> list[str]:
    """Convert the nodes; return the log. Always runs, after all passes that fold such nodes."""
    told = []
    for node in list(graph.nodes):
        operator = node.operator
        if isinstance(operator, Affine):
            factor, offset = (one.value for one in node.inputs[1:])
            assert factor is not None
            assert offset is not None
            _become(node, Window((1, 1)), factor.astype(np.float32), offset.astype(np.float32))
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
        told.append(f"{node.sources[0]!r} ({operator.name}): as a depthwise convolution")
    return told


def _same(channels: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.ones(channels, np.float32), np.zeros(channels, np.float32)


def _become(
    node: Node, window: Window, factor: NDArray[np.float32], offset: NDArray[np.float32]
) -> None:
    node.operator = Conv(window, groups=factor.size)
    name = node.sources[0]
    node.inputs = [
        node.inputs[0],
        Tensor(f"{name}.weights", (factor.size, 1, 1, 1), value=factor.reshape(-1, 1, 1, 1)),
        Tensor(f"{name}.bias", offset.shape, value=offset),
    ]


def _alone(graph: Graph, node: Node, operator: Activation) -> bool:
    """Return whether no layer before a leaky activation can include it in its requantisation."""
    if len(node.inputs) == 1 and operator.slope in (0.0, 1.0):
        return False
    maker = graph.maker(node.inputs[0])
    layer = maker is not None and isinstance(maker.operator, Conv | Dense)
    return not layer or graph.only_user(node.inputs[0]) is not node
