"""The bias of a layer: initial value of its sums, or added to them by the ALU."""

from __future__ import annotations

from hw.npu.isa.table import Instruction, MicroOp
from mapper.compiler.codegen.alu import PARAMETERS, alu, alu_step
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.kernels import Kernels
from mapper.compiler.program.steps import Touch

NOTHING, ZERO, BIAS = range(3)
"""Initial accumulator values that products can request with `init`."""


def begin_sums(core: ProgramBuilder, kernels: Kernels, work: TileWork, looped: bool) -> int:
    """Emit instructions that initialise accumulators; return the `init` mode of the products.

    looped : products run as loops, in which no product is the first of its accumulator
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
    """Add the bias to the sums, unless they started with it."""
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
    """Load the bias from parameters into the accumulators. A bias of more than 32 bits is stored
    without its trailing zeros and shifted back."""
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
