"""The input range of a part of a layer's result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.node import Conv, Node, Window

MOST_TAPS = 16
"""Kernel positions that a micro-op can select in a depthwise word."""


class Span(NamedTuple):
    """Range of positions from `first` to `stop` (exclusive); may include padding."""

    first: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.first

    @property
    def cells(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.stop)

    def meet(self, other: Span) -> Span:
        """Return the common positions; the size is 0 or less if there are none."""
        return Span(max(self.first, other.first), min(self.stop, other.stop))

    def around(self, other: Span) -> Span:
        """Return the smallest range that contains both."""
        return Span(min(self.first, other.first), max(self.stop, other.stop))

    def moved(self, distance: int) -> Span:
        return Span(self.first + distance, self.stop + distance)


class KernelPart(NamedTuple):
    """Rows and columns of a kernel."""

    rows: Span
    columns: Span

    def meet(self, other: KernelPart) -> KernelPart | None:
        """Return the common part; None if there is none."""
        rows, columns = self.rows.meet(other.rows), self.columns.meet(other.columns)
        return KernelPart(rows, columns) if rows.size > 0 and columns.size > 0 else None


def whole_kernel(window: Window) -> KernelPart:
    return KernelPart(Span(0, window.size[0]), Span(0, window.size[1]))


def parts_of(window: Window, most: tuple[int, int]) -> Iterator[KernelPart]:
    """Yield the parts of a kernel, each of at most some rows and columns."""
    (kh, kw), (rows, columns) = window.size, most
    for y in range(0, kh, rows):
        for x in range(0, kw, columns):
            yield KernelPart(Span(y, min(y + rows, kh)), Span(x, min(x + columns, kw)))


def needed(span: Span, window: Window | None, axis: int, part: Span | None = None) -> Span:
    """Return the input range, padding included, that a range of the result is computed from.

    part : part of the kernel; None for the whole kernel
    """
    if window is None:
        return span
    first, stop = part or Span(0, window.size[axis])
    step = window.dilation[axis]
    begin = span.first * window.stride[axis] - (window.pad.top, window.pad.left)[axis]
    reach = (span.size - 1) * window.stride[axis] + (stop - 1) * step + 1
    return Span(begin + first * step, begin + reach)


def conv_of(node: Node) -> Conv:
    """Return the operator of a convolution."""
    assert isinstance(node.operator, Conv)
    return node.operator


def constants_of(conv: Node) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the weights and the bias of a convolution."""
    weights, bias = conv.inputs[1].value, conv.inputs[2].value
    assert weights is not None
    assert bias is not None
    return weights, bias


def is_depthwise(node: Node) -> bool:
    """Return whether a node is a depthwise convolution of 8-bit data."""
    operator, data = node.operator, node.inputs[0]
    return (
        isinstance(operator, Conv)
        and operator.groups == data.channels == node.output.channels
        and data.bits == 8
    )


def taken_blocks(node: Node, outputs: Span, size: int) -> Span:
    """Return the input blocks of some output blocks of a convolution.

    size : channels per block; input blocks of bits have eight times this number
    """
    operator = conv_of(node)
    inputs, channels = node.inputs[0].channels, node.output.channels
    taken, made = inputs // operator.groups, channels // operator.groups
    first = outputs.first * size // made * taken
    stop = ((min(outputs.stop * size, channels) - 1) // made + 1) * taken
    size *= 8 if node.inputs[0].type == "bits" else 1
    return Span(first // size, -(-stop // size))
