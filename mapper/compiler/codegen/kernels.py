"""Where the weights and the bias of a layer lie, and how they are laid out in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.binary import binary_constants
from mapper.compiler.codegen.tables import LANES, Tables
from mapper.compiler.graph.node import Conv, Node
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.schedule.inputs import Span, is_depthwise, taken_blocks

BIAS_BITS = 31  # but for the sign, of a parameter
MOST_TAPS = 16  # that a micro-op tells apart in a word


class Kernels(NamedTuple):
    """The weights of a layer.

    kind : of the products
    first : the first word of each output block
    spans : the input blocks that each output block is made from
    bias : first parameter word; words : parameter words of a block
    shift : last zeros that a bias of more than 32 bits was stored without
    places : of a kernel
    each : words of a product: 2 of 16 bits
    """

    kind: str
    first: tuple[int, ...]
    spans: tuple[Span, ...]
    bias: int
    words: int
    shift: int
    places: int
    each: int

    def word(self, output: int, place: int, block: int) -> int:
        """The weight word of a place of the kernel and an input block."""
        span = self.spans[output]
        return self.first[output] + (place * span.size + block - span.first) * self.each


def place_kernels(tables: Tables, node: Node, label: str) -> Kernels:
    """Put weights and bias of a convolution into the small memories."""
    shape, operator = tables.shape, node.operator
    weights, bias = node.inputs[1].value, node.inputs[2].value
    assert isinstance(operator, Conv)
    assert weights is not None
    assert bias is not None
    count = blocks_of(weights.shape[0], shape.rows)
    outputs = [Span(at, at + 1) for at in range(count)]
    spans = tuple(taken_blocks(node, one, shape.rows) for one in outputs)
    wide = node.inputs[0].bits == 16
    if node.inputs[0].type == "bits":
        kind, (weights, bias) = "BINARY", binary_constants(node, shape)
        words = [
            product_words(_whole(weights, 1, at, span, shape), False)
            for at, span in enumerate(spans)
        ]
    elif is_depthwise(node):
        kind, words = "DEPTHWISE", depthwise_words(weights, shape)
    else:
        kind = "INT16" if wide else "INT8"
        words = [
            product_words(_whole(weights, operator.groups, at, span, shape), wide)
            for at, span in enumerate(spans)
        ]
    first = [tables.add_words(one, label) for one in words]
    shift = max(0, int(np.abs(bias).max(initial=0)).bit_length() - BIAS_BITS)
    assert not (bias & ((1 << shift) - 1)).any()  # the shift before the multiplier is as much
    return Kernels(
        kind, tuple(first), spans, tables.add_bias(bias >> shift, label),
        blocks_of(shape.rows, LANES), shift,
        weights.shape[1] * weights.shape[2], 2 if wide else 1,
    )  # fmt: skip


def _whole(
    weights: NDArray[np.int64], groups: int, output: int, span: Span, shape: NpuShape
) -> NDArray[np.int64]:
    """Kernels of an output block over all channels of its input blocks, 0 outside of their groups.

    Returns shape (rows, kernel rows, kernel columns, channels).
    """
    channels, kh, kw, taken = weights.shape
    made = np.zeros((shape.rows, kh, kw, span.size * shape.columns), np.int64)
    first = span.first * shape.columns
    for row, channel in enumerate(
        range(output * shape.rows, min((output + 1) * shape.rows, channels))
    ):
        begin = channel // (channels // groups) * taken - first
        made[row, :, :, begin : begin + taken] = weights[channel]
    return made


def product_words(block: NDArray[np.int64], wide: bool) -> NDArray[np.int64]:
    """Word ((ky * kw + kx) * blocks + c) of an output block: row r, column c of the array. Of 16
    bits the low bytes, then the high ones.

    block : shape (rows, kernel rows, kernel columns, channels of whole blocks)
    """
    rows, kh, kw, channels = block.shape
    words = block.reshape(rows, kh, kw, channels // rows, rows).transpose(1, 2, 3, 0, 4)
    words = words.reshape(-1, rows, rows)
    if not wide:
        return words
    low = (words & 255 ^ 128) - 128
    return np.stack([low, words >> 8], 1).reshape(-1, rows, rows)


def taps_of(shape: NpuShape) -> int:
    """Places of a kernel in a word of a depthwise convolution."""
    return min(shape.columns, MOST_TAPS)


def depthwise_words(weights: NDArray[np.int64], shape: NpuShape) -> list[NDArray[np.int64]]:
    """For each block the words of its kernel: row `tap` holds one place of all channels.

    weights : shape (channels, kernel rows, kernel columns, 1)
    """
    channels, taps = weights.shape[0], taps_of(shape)
    places = weights.reshape(channels, -1).T
    count, blocks = blocks_of(len(places), taps), blocks_of(channels, shape.columns)
    whole = np.zeros((count * taps, blocks * shape.columns), np.int64)
    whole[: len(places), :channels] = places
    found = np.zeros((blocks, count, shape.rows, shape.columns), np.int64)
    found[:, :, :taps] = whole.reshape(count, taps, blocks, shape.columns).transpose(2, 0, 1, 3)
    return list(found)
