"""What passes save, where a trial would cost more time than the pass is worth.

Cycles are those of the unit that is busy longest with the work that goes away: a matrix call takes
one, and so does a vector that is stored or that the ALU writes. Bytes are those of the vectors that
are not loaded and not stored any more. What of that other units hide is not counted.
"""

from __future__ import annotations

import math

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.graph.node import Conv, Dense, Node
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.passes.base import Taken


def vectors(tensor: Tensor, shape: NpuShape) -> int:
    """Of a map that is stored in 8 bits, or, if it says so, in 16 or 1."""
    bits = 8 if tensor.type == "float32" else min(tensor.bits, 16)
    lanes = max(1, 8 * shape.columns // bits)
    return tensor.height * tensor.width * blocks_of(tensor.channels, lanes)


def calls(node: Node, shape: NpuShape) -> int:
    """Matrix calls of a layer; of one for each channel, of the unit for them."""
    outputs, kh, kw, taken = node.inputs[1].shape
    data, made = node.inputs[0], node.output
    pixels = made.height * made.width * kh * kw * blocks_of(outputs, shape.rows)
    groups = node.operator.groups if isinstance(node.operator, Conv) else 1
    if groups == data.channels == made.channels and groups > 1:
        return pixels
    return pixels * blocks_of(taken * groups, shape.columns)


def of_each_channel(tensor: Tensor, made: Tensor, shape: NpuShape) -> Taken:
    """Of a node that would be a convolution of each channel with one factor: a call for each vector
    of its result, and both maps in memory."""
    written = vectors(made, shape)
    return Taken(written, shape.columns * (vectors(tensor, shape) + written))


def round_trip(tensor: Tensor, shape: NpuShape) -> Taken:
    """Of storing a map that is loaded again."""
    count = vectors(tensor, shape)
    return Taken(count, 2 * shape.columns * count)


def flattened(node: Node, shape: NpuShape) -> Taken:
    """Of a dense layer whose map the host lays out as one long vector: what its calls are more, and
    the flits of the map, out of the core and in again."""
    assert isinstance(node.operator, Dense | Conv)
    outputs, kh, kw, taken = node.inputs[1].shape
    if kh * kw == 1:
        return Taken(0, 0)
    size = shape.columns * vectors(node.inputs[0], shape)
    again = blocks_of(outputs, shape.rows) * blocks_of(kh * kw * taken, shape.columns)
    flits = math.ceil(2 * size / max(1, shape.payload_bits // 8))
    return Taken(again - calls(node, shape) + flits, 2 * size)
