"""Pooling in the ALU: after a convolution, or of a feature map in memory."""

from __future__ import annotations

from hw.npu.isa.table import MicroOp
from mapper.compiler.codegen.alu import add_constant, alu_with
from mapper.compiler.codegen.areas import Entries, LoadArea
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.loads import load_entries
from mapper.compiler.codegen.matrix import Product
from mapper.compiler.ir.node import Node, Pool, Window
from mapper.compiler.memory.padding import padding_value
from mapper.compiler.program.inputs import KernelPart, needed, parts_of


def pool(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    """Pool a tile in accumulators, which hold all pixels of its windows."""
    operator = node.operator
    assert isinstance(operator, Pool)
    rows, columns = work.spans[core.macro.nodes.index(node) + 1]
    made = Entries(work.free, work.made.blocks, rows.size, columns.size)
    (part,) = parts_of(operator.window, operator.window.size)
    _gather(core, operator, part, work.made, made, last)
    work.made, work.free = made, made.stop
    _subtract_zero_points(core, node, made)


def pool_map(core: ProgramBuilder, node: Node) -> Product:
    """Return the tile function for pooling a feature map in memory; windows larger than the
    accumulators use several loads."""
    operator, data = node.operator, node.inputs[0]
    assert isinstance(operator, Pool)
    window, padding = operator.window, padding_value(node)

    def product(core: ProgramBuilder, work: TileWork, last: bool) -> bool:
        rows, columns = work.spans[1]
        made = Entries(work.made.first, work.tile.blocks.size, rows.size, columns.size)
        parts = list(parts_of(window, work.cut.kernel))
        for part in parts:
            area = LoadArea(
                core.regions[data],
                needed(rows, window, 0, part.rows), needed(columns, window, 1, part.columns),
                work.tile.blocks,
            )  # fmt: skip
            source = load_entries(core, area, made.stop, padding)
            _gather(core, operator, part, source, made, last and part is parts[-1])
            work.free = source.stop
        work.made = made
        _subtract_zero_points(core, node, made)
        return last

    return product


def _gather(
    core: ProgramBuilder,
    operator: Pool,
    part: KernelPart,
    source: Entries,
    made: Entries,
    last: bool,
) -> None:
    """Move the first pixel of each window, then combine the others with it: maximum or sum.

    part : part of the windows whose pixels are in `source`
    """
    begins = part.rows.first == part.columns.first == 0
    more = "ADD" if operator.kind == "average" else "MAX"
    if made.pixels == 1 and operator.window.dilation == (1, 1):
        found = _loops(begins, more, source, made)
    else:
        found = _windows(operator.window, part, begins, more, source, made)
    for at, (kind, ops, steps) in enumerate(found):
        fields = steps | {"source": 1, "out": int(last and at == len(found) - 1)}
        alu_with(core, kind, ops, fields, [source, made], made)


Pass = tuple[str, list[MicroOp], dict[str, int]]
"""ALU operation, its micro-ops, and its counts and strides."""


def _windows(
    window: Window, part: KernelPart, begins: bool, more: str, source: Entries, made: Entries
) -> list[Pass]:
    """Return passes with a micro-op per window position and block."""
    places = [
        (wy * window.dilation[0], wx * window.dilation[1])
        for wy in range(part.rows.size)
        for wx in range(part.columns.size)
    ]
    ops = [
        MicroOp(
            acc=made.first + block * made.pixels,
            inp=source.first + block * source.pixels + y * source.columns + x,
        )
        for y, x in places
        for block in range(made.blocks)
    ]
    steps = {
        "n_out": made.rows,
        "n_in": made.columns,
        "dst_out": made.columns,
        "dst_in": 1,
        "src_out": window.stride[0] * source.columns,
        "src_in": window.stride[1],
    }
    first = made.blocks if begins else 0
    return [
        (kind, some, steps) for kind, some in (("MOV", ops[:first]), (more, ops[first:])) if some
    ]


def _loops(begins: bool, more: str, source: Entries, made: Entries) -> list[Pass]:
    """Return passes for a single result, whose window contains all pixels of the source."""

    def steps(pixels: int) -> dict[str, int]:
        return {
            "n_out": made.blocks,
            "n_in": pixels,
            "dst_out": 1,
            "dst_in": 0,
            "src_out": source.pixels,
            "src_in": 1,
        }

    rest = source.pixels - begins
    first = MicroOp(acc=made.first, inp=source.first)
    passes = [("MOV", [first], steps(1))] if begins else []
    if rest:
        passes.append((more, [first._replace(inp=first.inp + begins)], steps(rest)))
    return passes


def _subtract_zero_points(core: ProgramBuilder, node: Node, made: Entries) -> None:
    """Subtract the zero points from sums of an average, including padding, which holds them."""
    operator = node.operator
    assert isinstance(operator, Pool)
    if operator.kind == "average":
        rows, columns = operator.window.size
        add_constant(core, made, -rows * columns * node.inputs[0].zero_point)
