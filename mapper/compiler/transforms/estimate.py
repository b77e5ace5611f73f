"""Estimate the savings of passes, where a trial would take too long.

Cycles count the unit with the most removed work: one cycle per matrix call, and one per vector
stored or written by the ALU. Bytes count vectors that are no longer loaded and stored. Overlap with
other units is ignored.
"""

from __future__ import annotations

import math

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.node import Conv, Dense, Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.transforms.base import Taken


def vectors(tensor: Tensor, shape: NpuShape) -> int:
    """Return the vectors of a map stored in 8 bits, or in 16 or 1 according to its type."""
    bits = 8 if tensor.type == "float32" else min(tensor.bits, 16)
    lanes = max(1, 8 * shape.columns // bits)
    return tensor.height * tensor.width * blocks_of(tensor.channels, lanes)


def calls(node: Node, shape: NpuShape) -> int:
    """Return the matrix calls of a layer; for depthwise layers, the calls of the depthwise unit."""
    outputs, kh, kw, taken = node.inputs[1].shape
    data, made = node.inputs[0], node.output
    pixels = made.height * made.width * kh * kw * blocks_of(outputs, shape.rows)
    groups = node.operator.groups if isinstance(node.operator, Conv) else 1
    if groups == data.channels == made.channels and groups > 1:
        return pixels
    return pixels * blocks_of(taken * groups, shape.columns)


def of_each_channel(tensor: Tensor, made: Tensor, shape: NpuShape) -> Taken:
    """Return the cost of a node as a depthwise 1x1 convolution.

    It takes one call per vector of its result, and keeps both maps in memory.
    """
    written = vectors(made, shape)
    return Taken(written, shape.columns * (vectors(tensor, shape) + written))


def round_trip(tensor: Tensor, shape: NpuShape) -> Taken:
    """Return the cost of storing a map and loading it again."""
    count = vectors(tensor, shape)
    return Taken(count, 2 * shape.columns * count)


def flattened(node: Node, shape: NpuShape) -> Taken:
    """Return the cost of a dense layer whose map the host flattens into one vector.

    These are additional matrix calls, and the flits of the map from the core and back.
    """
    assert isinstance(node.operator, Dense | Conv)
    outputs, kh, kw, taken = node.inputs[1].shape
    if kh * kw == 1:
        return Taken(0, 0)
    size = shape.columns * vectors(node.inputs[0], shape)
    again = blocks_of(outputs, shape.rows) * blocks_of(kh * kw * taken, shape.columns)
    flits = math.ceil(2 * size / max(1, shape.payload_bits // 8))
    return Taken(again - calls(node, shape) + flits, 2 * size)
