"""Stores of results to maps."""

from __future__ import annotations

from hw.npu.isa import Instruction
from mapper.compiler.codegen.areas import Area, Entries
from mapper.compiler.codegen.builder import ProgramBuilder
from mapper.compiler.codegen.steps import Touch
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.schedule.tiles import Span, Tile


def store(core: ProgramBuilder, tensor: Tensor, tile: Tile, made: Entries, up: bool) -> None:
    """A tile of results to a map; up : each pixel to 2x2."""
    scale = 2 if up else 1
    rows = Span(tile.rows.first * scale, tile.rows.behind * scale)
    columns = Span(tile.columns.first * scale, tile.columns.behind * scale)
    region = core.regions[tensor]
    area = Area(region, rows, columns, tile.blocks)
    fields = {
        "src": made.first,
        "dst": area.fields()["src"],
        "c_size": made.blocks,
        "x_size": made.columns,
        "y_size": made.rows,
        "x_stride": region.pixel,
        "y_stride": region.row,
        "up": int(up),
    }
    core.step(
        "STORE", Instruction("STORE", "LOCAL", fields=fields),
        [Touch("OUT", made.cells)], [Touch("FM", area.cells())],
    )  # fmt: skip
