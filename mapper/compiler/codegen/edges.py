"""Pixels at the edges of a map, whose windows reach into its padding.

All padding holds the zero point, so what it adds to a sum is known: it goes into the bias of these
pixels, and the products are left out.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np

from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.kernels import BIAS_BITS, Kernels
from mapper.compiler.codegen.pairs import Pass
from mapper.compiler.graph.node import Conv, Node, Window
from mapper.compiler.schedule.inputs import Part, Span


class Side(NamedTuple):
    """Rows or columns of the result whose windows have the same places inside the map."""

    results: Span
    places: Span


class Edge(NamedTuple):
    """Sums of a tile that are made alike.

    part : of the kernel, that lies inside the map; bias : its first parameter word
    """

    sums: Pass
    part: Part
    bias: int


def edges_of(core: ProgramBuilder, node: Node, kernels: Kernels, work: TileWork) -> list[Edge]:
    """A tile by what its windows have inside the map; none if a window has nothing there, or if a
    bias with all that its padding adds has no room in a parameter."""
    assert isinstance(node.operator, Conv)
    window, data = node.operator.window, node.inputs[0]
    rows, columns = work.spans[1]
    down = _sides(window, rows, 0, data.height)
    across = [Side(columns, Span(0, window.size[1]))]
    if work.cut.edges == "all":
        across = _sides(window, columns, 1, data.width)
    if any(not side.places.size for side in (*down, *across)):
        return []
    whole = Part(Span(0, window.size[0]), Span(0, window.size[1]))
    found = []
    for high in down:
        for wide in across:
            part = Part(high.places, wide.places)
            bias = kernels.bias if part == whole else _bias(core, node, part)
            if bias is None:
                return []
            found.append(Edge(Pass(high.results, wide.results), part, bias))
    return found


def _sides(window: Window, span: Span, axis: int, length: int) -> list[Side]:
    """Parts of a span of the result, in order."""
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


def _bias(core: ProgramBuilder, node: Node, part: Part) -> int | None:
    """The bias with what the products outside of a part of the kernel would add: its first word,
    or None where 32 bits do not hold it, as of 16 bits with a zero point far away."""
    weights, bias = node.inputs[1].value, node.inputs[2].value
    assert weights is not None
    assert bias is not None
    rows, columns = (slice(*span) for span in part)
    outside = weights.sum((1, 2, 3)) - weights[:, rows, columns].sum((1, 2, 3))
    whole = bias + node.inputs[0].zero_point * outside
    if np.abs(whole).max() >= 1 << BIAS_BITS:
        return None
    return core.tables.add_bias(whole, core.macro.label)
