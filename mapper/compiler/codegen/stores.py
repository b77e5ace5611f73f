"""Stores of results to feature maps."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.table import Instruction
from mapper.compiler.codegen.areas import Entries, LoadArea
from mapper.compiler.codegen.builder import ProgramBuilder
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import VECTORS_OF_ENTRY, blocks_of, blocks_of_vector
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Target
from mapper.compiler.program.steps import SentVectors, Touch
from mapper.compiler.tiling.tiles import Tile
from mapper.errors import MapperError

WHOLE_BITS = 32  # widest accumulators that can be stored without requantisation


def store(core: ProgramBuilder, tensor: Tensor, tile: Tile, made: Entries, up: bool) -> None:
    """Store a tile of results to all targets: bytes, packed bits, or whole accumulators.

    up : upsample each pixel to 2x2
    """
    whole, blocks = tensor.type == "int32", tile.blocks
    if whole and core.shape.accumulator_bits > WHOLE_BITS:
        raise MapperError(
            f"{core.macro.label}: 32-bit sums go to the host, but {core.shape.name} stores "
            f"accumulators of {core.shape.accumulator_bits} bits; use an int8 multiplier"
        )
    if whole:
        blocks = Span(VECTORS_OF_ENTRY * blocks.first, VECTORS_OF_ENTRY * blocks.stop)
    elif tensor.type == "bits":
        share = blocks_of_vector(core.shape.rows, core.shape.columns)
        blocks = Span(blocks.first // share, blocks_of(blocks.stop, share))
    scale = 2 if up else 1
    rows, columns = (
        Span(span.first * scale, span.stop * scale) for span in (tile.rows, tile.columns)
    )
    for target in core.targets_of(tensor):
        for one in _parts(target, rows, blocks):
            _store(core, LoadArea(target.region, one[0], columns, one[1]), target, made, (
                made.first
                + (one[0].first - rows.first) // scale * made.columns
                + (one[1].first - blocks.first) // (VECTORS_OF_ENTRY if whole else 1) * made.pixels
            ), scale)  # fmt: skip


def _parts(target: Target, rows: Span, blocks: Span) -> list[tuple[Span, Span]]:
    """Split the part of a tile that a target receives into rows and blocks per instruction: all
    entries of a block are contiguous, but some of its rows in several blocks are not."""
    some, of = rows.meet(target.rows), blocks.meet(target.blocks)
    if some.size <= 0 or of.size <= 0:
        return []
    if some == rows or of.size == 1:
        return [(some, of)]
    return [(some, Span(at, at + 1)) for at in range(*of)]


def _store(
    core: ProgramBuilder, area: LoadArea, target: Target, made: Entries, src: int, scale: int
) -> None:
    """Store to an area of a feature map, starting at entry `src`."""
    tensor, high = area.region.tensor, area.region.high
    whole = tensor.type == "int32"
    each = VECTORS_OF_ENTRY if whole else 1
    place = area.fields(scale=scale)
    blocks, height = area.blocks.size // each, area.rows.size // scale
    fields = {
        "src": src,
        "dst": place["src"],
        "c_size": blocks,
        "x_size": made.columns,
        "y_size": height,
        "x_stride": place["x_stride"],
        "y_stride": place["y_stride"],
        "up": int(scale > 1),
        "bits": int(tensor.type == "bits"),
        "pp": place["pp"],
    }
    if "wrap" in place:
        fields["wrap"] = place["wrap"]
    kinds = {"LOCAL": "PARTIAL", "HOST": "PARTIAL_HOST"} if whole else {}
    kind = kinds.get(target.kind, target.kind)
    if target.kind != "LOCAL":
        fields |= {"x": target.core[0], "y": target.core[1], "stream": target.stream}
    core.set_distance("STORE", src=high)

    def entries() -> NDArray[np.int64]:
        pixels = src + np.arange(height * made.columns)
        return (np.arange(blocks)[:, None] * made.pixels + pixels).ravel()

    sent = None
    if target.kind == "REMOTE":
        order = partial(_in_order, area, scale)
        sent = SentVectors(target.core, target.stream, target.credit, order)
    core.step(
        Instruction("STORE", kind, fields=fields),
        [Touch("ACC" if whole else "OUT", entries)],
        [Touch("FM", area.cells)] if target.kind == "LOCAL" else [], sent,
    )  # fmt: skip


def _in_order(area: LoadArea, scale: int) -> NDArray[np.int64]:
    """Return the numbers of the vectors of an area in the order of the store unit: blocks, rows,
    columns, low and high bytes of 16 bits, and the copies of an upsampled pixel."""
    parts = np.array([0, area.region.high]) if area.region.high else np.zeros(1, np.int64)
    blocks = np.arange(*area.blocks)[:, None, None, None, None, None]
    rows = np.arange(area.rows.first, area.rows.stop, scale)[:, None, None, None, None]
    columns = np.arange(area.columns.first, area.columns.stop, scale)[:, None, None, None]
    below, right = np.arange(scale)[:, None], np.arange(scale)
    found = area.region.number(rows + below, columns + right, blocks) + parts[:, None, None]
    return np.asarray(found).ravel()
