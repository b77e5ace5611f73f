"""Tiles of a macro node: parts of its result that are computed at once, and their resources."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import TWO_MAPS, Conv, Lookup, Node, Pool, Window
from mapper.compiler.memory.planner import blocks_of, blocks_of_vector, pixel_vectors
from mapper.compiler.program.inputs import (
    MOST_TAPS,
    Span,
    conv_of,
    is_depthwise,
    needed,
    taken_blocks,
)
from mapper.compiler.program.steps import most_of
from mapper.compiler.tiling import windows
from mapper.errors import DoesNotFitError

OVERLAPPED = 4
"""Minimum tiles of a map for the default cut; with fewer the units do not overlap."""

PLANES = {"plane8": 8, "plane16": 16}  # rows and columns of the tiles of a fixed schedule
_LOAD = most_of("LOAD", "INP")
_ALU = most_of("ALU", "MAX")


class Tile(NamedTuple):
    """Rows, columns and output blocks of the result (before upsampling)."""

    rows: Span
    columns: Span
    blocks: Span


class Cut(NamedTuple):
    """Tile sizes, and the number of input blocks and the part of the first node's kernel that are
    processed at once.

    edges : products with padding that are skipped: none, in rows above and below the map, or all
    """

    rows: int
    columns: int
    blocks: int
    inputs: int
    kernel: tuple[int, int]
    edges: Literal["", "rows", "all"] = ""


def window_of(node: Node) -> Window | None:
    """Return the window of a node's kernel; None for pixelwise operators."""
    return node.operator.window if isinstance(node.operator, Conv | Pool) else None


def spans_of(macro: Macro, tile: Tile) -> list[tuple[Span, Span]]:
    """Return rows and columns of the first input and of each node's result, for a tile."""
    rows, columns = spans_along(macro, tile.rows, 0), spans_along(macro, tile.columns, 1)
    return list(zip(rows, columns, strict=True))


def spans_along(macro: Macro, span: Span, axis: int) -> list[Span]:
    """Return the rows (axis 0) or columns of the first input and of each node's result."""
    found = [span]
    for node in reversed(macro.nodes):
        if isinstance(node.operator, Conv | Pool):
            span = needed(span, node.operator.window, axis)
        found.append(span)
    return found[::-1]


def entries_of(macro: Macro, tile: Tile, kernel: tuple[int, int], share: int = 1) -> int:
    """Return the accumulators that a tile needs: sums, additional pooled sums, the second
    operand, pages and slopes of an interpolation, and vectors of bits, which hold `share` blocks
    each.

    kernel : rows and columns of the window that stand-alone pooling loads at once
    """
    spans = spans_of(macro, tile)
    loaded = loaded_at_once(macro, spans, kernel)
    total = 0
    for at, node in enumerate(macro.nodes):
        rows, columns = spans[at + 1]
        before = spans[at][0].size * spans[at][1].size if at else loaded[0] * loaded[1]
        if at == 0:
            total += rows.size * columns.size
            total += 0 if isinstance(node.operator, Conv) else before
        elif window_of(node) is not None or isinstance(node.operator, TWO_MAPS):
            total += rows.size * columns.size
        if isinstance(node.operator, Lookup) and node.operator.interpolates:
            total += 2 * rows.size * columns.size
    vectors = blocks_of(tile.blocks.size, share) if macro.packs else 0
    return total * tile.blocks.size + vectors * tile.rows.size * tile.columns.size


def loaded_at_once(
    macro: Macro, spans: list[tuple[Span, Span]], kernel: tuple[int, int]
) -> tuple[int, int]:
    """Return the maximum rows and columns of the input that a part of the kernel loads at once."""
    window = window_of(macro.nodes[0])
    rows, columns = (
        needed(span, window, axis, Span(0, size))
        for axis, (span, size) in enumerate(zip(spans[1], kernel, strict=True))
    )
    return rows.size, columns.size


def words_at_once(node: Node, size: int, cut: Cut) -> int:
    """Return the maximum weight words of a tile for a part of the input and of the kernel.

    size : channels per block
    """
    if is_depthwise(node):
        return cut.blocks * blocks_of(math.prod(conv_of(node).window.size), min(size, MOST_TAPS))
    one = min(cut.inputs, taken_blocks(node, Span(0, 1), size).size)
    return cut.blocks * one * math.prod(cut.kernel) * (2 if node.inputs[0].bits == 16 else 1)


class Extent(NamedTuple):
    """Size of the result in rows, columns and blocks, and input blocks.

    share : blocks that must be in the same tile because they share a packed vector
    """

    rows: int
    columns: int
    blocks: int
    inputs: int
    share: int


def extent_of(macro: Macro, shape: NpuShape) -> Extent:
    """Return the extent of a macro node, before upsampling."""
    made = macro.nodes[-1].output
    up = 2 if macro.nodes[-1].kind == "upsample" else 1
    return Extent(
        made.height // up,
        made.width // up,
        blocks_of(made.channels, shape.columns),
        pixel_vectors(macro.conv.inputs[0], shape.columns) if macro.conv else 1,
        blocks_of_vector(shape.rows, shape.columns) if macro.packs else 1,
    )


def fits(macro: Macro, shape: NpuShape, cut: Cut) -> bool:
    """Return whether tiles of a cut fit in half of the buffers and in the instruction fields."""
    tile = Tile(Span(0, cut.rows), Span(0, cut.columns), Span(0, cut.blocks))
    spans, inputs = spans_of(macro, tile), cut.inputs
    share = blocks_of_vector(shape.rows, shape.columns) if macro.packs else 1
    if macro.conv:
        if macro.words and words_at_once(macro.conv, shape.rows, cut) > macro.words:
            return False
        inputs = min(inputs, taken_blocks(macro.conv, tile.blocks, shape.columns).size)
        loaded = inputs * math.prod(loaded_at_once(macro, spans, cut.kernel))
        if macro.windows is not None:  # complete windows only
            if cut.inputs < windows.window_vectors(macro.windows, shape.columns):
                return False
            if not windows.can_be_said(macro.windows, *spans[1], shape):
                return False
            loaded = windows.input_vectors(macro.windows, *spans[1], shape)
        if loaded > shape.input_vectors // 2:
            return False
    return (
        entries_of(macro, tile, cut.kernel, share) <= shape.entries // 2
        and _can_be_said(macro, tile, spans, inputs, cut.kernel)
        and (macro.windows is None or headers_of_cut(macro, cut, shape) <= shape.headers)
    )


def headers_of_cut(macro: Macro, cut: Cut, shape: NpuShape) -> int:
    """Return the number of packet headers for all tiles of a cut."""
    assert macro.windows is not None
    extent = extent_of(macro, shape)
    found: list[list[Span]] = []
    for axis, (size, length) in enumerate(zip(cut[:2], extent[:2], strict=True)):
        parts = [Span(at, min(at + size, length)) for at in range(0, length, size)]
        spans = [Tile(part, part, Span(0, 1)) for part in parts]
        found.append([spans_of(macro, one)[1][axis] for one in spans])
    rows, columns = found
    return windows.headers_needed(rows, columns, macro.windows.output.width, shape.filters)


def least_fits(macro: Macro, shape: NpuShape) -> bool:
    """Return whether a tile of a single pixel fits, with the smallest parts of input and kernel."""
    extent = extent_of(macro, shape)
    return fits(macro, shape, Cut(1, 1, min(extent.share, extent.blocks), 1, (1, 1)))


def largest_cut(macro: Macro, shape: NpuShape) -> Cut:
    """Return the default cut: the largest number of whole rows that fits half of the buffers, with
    the largest number of output blocks, but at most a quarter of the map so that units overlap.

    Raises `DoesNotFitError` if not even one pixel fits.
    """
    height, width, blocks, taken, share = extent_of(macro, shape)

    def cut(kernel: tuple[int, int]) -> Cut | None:
        for columns in parts_in(width):
            for inputs in parts_in(taken):
                for outputs in range(blocks, 0, -1):
                    if outputs < blocks and outputs % share:
                        continue  # blocks packed into one vector must be in the same tile
                    size = columns, outputs, inputs, kernel
                    rows = next(
                        (r for r in range(height, 0, -1) if fits(macro, shape, Cut(r, *size))), 0
                    )
                    if rows and (rows >= min(4, height) or outputs <= share):
                        if macro.words is None or inputs >= taken:  # else weights reload per tile
                            rows = min(rows, -(-height // OVERLAPPED))
                        return Cut(_even(height, rows), *size)
        return None

    for kernel in _kernels(macro.nodes[0]):
        if (found := cut(kernel)) is not None:
            return found
    raise DoesNotFitError(
        f"{macro.label}: not even one pixel fits in half of the buffers "
        f"({shape.input_vectors // 2} input vectors, {shape.entries // 2} accumulators); use a "
        "larger core"
    )


def fixed_cut(rule: str, macro: Macro, shape: NpuShape) -> Cut:
    """Return the cut of a fixed rule, with the minimum number of blocks."""
    extent, base = extent_of(macro, shape), largest_cut(macro, shape)
    most = (PLANES[rule],) * 2 if rule in PLANES else (extent.rows, extent.columns)
    blocks = min(extent.share, extent.blocks)
    for columns in range(min(most[1], extent.columns), 0, -1):
        for rows in range(min(most[0], extent.rows), 0, -1):
            cut = Cut(rows, columns, blocks, 1, base.kernel)
            if fits(macro, shape, cut):
                return cut
    return base


def parts_in(length: int) -> list[int]:
    """Return the sizes that cut a length into 1, 2, ... parts."""
    return list(dict.fromkeys(-(-length // part) for part in range(1, length + 1)))


def _kernels(node: Node) -> list[tuple[int, int]]:
    """Return the kernel parts to process at once, largest first: whole rows, or parts of a row."""
    window = window_of(node)
    kh, kw = (1, 1) if window is None else window.size
    return [(rows, kw) for rows in parts_in(kh)] + [(1, columns) for columns in parts_in(kw)[1:]]


def _can_be_said(
    macro: Macro, tile: Tile, spans: list[tuple[Span, Span]], inputs: int, kernel: tuple[int, int]
) -> bool:
    """Return whether the numbers of a tile fit in the instruction fields."""
    window, taken = window_of(macro.nodes[0]), loaded_at_once(macro, spans, kernel)
    pads = () if window is None else window.pad
    one = spans[1][0].size * spans[1][1].size == 1  # single pixel: its products are loops
    return (
        max(inputs, tile.blocks.size) <= _LOAD["c_size"]
        and taken[0] <= _LOAD["y_size"]
        and taken[1] <= _LOAD["x_size"]
        and all(
            min(pad, taken[axis]) <= _LOAD["pad_t"]
            for pad, axis in zip(pads, (0, 0, 1, 1), strict=False)
        )
        and (one or tile.blocks.size * inputs * kernel[0] * kernel[1] <= _ALU["uops"])
        and tile.blocks.size * max(taken[0], tile.rows.size) <= _ALU["n_out"]
    )


def _even(length: int, most: int) -> int:
    """Return the smallest size that needs no more parts than size `most`."""
    return -(-length // -(-length // most))


def tiles_of(macro: Macro, cut: Cut, shape: NpuShape, by_columns: bool = False) -> Iterator[Tile]:
    """Yield the tiles of a macro node: row by row, then column by column, blocks innermost; blocks
    outermost if weights are streamed from the host.

    by_columns : column by column, then row by row
    """
    extent = extent_of(macro, shape)
    rows, columns, blocks = (
        [Span(at, min(at + size, length)) for at in range(0, length, size)]
        for length, size in zip(extent[:3], cut[:3], strict=True)
    )
    if by_columns:
        yield from (Tile(y, x, b) for x in columns for y in rows for b in blocks)
    elif macro.words is not None:
        yield from (Tile(y, x, b) for b in blocks for y in rows for x in columns)
    else:
        yield from (Tile(y, x, b) for y in rows for x in columns for b in blocks)
