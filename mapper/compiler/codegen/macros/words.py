"""Weights of convolutions from their words: the inverse of `codegen.kernels`."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.kernels import taps_of
from mapper.compiler.ir.node import Conv, Node
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.numerics.binary import unpacked
from mapper.compiler.program.inputs import Span, is_depthwise, taken_blocks

Int64 = NDArray[np.int64]


def weights_of(words: NDArray[np.int8], conv: Node, shape: NpuShape) -> Int64:
    """Return the weights, shape (outputs, kernel rows, kernel columns, inputs / groups).

    words : words of all output blocks, shape (words, rows, columns)
    conv : convolution with input and output; raises `ValueError` if the words do not match it
    """
    operator = conv.operator
    assert isinstance(operator, Conv)
    channels, size = conv.output.channels, operator.window.size
    taken = conv.inputs[0].channels // operator.groups
    if is_depthwise(conv):
        return _depthwise(words, channels, size, shape)
    bits, wide = conv.inputs[0].type == "bits", conv.inputs[0].bits == 16
    groups, lanes = operator.groups, taken
    if bits:
        groups, lanes = 1, blocks_of(taken, 8 * shape.columns) * shape.columns
    found = np.zeros((channels, *size, lanes), np.int64)
    at = 0
    for block in range(blocks_of(channels, shape.rows)):
        span = taken_blocks(conv, Span(block, block + 1), shape.rows)
        count = prod(size) * span.size * (2 if wide else 1)
        some = words[at : at + count].astype(np.int64)
        at += count
        if wide:
            pairs = some.reshape(-1, 2, shape.rows, shape.columns)
            some = pairs[:, 1] << 8 | pairs[:, 0] & 255
        made = some.reshape(*size, span.size, shape.rows, shape.columns)
        made = made.transpose(3, 0, 1, 2, 4).reshape(shape.rows, *size, -1)
        for row, channel in enumerate(
            range(block * shape.rows, min((block + 1) * shape.rows, channels))
        ):
            begin = channel // (channels // groups) * lanes - span.first * shape.columns
            found[channel] = made[row, :, :, begin : begin + lanes]
    if at != len(words):
        raise ValueError("weight words do not match the layer")
    if bits:
        vectors = found.astype(np.int8).reshape(channels, *size, -1, shape.columns)
        return unpacked(vectors, taken)
    return found


def _depthwise(
    words: NDArray[np.int8], channels: int, size: tuple[int, int], shape: NpuShape
) -> Int64:
    taps, places = taps_of(shape), prod(size)
    blocks = blocks_of(channels, shape.columns)
    made = words.reshape(blocks, -1, shape.rows, shape.columns)[:, :, :taps].astype(np.int64)
    whole = made.transpose(1, 2, 0, 3).reshape(-1, blocks * shape.columns)
    return whole[:places, :channels].T.reshape(channels, *size, 1)
