"""Two byte products per operation, on cores with a dual multiplier: (a * 2^16 + b) * c.

a and b are two pixels with the same weight (neighbours, or from the upper and lower half of a tile)
or the weights of two output blocks with the same pixel. Single products compute the remainder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.kernels import Kernels
from mapper.compiler.ir.node import Node
from mapper.compiler.memory.planner import Region
from mapper.compiler.program.inputs import Span, conv_of
from mapper.compiler.program.steps import most_of

_DIST = most_of("CTRL", "DIST")
OVERHEAD = 10  # cycles to start a load and its products


class Pass(NamedTuple):
    """Sums of a tile that are computed together: the single pixels, or the first of each pair.

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
        """Number of products per weight."""
        return self.rows.size * -(-self.columns.size // self.step)


class PairPlan(NamedTuple):
    """Passes of a tile. kernels : words between two paired output blocks; 0 without pairing"""

    passes: list[Pass]
    kernels: int = 0


def plan_pairs(core: ProgramBuilder, node: Node, kernels: Kernels, work: TileWork) -> PairPlan:
    """Return the allowed plan with the fewest cycles."""
    rows, columns = work.spans[1]
    plain = PairPlan([Pass(rows, columns)])
    how = core.options.dual
    if core.shape.multiplier != "dual" or kernels.kind != "INT8" or how == "off":
        return plain
    found = []
    distance = _kernels_apart(kernels, work.tile.blocks)
    if how != "pixels" and distance:
        found.append(PairPlan(plain.passes, distance))
    if how != "kernels" and core.macro.windows is None:  # window unit: no pairs of pixels
        region = core.regions[node.inputs[0]]
        found += [PairPlan(_pairs_along(node, region, work, axis)) for axis in range(2)]
    found = [one for one in found if one.kernels or any(some.apart for some in one.passes)]
    if how == "auto":
        found.append(plain)
    enter = core.shape.rows if core.shape.weight_port == "row" else 1
    return min(found, key=lambda one: _cycles(one, work, kernels, enter), default=plain)


def _cycles(plan: PairPlan, work: TileWork, kernels: Kernels, enter: int) -> int:
    """Return the matrix unit cycles of all products, with an overhead per pass."""
    blocks = work.tile.blocks.size
    if plan.kernels:
        blocks = -(-blocks // 2)
    places = max(1, kernels.places * kernels.spans[work.tile.blocks.first].size)
    return sum(blocks * places * max(one.pixels, enter) + OVERHEAD for one in plan.passes)


def words_alternate(core: ProgramBuilder, kernels: Kernels, blocks: Span) -> bool:
    """Return whether the streamed words of two output blocks, which products can pair, alternate.

    This does not depend on the pairs of a tile, as other tiles may find its words in memory.
    """
    dual = core.shape.multiplier == "dual" and kernels.kind == "INT8"
    how = core.options.dual in ("auto", "kernels")
    return dual and how and blocks.size % 2 == 0 and bool(_kernels_apart(kernels, blocks))


def _kernels_apart(kernels: Kernels, blocks: Span) -> int:
    """Return the words from an output block of a tile to the next; 0 if the blocks differ."""
    if blocks.size < 2:
        return 0
    apart = {len(kernels.words[at]) for at in range(*blocks)}
    pairs = range(blocks.first, blocks.stop - 1, 2)
    alike = all(kernels.spans[at] == kernels.spans[at + 1] for at in pairs)
    distance = apart.pop()
    return distance if alike and not apart and distance <= _DIST["wgt"] else 0


def _pairs_along(node: Node, region: Region, work: TileWork, axis: int) -> list[Pass]:
    """Pair rows in the upper half of a tile with rows in the lower half (axis 0), or each pixel
    with the next one in its row (axis 1). Rows or columns whose windows reach over an edge of the
    map are excluded: pairs must have equal padding."""
    rows, columns = spans = work.spans[1]
    stride = conv_of(node).window.stride[axis]
    inner = _inside(node, spans[axis], axis)
    half = inner.size // 2
    stop = inner.first + 2 * half
    if axis == 0:
        upper = Span(inner.first, inner.first + half)
        pairs = Pass(upper, columns, 1, half * columns.size, half * stride * region.row)
    else:
        pairs = Pass(rows, Span(inner.first, stop - 1), 2, 1, stride * region.pixel)
    if not half or pairs.far > _DIST["src"] or pairs.apart > _DIST["acc"]:
        return []
    rest = (Span(spans[axis].first, inner.first), Span(stop, spans[axis].stop))
    single = [Pass(one, columns) if axis == 0 else Pass(rows, one) for one in rest if one.size]
    return [pairs, *single]


def _inside(node: Node, span: Span, axis: int) -> Span:
    """Return the rows or columns of a span of the result whose windows are inside the map."""
    window, data = conv_of(node).window, node.inputs[0]
    before = (window.pad.top, window.pad.left)[axis]
    length, stride = (data.height, data.width)[axis], window.stride[axis]
    first = max(span.first, -(-before // stride))
    stop = min(span.stop, (length + before - window.reach[axis]) // stride + 1)
    return Span(first, max(first, stop)) if first < span.stop else Span(span.stop, span.stop)


def kernel_pairs(blocks: Span, paired: bool) -> Iterator[tuple[str, list[int]]]:
    """Yield kinds of products and the output blocks of a tile that use them ("": unpaired)."""
    stop = blocks.first + blocks.size // 2 * 2 if paired else blocks.first
    if paired:
        yield "DUAL_KERNEL", list(range(blocks.first, stop, 2))
    if stop < blocks.stop:
        yield "", list(range(stop, blocks.stop))
