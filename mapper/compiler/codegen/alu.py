"""ALU instructions for the values of a tile, one function per operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.table import Instruction, MicroOp
from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.codegen.areas import Entries, LoadArea
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.loads import load_entries
from mapper.compiler.ir.node import PAGES, Add, Clamp, Lookup, Node, Product, Requantise
from mapper.compiler.ir.requantisation import ROUNDINGS, Multiplier, Requantisation
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.steps import Touch, most_of
from mapper.errors import MapperError

LEAST = -(1 << 15)  # smallest immediate operand
ACCUMULATOR, PARAMETERS = 1, 2  # source field: where the operand is
OFFSET_BITS = 31  # magnitude bits of an offset in a parameter word
_RQ = most_of("RQ", "RQ")
UNCHANGED = Requantisation(Multiplier(np.array(1), np.array(0)), 0, -(1 << 15), (1 << 15) - 1)
"""The requantisation that changes no stored integer."""


def alu(
    core: ProgramBuilder, kind: str, made: Entries, source: Entries, more: dict[str, int]
) -> None:
    """Add one ALU operation on all entries; the source operand is also read entry by entry."""
    op = MicroOp(acc=made.first, inp=source.first)
    fields = made.by_rows | {"src_out": made.columns, "src_in": 1} | more
    alu_with(core, kind, [op], fields, [made, source], made)


def alu_with(
    core: ProgramBuilder, kind: str, ops: list[MicroOp], fields: dict[str, int],
    reads: list[Entries], made: Entries,
) -> None:  # fmt: skip
    """Add an ALU operation with some micro-ops."""
    alu_step(core, Instruction("ALU", kind, fields=core.micro_ops(ops) | fields), reads, made)


def alu_step(
    core: ProgramBuilder, instruction: Instruction, reads: list[Entries], made: Entries
) -> None:
    """Add an ALU instruction; with `out` set it also writes the result buffer."""
    writes = [Touch("ACC", made.cells)]
    if instruction.fields.get("out"):
        writes.append(Touch("OUT", made.cells))
    core.step(instruction, [Touch("ACC", one.cells) for one in reads], writes)


def requantise(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    """Requantise a tile by per-channel factors, or rectangle by rectangle by per-pixel factors."""
    assert isinstance(node.operator, Requantise)
    spans = work.spans[core.macro.nodes.index(node) + 1]
    _requantise(core, node.operator.how, node.output.channels, (work, spans), last)


def looks_up(node: Node, after: Node | None) -> bool:
    """Return whether one instruction requantises a tile and looks up the results."""
    how = node.operator.how if isinstance(node.operator, Requantise) else None
    return (
        how is not None
        and how.negative is None
        and how.factor.m0.ndim < 3
        and after is not None
        and isinstance(after.operator, Lookup)
        and not after.operator.interpolates
    )


def lookup(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    """Replace the stored integers of a tile by the entries of a table; a requantisation just before
    it is part of the same instruction."""
    assert isinstance(node.operator, Lookup)
    if node.operator.interpolates:
        _interpolate(core, node, work, last)
        return
    at = core.macro.nodes.index(node)
    before = core.macro.nodes[at - 1] if at else None
    how = UNCHANGED
    if before is not None and looks_up(before, node):
        assert isinstance(before.operator, Requantise)
        how = before.operator.how
    table = core.tables.add_table(node.operator.entries, core.macro.label)
    where = work, work.spans[at + 1]
    _requantise(core, how, node.output.channels, where, last, table)


def _interpolate(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    """Compute entry + slope * rest / 256, where a stored integer is 256 * page + rest.

    The page has a copy for each of the two tables.
    """
    assert isinstance(node.operator, Lookup)
    rest, label, channels = work.made, core.macro.label, node.output.channels
    page = rest._replace(first=work.free)
    slope = page._replace(first=page.stop)
    spans = work.spans[core.macro.nodes.index(node) + 1]
    copied = {"source": ACCUMULATOR}
    alu(core, "MOV", page, rest, copied)
    alu(core, "RSHR", page, page, {"imm": 8, "round": ROUNDINGS.index("floor")})
    alu(core, "MOV", slope, page, copied)
    word = np.zeros(PARAMETER_LANES, np.int64)
    word[:2] = 1, -PAGES
    rec = core.tables.add_parameters([word], label)
    alu(core, "MAC2", rest, page, {"source": ACCUMULATOR, "rec": rec})
    for place, entries in ((slope, node.operator.slopes), (page, node.operator.entries[:PAGES])):
        table = core.tables.add_table(entries, label)
        there = replace(work, made=place)
        _requantise(core, UNCHANGED, channels, (there, spans), last=False, table=table)
    alu(core, "MUL", rest, slope, {})
    alu(core, "RSHR", rest, rest, {"imm": 8, "round": ROUNDINGS.index("up")})
    alu(core, "ADD", rest, page, {"source": ACCUMULATOR, "out": int(last)})


def _requantise(
    core: ProgramBuilder, how: Requantisation, channels: int,
    where: tuple[TileWork, tuple[Span, Span]], last: bool, table: int | None = None,
) -> None:  # fmt: skip
    """table : first parameter word of the table that results are looked up in"""
    work, spans = where
    made, label = work.made, core.macro.label
    before = _zero_point_before(how, label)
    if before:
        add_constant(core, made, -before)
        how = how._replace(offset=0)
    runs = [(0, made.pixels, 1, how)]
    if how.factor.m0.ndim == 3:
        runs = list(_runs(how, *spans))
    kind = "RQ" if how.negative is None else "LEAKY"
    kind, more = (kind, {}) if table is None else ("LOOKUP", {"table": table})
    for first, count, apart, one in runs:
        fields = {
            "dst": made.first + first,
            "n_out": made.blocks,
            "n_in": count,
            "dst_out": made.pixels,
            "dst_in": apart,
            "rec": core.tables.add_record(one, channels, *work.tile.blocks, label),
            "out": int(last),
            **more,
        }
        alu_step(core, Instruction("RQ", kind, fields=fields), [made], made)


def _zero_point_before(how: Requantisation, label: str) -> int:
    """Return the number to subtract before the multiplication if the offset after it does not fit
    in a parameter word. With per-pixel scales the offset is the zero point times the factor."""
    offset, m0 = np.asarray(how.offset, np.int64), how.factor.m0
    if not (abs(offset) >= 1 << OFFSET_BITS).any():
        return 0
    points = np.unique(-offset // np.where(m0, m0, 1))
    whole = points.size == 1 and bool((points[0] * m0 == -offset).all())
    if not whole or how.shift or how.negative is not None:
        raise MapperError(
            f"{label}: offset {int(abs(offset).max()):,} does not fit in 32 bits; check the scales"
        )
    return int(points[0])


def _runs(
    how: Requantisation, rows: Span, columns: Span
) -> Iterator[tuple[int, int, int, Requantisation]]:
    """Yield runs of pixels of a tile with the same factor: first pixel, number of pixels, distance
    between them, and their requantisation with a factor of shape (rows, columns, 1)."""
    m0, n = (one[rows.first : rows.stop, columns.first : columns.stop] for one in how.factor)
    key = m0[:, :, 0] * 64 + n[:, :, 0]
    for y, height in _equal(key):
        for x, width in _equal(key[y : y + height].T):
            one = how._replace(factor=Multiplier(m0[y, x], n[y, x]))
            first = y * columns.size + x
            if width == columns.size:
                yield first, height * width, 1, one
            elif width < height and columns.size <= _RQ["dst_in"]:
                for at in range(width):
                    yield first + at, height, columns.size, one
            else:
                for at in range(height):
                    yield first + at * columns.size, width, 1, one


def _equal(lines: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the first index and the length of each run of equal lines."""
    first = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or (lines[at] != lines[first]).any():
            yield first, at - first
            first = at


def clamp(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    assert isinstance(node.operator, Clamp)
    _between(core, node.operator.low, node.operator.high, work.made, last)


def _between(core: ProgramBuilder, low: int, high: int, made: Entries, last: bool) -> None:
    alu(core, "MAX", made, made, {"imm": low})
    alu(core, "MIN", made, made, {"imm": high, "out": int(last)})


def add_constant(core: ProgramBuilder, made: Entries, number: int) -> None:
    """Add a constant to all entries: as an immediate, or from a parameter word if it is large."""
    if LEAST <= number < -LEAST:
        if number:
            alu(core, "ADD", made, made, {"imm": number})
        return
    words = [np.full(PARAMETER_LANES, number, np.int64)] * blocks_of(
        core.shape.rows, PARAMETER_LANES
    )
    word = core.tables.add_parameters(words, core.macro.label)
    fields = made.by_rows | {"source": PARAMETERS}
    alu_with(core, "ADD", [MicroOp(acc=made.first, inp=word)], fields, [made], made)


def multiply(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    """Multiply the tile with a second map, or with one pixel, both without their zero points."""
    assert isinstance(node.operator, Product)
    here, beside = _second_operand(core, node, work)
    other = _other(here, node)
    add_constant(core, work.made, -here.zero_point)
    add_constant(core, beside, -other.zero_point)
    made = work.made
    if beside.pixels == made.pixels:
        alu(core, "MUL", made, beside, {})
        return
    ops = [
        MicroOp(acc=made.first + block * made.pixels, inp=beside.first + block)
        for block in range(made.blocks)
    ]
    fields = {"n_out": made.rows, "n_in": made.columns, "dst_out": made.columns, "dst_in": 1}
    alu_with(core, "MUL", ops, fields, [made, beside], made)


def _second_operand(core: ProgramBuilder, node: Node, work: TileWork) -> tuple[Tensor, Entries]:
    """Load the second operand of a node; return the one in the accumulators, and its place."""
    here = _made_here(core, node)
    other = _other(here, node)
    rows, columns = work.spans[core.macro.nodes.index(node) + 1]
    if other.shape != node.output.shape:
        rows, columns = Span(0, 1), Span(0, 1)
    area = LoadArea(core.regions[other], rows, columns, work.tile.blocks)
    beside = load_entries(core, area, work.free)
    work.free = beside.stop
    return here, beside


def _other(here: Tensor, node: Node) -> Tensor:
    """Return the operand that is not `here`; both may be the same."""
    return next((tensor for tensor in node.inputs if tensor is not here), here)


def add(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    """Compute x * a + other * b + constant, shift, add the zero point, and clip."""
    operator = node.operator
    assert isinstance(operator, Add)
    assert operator.factors is not None
    made = work.made
    here, beside = _second_operand(core, node, work)
    a, b, shift, constant = operator.factors
    mine, others = (a, b) if node.inputs[0] is here else (b, a)
    word = np.zeros(PARAMETER_LANES, np.int64)
    word[:3] = mine, others, constant
    rec = core.tables.add_parameters([word], core.macro.label)
    alu(core, "MAC2", made, beside, {"source": 1, "rec": rec})
    zero = node.output.zero_point
    if -(-core.shape.rows // core.shape.multiply_lanes) < 3 + bool(zero):
        # fewer cycles than separate operations: a requantisation by 1 * 2^-shift
        one = Multiplier(np.array(1), np.array(shift))
        how = Requantisation(one, zero, operator.low, operator.high, operator.rounding)
        spans = work.spans[core.macro.nodes.index(node) + 1]
        _requantise(core, how, node.output.channels, (work, spans), last)
        return
    rounding = ROUNDINGS.index(operator.rounding)
    alu(core, "RSHR", made, made, {"imm": shift, "round": rounding})
    if zero:
        alu(core, "ADD", made, made, {"imm": zero})
    _between(core, operator.low, operator.high, made, last)


def _made_here(core: ProgramBuilder, node: Node) -> Tensor:
    """Return the input of a node of two maps that is already in accumulators."""
    at = core.macro.nodes.index(node)
    return core.macro.nodes[at - 1].output if at else node.inputs[0]
