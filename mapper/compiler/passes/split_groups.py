"""Grouped convolutions: each output block takes only the input blocks of its groups; or, where that
saves nothing, the kernels of all groups become one block-diagonal convolution.

One convolution has one list of input blocks for all of its outputs: fewer micro-ops, and pairs of
kernels on dual cores. Kernels of each channel alone have a unit of their own, and stay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Conv, Node
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.schedule.inputs import Span, is_depthwise, taken_blocks


def place_groups(graph: Graph, size: int, split: bool = True) -> list[str]:
    """The form of each grouped convolution; a line for each.

    size : channels of a block; split : False makes all of them one block-diagonal convolution
    """
    told = []
    for node in graph.nodes:
        operator = node.operator
        if not isinstance(operator, Conv) or operator.groups == 1 or is_depthwise(node):
            continue
        if node.inputs[0].type not in ("int8", "int16"):
            continue
        calls, whole = gain(node, size)
        if split and calls < whole:
            told.append(
                f"{node.label}: {operator.groups} groups by blocks, "
                f"{whole} -> {calls} calls a pixel"
            )
            continue
        weights = node.inputs[1]
        assert weights.value is not None
        value = block_diagonal(weights.value, operator.groups)
        node.inputs[1] = Tensor(weights.name, value.shape, weights.type, value=value)
        node.operator = replace(operator, groups=1)
        told.append(
            f"{node.label}: {operator.groups} groups as one convolution, {whole} calls a pixel"
        )
    return told


def gain(node: Node, size: int) -> tuple[int, int]:
    """Matrix calls of a pixel: by groups, and of one convolution over all channels."""
    outputs, rows, columns, _ = node.inputs[1].shape
    blocks = blocks_of(outputs, size)
    taken = sum(taken_blocks(node, Span(at, at + 1), size).size for at in range(blocks))
    places = rows * columns
    return places * taken, places * blocks * blocks_of(node.inputs[0].channels, size)


def block_diagonal(weights: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Kernels over all channels, zero outside of their groups."""
    outputs, rows, columns, taken = weights.shape
    made = np.zeros((outputs, rows, columns, taken * groups), weights.dtype)
    for group in range(groups):
        mine = slice(group * outputs // groups, (group + 1) * outputs // groups)
        made[mine, :, :, group * taken : (group + 1) * taken] = weights[mine]
    return made
