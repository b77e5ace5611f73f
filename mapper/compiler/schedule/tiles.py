"""Tiles of a macro node: the part of its result that is made at one go, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import form_of
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.node import Conv, Node, Pool, Window
from mapper.compiler.memory.planner import blocks_of, blocks_of_vector, pixel_vectors
from mapper.errors import DoesNotFitError

OVERLAPPED = 4
"""Tiles of a map, at least: fewer leave units waiting (ResNet-8: 62,120 cycles with one, 55,651
with four)."""

_LOAD = {field.name: field.most for field in form_of("LOAD", "INP").fields}
_ALU = {field.name: field.most for field in form_of("ALU", "MAX").fields}


class Span(NamedTuple):
    """Places from first to behind, which is not included; they may lie in padding."""

    first: int
    behind: int

    @property
    def size(self) -> int:
        return self.behind - self.first


class Tile(NamedTuple):
    """Rows, columns and output blocks of the result; of what is stored, before it is upsampled."""

    rows: Span
    columns: Span
    blocks: Span


class Cut(NamedTuple):
    """Sizes of a tile, and how many input blocks are loaded at once."""

    rows: int
    columns: int
    blocks: int
    inputs: int


def window_of(node: Node) -> Window | None:
    """How a node's kernel walks over its input; None if it works pixel by pixel."""
    return node.operator.window if isinstance(node.operator, Conv | Pool) else None


def needed(span: Span, window: Window | None, axis: int) -> Span:
    """The places of an input, padding included, that a span of the result is made from."""
    if window is None:
        return span
    before = (window.pad.top, window.pad.left)[axis]
    first = span.first * window.stride[axis] - before
    last = (span.behind - 1) * window.stride[axis] - before + window.reach[axis]
    return Span(first, last)


def spans_of(macro: Macro, tile: Tile) -> list[tuple[Span, Span]]:
    """Rows and columns of the first input, and of the result of each node, for a tile."""
    found = [(tile.rows, tile.columns)]
    for node in reversed(macro.nodes):
        if node.kind == "upsample":
            found.insert(0, found[0])
            continue
        window = window_of(node)
        rows, columns = found[0]
        found.insert(0, (needed(rows, window, 0), needed(columns, window, 1)))
    return found


def entries_of(macro: Macro, tile: Tile, share: int = 1) -> int:
    """Accumulators that a tile takes: sums, pooled sums beside them, the other addend, and vectors
    of bits, which hold `share` blocks each."""
    spans = spans_of(macro, tile)
    total = 0
    for at, node in enumerate(macro.nodes):
        rows, columns = spans[at + 1]
        before = spans[at][0].size * spans[at][1].size
        if at == 0:
            total += rows.size * columns.size
            total += 0 if isinstance(node.operator, Conv) else before
        elif window_of(node) is not None or node.kind == "add":
            total += rows.size * columns.size
    vectors = blocks_of(tile.blocks.size, share) if macro.packs else 0
    return total * tile.blocks.size + vectors * tile.rows.size * tile.columns.size


def largest_cut(macro: Macro, shape: NpuShape) -> Cut:
    """Whole rows, as many as fit half of the buffers with as many output blocks as fit beside them,
    but at most a quarter of the map, so that the units work on different tiles at the same time.

    Raises `DoesNotFitError` if not even one pixel fits.
    """
    made, first = macro.nodes[-1].output, macro.inputs[0]
    up = 2 if macro.nodes[-1].kind == "upsample" else 1
    height, width = made.height // up, made.width // up
    blocks = blocks_of(made.channels, shape.columns)
    taken = pixel_vectors(first, shape.columns) if macro.conv else 1
    share = blocks_of_vector(shape.rows, shape.columns) if macro.packs else 1
    half_inputs, half_entries = shape.input_vectors // 2, shape.entries // 2

    def fits(rows: int, columns: int, outputs: int, inputs: int) -> bool:
        tile = Tile(Span(0, rows), Span(0, columns), Span(0, outputs))
        taken = spans_of(macro, tile)[0]
        vectors = taken[0].size * taken[1].size * inputs if macro.conv else 0
        return (
            vectors <= half_inputs
            and entries_of(macro, tile, share) <= half_entries
            and _can_be_said(macro, tile, taken, inputs)
        )

    for columns in dict.fromkeys((width, *(-(-width // part) for part in range(2, width + 1)))):
        for inputs in dict.fromkeys((taken, *(-(-taken // part) for part in range(2, taken + 1)))):
            for outputs in range(blocks, 0, -1):
                if outputs < blocks and outputs % share:
                    continue  # a vector of bits is packed by one tile
                rows = next(
                    (r for r in range(height, 0, -1) if fits(r, columns, outputs, inputs)), 0
                )
                if rows and (rows >= min(4, height) or outputs <= share):
                    rows = min(rows, -(-height // OVERLAPPED))
                    return Cut(_even(height, rows), columns, outputs, inputs)
    raise DoesNotFitError(
        f"{macro.label}: not one pixel of it fits half of the buffers ({half_inputs} input "
        f"vectors, {half_entries} accumulators); take a core with more"
    )


def _can_be_said(macro: Macro, tile: Tile, taken: tuple[Span, Span], inputs: int) -> bool:
    """Whether the fields of the instructions hold the numbers of a tile."""
    window = window_of(macro.nodes[0])
    kernel = 1 if window is None else window.size[0] * window.size[1]
    pads = () if window is None else window.pad
    return (
        max(inputs, tile.blocks.size) <= _LOAD["c_size"]
        and taken[0].size <= _LOAD["y_size"]
        and taken[1].size <= _LOAD["x_size"]
        and max(pads, default=0) <= _LOAD["pad_t"]
        and tile.blocks.size * inputs * kernel <= _ALU["uops"]
        and tile.blocks.size * max(taken[0].size, tile.rows.size) <= _ALU["n_out"]
    )


def _even(length: int, most: int) -> int:
    """The least size that cuts a length into as few parts as the largest one does."""
    return -(-length // -(-length // most))


def tiles_of(macro: Macro, cut: Cut, shape: NpuShape) -> Iterator[Tile]:
    """The tiles of a macro node: row by row, then column by column, blocks innermost."""
    made = macro.nodes[-1].output
    up = 2 if macro.nodes[-1].kind == "upsample" else 1
    blocks = blocks_of(made.channels, shape.columns)
    for y in range(0, made.height // up, cut.rows):
        for x in range(0, made.width // up, cut.columns):
            for b in range(0, blocks, cut.blocks):
                yield Tile(
                    Span(y, min(y + cut.rows, made.height // up)),
                    Span(x, min(x + cut.columns, made.width // up)),
                    Span(b, min(b + cut.blocks, blocks)),
                )
