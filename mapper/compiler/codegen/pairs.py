"""Two products of bytes at once, on cores with a dual multiplier: (a * 2^16 + b) * c.

a, b are two pixels with one weight, neighbours or in the upper and the lower half of a tile, or the
weights of two output blocks with one pixel. What is left over is made by ordinary products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hw.npu.isa import form_of
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.kernels import Kernels
from mapper.compiler.graph.node import Conv, Node
from mapper.compiler.memory.planner import Region
from mapper.compiler.schedule.inputs import Span

_DIST = {field.name: field.most for field in form_of("CTRL", "DIST").fields}
OVERHEAD = 10  # cycles of a load and products that are begun


class Pass(NamedTuple):
    """Sums of a tile that are made at one go: of each pair the first pixel.

    step : columns from a pixel to the next
    apart : accumulators from the first pixel of a pair to the second; 0 for single pixels
    far : vectors between their inputs
    """

    rows: Span
    columns: Span
    step: int = 1
    apart: int = 0
    far: int = 0

    @property
    def pixels(self) -> int:
        """How many products a weight makes."""
        return self.rows.size * -(-self.columns.size // self.step)


class Plan(NamedTuple):
    """How a tile is made. kernels : two output blocks at once, so many words apart; 0 for one"""

    passes: list[Pass]
    kernels: int = 0


def plan_pairs(core: ProgramBuilder, node: Node, kernels: Kernels, work: TileWork) -> Plan:
    """The way that takes fewest cycles, of those that are allowed."""
    rows, columns = work.spans[1]
    plain = Plan([Pass(rows, columns)])
    how = core.options.dual
    if core.shape.multiplier != "dual" or kernels.kind != "INT8" or how == "off":
        return plain
    found = []
    distance = _kernels_apart(kernels, work.tile.blocks)
    if how != "pixels" and distance:
        found.append(Plan(plain.passes, distance))
    if how != "kernels" and core.macro.windows is None:  # which come one by one
        region = core.regions[node.inputs[0]]
        found += [
            Plan(one) for one in (_halves(node, region, work), _neighbours(node, region, work))
        ]
    found = [one for one in found if one.kernels or any(some.apart for some in one.passes)]
    if how == "auto":
        found.append(plain)
    enter = core.shape.rows if core.shape.weight_port == "row" else 1
    return min(found, key=lambda one: _cycles(one, work, kernels, enter), default=plain)


def _cycles(plan: Plan, work: TileWork, kernels: Kernels, enter: int) -> int:
    """Of the matrix unit, for one place of a kernel of one input block, and more for each pass."""
    blocks = work.tile.blocks.size
    if plan.kernels:
        blocks = -(-blocks // 2)
    places = max(1, kernels.places * kernels.spans[work.tile.blocks.first].size)
    return sum(blocks * places * max(one.pixels, enter) + OVERHEAD for one in plan.passes)


def _kernels_apart(kernels: Kernels, blocks: Span) -> int:
    """Words from an output block of a tile to the next, if all are alike; 0 if not."""
    if blocks.size < 2:
        return 0
    apart = {len(kernels.words[at]) for at in range(*blocks)}
    pairs = range(blocks.first, blocks.stop - 1, 2)
    alike = all(kernels.spans[at] == kernels.spans[at + 1] for at in pairs)
    distance = apart.pop()
    return distance if alike and not apart and distance <= _DIST["wgt"] else 0


def _halves(node: Node, region: Region, work: TileWork) -> list[Pass]:
    """Rows in the upper half of a tile with those in the lower one, but for rows whose windows
    reach over the upper or lower edge of the map: both pixels of a pair have the same padding."""
    rows, columns = work.spans[1]
    assert isinstance(node.operator, Conv)
    stride = node.operator.window.stride[0]
    inner = _inside(node, rows, 0)
    half = inner.size // 2
    stop = inner.first + 2 * half
    pairs = Pass(
        Span(inner.first, inner.first + half), columns, 1, half * columns.size,
        half * stride * region.row,
    )  # fmt: skip
    if not half or pairs.far > _DIST["src"] or pairs.apart > _DIST["acc"]:
        return []
    rest = (Span(rows.first, inner.first), Span(stop, rows.stop))
    return [pairs, *(Pass(one, columns) for one in rest if one.size)]


def _neighbours(node: Node, region: Region, work: TileWork) -> list[Pass]:
    """A pixel with the next one of its row, but for columns whose windows reach over the left or
    right edge of the map."""
    rows, columns = work.spans[1]
    assert isinstance(node.operator, Conv)
    stride = node.operator.window.stride[1]
    inner = _inside(node, columns, 1)
    half = inner.size // 2
    stop = inner.first + 2 * half
    pairs = Pass(rows, Span(inner.first, stop - 1), 2, 1, stride * region.pixel)
    if not half or pairs.far > _DIST["src"]:
        return []
    rest = (Span(columns.first, inner.first), Span(stop, columns.stop))
    return [pairs, *(Pass(rows, one) for one in rest if one.size)]


def _inside(node: Node, span: Span, axis: int) -> Span:
    """The rows or columns of a span of the result whose windows lie inside of the map."""
    assert isinstance(node.operator, Conv)
    window, data = node.operator.window, node.inputs[0]
    before = (window.pad.top, window.pad.left)[axis]
    length, stride = (data.height, data.width)[axis], window.stride[axis]
    first = max(span.first, -(-before // stride))
    stop = min(span.stop, (length + before - window.reach[axis]) // stride + 1)
    return Span(first, max(first, stop)) if first < span.stop else Span(span.stop, span.stop)


def kernel_pairs(blocks: Span, paired: bool) -> Iterator[tuple[str, list[int]]]:
    """Kinds of products, and the output blocks of a tile that they are made for."""
    stop = blocks.first + blocks.size // 2 * 2 if paired else blocks.first
    if paired:
        yield "DUAL_KERNEL", list(range(blocks.first, stop, 2))
    if stop < blocks.stop:
        yield "", list(range(stop, blocks.stop))
