"""Stores of results to maps."""

from __future__ import annotations

from hw.npu.isa import Instruction
from mapper.compiler.codegen.areas import Area, Entries
from mapper.compiler.codegen.builder import ProgramBuilder
from mapper.compiler.codegen.steps import Touch
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import VECTORS_OF_ENTRY, blocks_of, blocks_of_vector
from mapper.compiler.schedule.inputs import Span
from mapper.compiler.schedule.tiles import Tile
from mapper.errors import MapperError

WHOLE_BITS = 32  # of accumulators that are stored as they are


def store(core: ProgramBuilder, tensor: Tensor, tile: Tile, made: Entries, up: bool) -> None:
    """A tile of results to a map: bytes, packed vectors of bits, or whole accumulators.

    up : each pixel to 2x2
    """
    whole, blocks = tensor.type == "int32", tile.blocks
    if whole and core.shape.accumulator_bits > WHOLE_BITS:
        raise MapperError(
            f"{core.macro.label}: its sums of 32 bits go to the host, and {core.shape.name} stores "
            f"accumulators of {core.shape.accumulator_bits}; take a core whose multiplier is int8"
        )
    if whole:
        blocks = Span(VECTORS_OF_ENTRY * blocks.first, VECTORS_OF_ENTRY * blocks.behind)
    elif tensor.type == "bits":
        share = blocks_of_vector(core.shape.rows, core.shape.columns)
        blocks = Span(blocks.first // share, blocks_of(blocks.behind, share))
    scale = 2 if up else 1
    rows = Span(tile.rows.first * scale, tile.rows.behind * scale)
    columns = Span(tile.columns.first * scale, tile.columns.behind * scale)
    area = Area(core.regions[tensor], rows, columns, blocks)
    place = area.fields()
    fields = {
        "src": made.first,
        "dst": place["src"],
        "c_size": made.blocks,
        "x_size": made.columns,
        "y_size": made.rows,
        "x_stride": place["x_stride"],
        "y_stride": place["y_stride"],
        "up": int(up),
        "bits": int(tensor.type == "bits"),
    }
    core.set_distance("STORE", src=area.region.high)
    kind = "PARTIAL" if whole else "LOCAL"
    core.step(
        "STORE", Instruction("STORE", kind, fields=fields),
        [Touch("ACC" if whole else "OUT", made.cells)], [Touch("FM", area.cells())],
    )  # fmt: skip
