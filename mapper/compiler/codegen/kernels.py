"""Placement of a layer's weights and bias in memory, and their layout in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.codegen.binary import binary_constants
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Node
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.program.inputs import (
    MOST_TAPS,
    KernelPart,
    Span,
    constants_of,
    conv_of,
    is_depthwise,
    taken_blocks,
    whole_kernel,
)
from mapper.compiler.program.tables import Tables
from mapper.compiler.stages import stage

if TYPE_CHECKING:
    from mapper.compiler.codegen.builder import ProgramBuilder

BIAS_BITS = 31  # magnitude bits of a bias in a parameter word


class Words(NamedTuple):
    """Addresses of the weight words of some output blocks.

    first : first word of each output block
    spans : input blocks whose words each has; part : rows and columns of the kernel
    step : words from a product of a block to its next one, by output block
    cells : all addresses, if they are loaded from the host
    fresh : they may still be in transit
    """

    first: Mapping[int, int]
    spans: Mapping[int, Span]
    part: KernelPart
    step: Mapping[int, int]
    cells: NDArray[np.int64] | None = None
    fresh: bool = False

    def place(self, ky: int, kx: int) -> int:
        """Return the number of a kernel position in the part."""
        rows, columns = self.part
        return (ky - rows.first) * columns.size + kx - columns.first

    def word(self, output: int, ky: int, kx: int, block: int) -> int:
        """Return the weight word of a kernel position and an input block."""
        span = self.spans[output]
        at = self.place(ky, kx) * span.size + block - span.first
        return self.first[output] + at * self.step[output]

    def apart(self, output: int) -> int:
        """Return the number of words from an output block to the next."""
        return self.first[output + 1] - self.first[output]


class Kernels(NamedTuple):
    """The weights of a layer.

    kind : kind of the products
    words : words of each output block, shape (words, rows, columns)
    spans : input blocks of each output block
    static : addresses of the words; None if they come from the host
    bias : first parameter word; lanes : parameter words per block
    shift : number of trailing zeros removed from a bias of more than 32 bits
    each : words per product: 2 for 16-bit inputs
    kernel : its rows and columns
    """

    kind: str
    words: list[NDArray[np.int64]]
    spans: Mapping[int, Span]
    static: Words | None
    bias: int
    lanes: int
    shift: int
    each: int
    kernel: tuple[int, int]

    @property
    def places(self) -> int:
        """Number of kernel positions."""
        return self.kernel[0] * self.kernel[1]

    def bring(
        self, core: ProgramBuilder, outputs: Span, blocks: Span, part: KernelPart, paired: bool
    ) -> Words:
        """Return the words of some output blocks for some input blocks and a part of the kernel;
        load them if they come from the host and are not in memory.

        paired : the words of two output blocks alternate, see `words_alternate`
        """
        if self.static is not None:
            return self.static
        spans = {ob: blocks.meet(self.spans[ob]) for ob in range(*outputs)}
        # the group of an output block may have none of these inputs
        spans = {ob: span for ob, span in spans.items() if span.size > 0}
        if self.kind == "DEPTHWISE":
            part = KernelPart(Span(0, 1), Span(0, 1))  # words hold all positions of the kernel
        size = 2 if paired else 1
        firsts = range(outputs.first, outputs.stop, size)
        groups = [[ob for ob in range(at, at + size) if ob in spans] for at in firsts]
        chosen = [
            np.stack([self._some(ob, spans[ob], part) for ob in group], 1)
            for group in groups
            if group
        ]
        key = (core.number, outputs, blocks, part)
        lies, fresh = core.streams.bring(
            core, key, lambda: np.concatenate([one.reshape(-1, *one.shape[2:]) for one in chosen])
        )
        first, step, at = {}, {}, lies.first
        for group, words in zip(filter(None, groups), chosen, strict=True):
            for number, ob in enumerate(group):
                first[ob], step[ob] = at + number, len(group) * self.each
            at += words.shape[0] * words.shape[1]
        return Words(first, spans, part, step, lies.cells, fresh)

    def _some(self, output: int, blocks: Span, part: KernelPart) -> NDArray[np.int64]:
        """Return the words of an output block in the order of `Words`."""
        words, span = self.words[output], self.spans[output]
        if self.kind == "DEPTHWISE":
            return words
        rows, columns = part
        kw = self.kernel[1]
        whole = words.reshape(-1, kw, span.size, self.each, *words.shape[1:])
        some = whole[rows.first : rows.stop, columns.first : columns.stop]
        some = some[:, :, blocks.first - span.first : blocks.stop - span.first]
        return some.reshape(-1, *words.shape[1:])


def place_kernels(tables: Tables, node: Node, label: str, dynamic: bool) -> Kernels:
    """Put the bias of a convolution into the parameter memory, and its weights into the weight
    memory unless they come from the host."""
    shape, operator = tables.shape, conv_of(node)
    constants = binary_constants(node, shape) if node.inputs[0].type == "bits" else None
    bias = (constants or constants_of(node))[1]
    dense = node.output.height == node.output.width == 1
    with stage("dense weights" if dense else "weight memory"):
        kind, words, spans = kernel_words(node, shape)
    each = 2 if kind == "INT16" else 1
    static = None
    if not dynamic:
        first = {at: tables.add_words(one, label) for at, one in enumerate(words)}
        static = Words(first, spans, whole_kernel(operator.window), dict.fromkeys(first, each))
    shift, stored = stored_bias(bias)
    return Kernels(
        kind, words, spans, static, tables.add_bias(stored, label),
        blocks_of(shape.rows, PARAMETER_LANES), shift, each, operator.window.size,
    )  # fmt: skip


def stored_bias(bias: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """Return the number of trailing zeros removed from a bias, and the remaining numbers."""
    shift = max(0, int(np.abs(bias).max(initial=0)).bit_length() - BIAS_BITS)
    assert not (bias & ((1 << shift) - 1)).any()  # multiples of the shift before the multiplier
    return shift, bias >> shift


def weight_words(macro: Macro, shape: NpuShape) -> int:
    """Return the number of weight words of a macro node."""
    if macro.conv is None:
        return 0
    return sum(len(one) for one in kernel_words(macro.conv, shape)[1])


def kernel_words(
    node: Node, shape: NpuShape
) -> tuple[str, list[NDArray[np.int64]], dict[int, Span]]:
    """Return the kind of the products, the words of each output block, shape (words, rows,
    columns), and its input blocks."""
    weights, operator, data = constants_of(node)[0], conv_of(node), node.inputs[0]
    count = blocks_of(weights.shape[0], shape.rows)
    spans = {at: taken_blocks(node, Span(at, at + 1), shape.rows) for at in range(count)}
    groups, bits, wide = operator.groups, data.type == "bits", data.bits == 16
    if bits:
        weights, groups, wide = binary_constants(node, shape)[0], 1, False
    elif is_depthwise(node):
        return "DEPTHWISE", depthwise_words(weights, shape), spans
    found = [
        product_words(_whole(weights, groups, at, span, shape), wide) for at, span in spans.items()
    ]
    return "BINARY" if bits else "INT16" if wide else "INT8", found, spans


def _whole(
    weights: NDArray[np.int64], groups: int, output: int, span: Span, shape: NpuShape
) -> NDArray[np.int64]:
    """Return the kernels of an output block over all channels of its input blocks, 0 outside their
    groups.

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
    """Lay out the weights of an output block: word (ky * kw + kx) * blocks + c holds row r, column
    c of the array. Wide (16-bit) products have a word of low bytes, then one of high bytes.

    block : shape (rows, kernel rows, kernel columns, channels padded to whole blocks)
    """
    rows, kh, kw, channels = block.shape
    words = block.reshape(rows, kh, kw, channels // rows, rows).transpose(1, 2, 3, 0, 4)
    words = words.reshape(-1, rows, rows)
    if not wide:
        return words
    low = (words & 255 ^ 128) - 128
    return np.stack([low, words >> 8], 1).reshape(-1, rows, rows)


def taps_of(shape: NpuShape) -> int:
    """Return the kernel positions per word of a depthwise convolution."""
    return min(shape.columns, MOST_TAPS)


def depthwise_words(weights: NDArray[np.int64], shape: NpuShape) -> list[NDArray[np.int64]]:
    """Return the kernel words of each block: row `tap` holds one position of all channels.

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
