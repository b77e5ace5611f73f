"""What the ALU does with the values of a tile, a function for each operator."""

from __future__ import annotations

import numpy as np

from hw.npu.isa import Instruction, MicroOp
from mapper.compiler.codegen.areas import Area, Entries
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.loads import load_entries
from mapper.compiler.codegen.steps import Touch
from mapper.compiler.codegen.tables import LANES
from mapper.compiler.graph.node import Add, Clamp, Node, Pool, Requantise
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.formulas import ROUNDINGS, Multiplier, Requantisation
from mapper.errors import MapperError

LEAST = -(1 << 15)  # of an immediate


def alu(
    core: ProgramBuilder, kind: str, made: Entries, source: Entries, more: dict[str, int]
) -> None:
    """One operation on each entry; the source is read entry by entry as well."""
    op = MicroOp(acc=made.first, inp=source.first)
    fields = {
        "uop": core.tables.add_micro_ops([op], core.macro.label),
        "uops": 1,
        "n_out": made.blocks * made.rows,
        "n_in": made.columns,
        "dst_out": made.columns,
        "dst_in": 1,
        "src_out": made.columns,
        "src_in": 1,
    }
    alu_step(core, Instruction("ALU", kind, fields=fields | more), [made, source], made)


def alu_step(
    core: ProgramBuilder, instruction: Instruction, reads: list[Entries], made: Entries
) -> None:
    """Add an instruction of the ALU; its results go to the result buffer if it says so."""
    writes = [Touch("ACC", made.cells)]
    if instruction.fields.get("out"):
        writes.append(Touch("OUT", made.cells))
    core.step("ALU", instruction, [Touch("ACC", one.cells) for one in reads], writes)


def requantise(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    assert isinstance(node.operator, Requantise)
    _requantise(core, node.operator.how, node.output.channels, work, last)


def _requantise(
    core: ProgramBuilder, how: Requantisation, channels: int, work: TileWork, last: bool
) -> None:
    made = work.made
    rec = core.tables.add_record(how, channels, *work.tile.blocks, core.macro.label)
    kind = "RQ" if how.negative is None else "LEAKY"
    fields = {
        "dst": made.first,
        "n_out": made.blocks,
        "n_in": made.pixels,
        "dst_out": made.pixels,
        "dst_in": 1,
        "rec": rec,
        "out": int(last),
    }
    alu_step(core, Instruction("RQ", kind, fields=fields), [made], made)


def clamp(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    assert isinstance(node.operator, Clamp)
    _between(core, node.operator.low, node.operator.high, work.made, last)


def _between(core: ProgramBuilder, low: int, high: int, made: Entries, last: bool) -> None:
    alu(core, "MAX", made, made, {"imm": low})
    alu(core, "MIN", made, made, {"imm": high, "out": int(last)})


def pool(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    """The first pixel of each window moved together, then the others against it; of means the
    sum, less the zero points of the pixels."""
    assert isinstance(node.operator, Pool)
    window, source = node.operator.window, work.made
    mean = node.operator.kind == "average"
    if any(window.pad):
        raise MapperError(f"{node.label}: padded pooling is not built yet")
    rows, columns = work.spans[core.macro.nodes.index(node) + 1]
    made = Entries(work.free, source.blocks, rows.size, columns.size)
    places = [
        (wy * window.dilation[0], wx * window.dilation[1])
        for wy in range(window.size[0])
        for wx in range(window.size[1])
    ]
    ops = [
        MicroOp(
            acc=made.first + block * made.pixels,
            inp=source.first + block * source.pixels + y * source.columns + x,
        )
        for y, x in places
        for block in range(made.blocks)
    ]
    fields = {
        "n_out": made.rows,
        "n_in": made.columns,
        "dst_out": made.columns,
        "dst_in": 1,
        "src_out": window.stride[0] * source.columns,
        "src_in": window.stride[1],
        "source": 1,
    }
    kinds = [("MOV", ops[: made.blocks]), ("ADD" if mean else "MAX", ops[made.blocks :])]
    kinds = [one for one in kinds if one[1]]
    for kind, some in kinds:
        more = {
            "uop": core.tables.add_micro_ops(some, core.macro.label),
            "uops": len(some),
            "out": int(last and some is kinds[-1][1]),
        }
        alu_step(core, Instruction("ALU", kind, fields=fields | more), [source, made], made)
    if mean:
        rest = -len(places) * node.inputs[0].zero_point
        while rest:
            step = max(LEAST, min(-LEAST - 1, rest))
            alu(core, "ADD", made, made, {"imm": step})
            rest -= step
    work.made, work.free = made, made.behind


def add(core: ProgramBuilder, node: Node, work: TileWork, last: bool) -> None:
    """x * a + other * b + constant, shifted, the zero point added, and clipped."""
    operator = node.operator
    assert isinstance(operator, Add)
    assert operator.factors is not None
    here, made = _made_here(core, node), work.made
    other = next((tensor for tensor in node.inputs if tensor is not here), here)
    rows, columns = work.spans[core.macro.nodes.index(node) + 1]
    area = Area(core.regions[other], rows, columns, work.tile.blocks)
    beside = load_entries(core, other, area, work.free)
    a, b, shift, constant = operator.factors
    mine, others = (a, b) if node.inputs[0] is here else (b, a)
    word = np.zeros(LANES, np.int64)
    word[:3] = mine, others, constant
    rec = core.tables.add_parameters([word], core.macro.label)
    alu(core, "MAC2", made, beside, {"source": 1, "rec": rec})
    work.free = beside.behind
    zero = node.output.zero_point
    if -(-core.shape.rows // core.shape.multiply_lanes) < 3 + bool(zero):
        # fewer cycles than one after the other: a requantisation by 1 * 2^-shift
        one = Multiplier(np.array(1), np.array(shift))
        how = Requantisation(one, zero, operator.low, operator.high, operator.rounding)
        _requantise(core, how, node.output.channels, work, last)
        return
    rounding = ROUNDINGS.index(operator.rounding)
    alu(core, "RSHR", made, made, {"imm": shift, "round": rounding})
    if zero:
        alu(core, "ADD", made, made, {"imm": zero})
    _between(core, operator.low, operator.high, made, last)


def _made_here(core: ProgramBuilder, node: Node) -> Tensor:
    """The input of an addition that is in accumulators already."""
    at = core.macro.nodes.index(node)
    return core.macro.nodes[at - 1].output if at else node.inputs[0]
