"""Pixels at the edges of a feature map, whose windows reach into its padding.

Padding holds the zero point, so its contribution to a sum is a constant: it is added to the bias of
these pixels, and the products are skipped.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np

from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.kernels import BIAS_BITS, Kernels
from mapper.compiler.codegen.pairs import Pass
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.program.inputs import KernelPart, Span, constants_of, conv_of, whole_kernel


class Side(NamedTuple):
    """Rows or columns of the result whose windows have the same kernel positions in the map."""

    results: Span
    places: Span


class Edge(NamedTuple):
    """Sums of a tile that use the same part of the kernel.

    part : part of the kernel inside the map; bias : its first parameter word
    """

    sums: Pass
    part: KernelPart
    bias: int


def edges_of(core: ProgramBuilder, node: Node, kernels: Kernels, work: TileWork) -> list[Edge]:
    """Split a tile by the part of its windows inside the map. Return an empty list if a window is
    completely outside, or if a bias with its padding contribution does not fit in a parameter."""
    window, data = conv_of(node).window, node.inputs[0]
    rows, columns = work.spans[1]
    down = _sides(window, rows, 0, data.height)
    across = [Side(columns, Span(0, window.size[1]))]
    if work.cut.edges == "all":
        across = _sides(window, columns, 1, data.width)
    if any(not side.places.size for side in (*down, *across)):
        return []
    whole = whole_kernel(window)
    found = []
    for high in down:
        for wide in across:
            part = KernelPart(high.places, wide.places)
            bias = kernels.bias if part == whole else _bias(core, node, part)
            if bias is None:
                return []
            found.append(Edge(Pass(high.results, wide.results), part, bias))
    return found


def _sides(window: Window, span: Span, axis: int, length: int) -> list[Side]:
    """Return the sides that a span of the result consists of, in order."""
    step = window.dilation[axis]
    before = (window.pad.top, window.pad.left)[axis]

    def inside(place: int) -> Span:
        begin = place * window.stride[axis] - before
        first = max(0, -(begin // step))
        stop = min(window.size[axis], -(-(length - begin) // step))
        return Span(first, max(first, stop))

    found = []
    for places, group in groupby(range(*span), inside):
        results = list(group)
        found.append(Side(Span(results[0], results[-1] + 1), places))
    return found


def _bias(core: ProgramBuilder, node: Node, part: KernelPart) -> int | None:
    """Add the bias plus the padding contribution outside a part of the kernel. Return its first
    word, or None if it exceeds 32 bits, e.g. for 16-bit data with a large zero point."""
    weights, bias = constants_of(node)
    rows, columns = (slice(*span) for span in part)
    outside = weights.sum((1, 2, 3)) - weights[:, rows, columns].sum((1, 2, 3))
    whole = bias + node.inputs[0].zero_point * outside
    if np.abs(whole).max() >= 1 << BIAS_BITS:
        return None
    return core.tables.add_bias(whole, core.macro.label)
