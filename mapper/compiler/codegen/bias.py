"""The bias of a layer: what its sums begin with, or added to them by the ALU."""

from __future__ import annotations

from hw.npu.isa import Instruction, MicroOp
from mapper.compiler.codegen.alu import PARAMETERS, alu, alu_step
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.kernels import Kernels
from mapper.compiler.codegen.steps import Touch

NOTHING, ZERO, BIAS = range(3)
"""What micro-ops of products that say so put into their accumulators first."""


def begin_sums(core: ProgramBuilder, kernels: Kernels, work: TileWork, looped: bool) -> int:
    """Returns what products put into their accumulators first.

    looped : no product is the first one of an accumulator
    """
    added = core.options.bias == "alu"
    if kernels.shift or (looped and not added):
        _load_bias(core, kernels, work)
        return NOTHING
    if looped:
        alu(core, "MOV", work.made, work.made, {"imm": 0})
        return NOTHING
    return ZERO if added else BIAS


def end_sums(core: ProgramBuilder, kernels: Kernels, work: TileWork) -> None:
    """Add the bias to the sums, if they did not begin with it."""
    if core.options.bias != "alu" or kernels.shift:
        return
    made = work.made
    op = MicroOp(acc=made.first, inp=kernels.bias + work.tile.blocks.first * kernels.lanes)
    fields = {
        "uop": core.tables.add_micro_ops([op], core.macro.label),
        "uops": 1,
        "n_out": made.blocks,
        "n_in": made.pixels,
        "dst_out": made.pixels,
        "dst_in": 1,
        "src_out": kernels.lanes,
        "source": PARAMETERS,
    }
    alu_step(core, Instruction("ALU", "ADD", fields=fields), [made], made)


def _load_bias(core: ProgramBuilder, kernels: Kernels, work: TileWork) -> None:
    """From parameters into the accumulators; one of more than 32 bits without its last zeros."""
    made = work.made
    fields = {
        "dst": made.first,
        "bm": kernels.bias + work.tile.blocks.first * kernels.lanes,
        "n_out": made.blocks,
        "n_in": made.pixels,
        "dst_out": made.pixels,
        "dst_in": 1,
    }
    core.step(
        "LOAD", Instruction("LOAD", "BIAS", fields=fields), [], [Touch("ACC", made.cells)]
    )  # fmt: skip
    if kernels.shift:
        alu(core, "SHL", made, made, {"imm": kernels.shift})
