"""Cells of the NPU core and of its parts, by generic synthesis."""

from __future__ import annotations

from collections.abc import Iterator

from bench_common import say
from bench_npu_figures import Figure, at_most

ALU = ("npu_alu", "npu_alu_row", "npu_alu_lane")
"""Modules of the ALU, including its requantiser."""
BINARY = {"array": 0.09, "core": 0.05}
"""Limits of the binary unit's share."""
ALU_SHARE = 0.31


def cell_figures() -> Iterator[Figure]:
    """Yield the cells of binary unit, dual multiplier and ALU of the preset `npu`; needs Yosys."""
    from chipsim.chip.npu_shape import NPU_SHAPES
    from hw.flow.netlist import cells
    from hw.flow.yosys import find_yosys
    from hw.npu.synthesis import core_netlist, differences

    if find_yosys() is None:
        say("Yosys not found: cells are skipped")
        return
    shape = NPU_SHAPES["npu"]
    design = core_netlist(shape)
    found = cells(design)
    whole = sum(one.count * one.cells for one in found)
    alu = sum(one.count * one.cells for one in found if one.module in ALU)
    of = f"core {shape.name}"
    yield Figure(of, "cells", whole)
    yield Figure(of, "flip-flops", sum(one.count * one.flip_flops for one in found))
    yield Figure(of, "memory bits", sum(one.count * one.memory_bits for one in found))
    yield at_most(of, "ALU, share of the cells", alu / whole, ALU_SHARE)
    for one in differences(shape, design, found, False):
        binary = one.part == "binary unit"
        part = f"{one.part}, of the {one.whole}"
        limit = BINARY[one.whole] if binary else None
        yield at_most(part, "additional cells, share", one.share, limit)
        if one.whole == "core":
            yield at_most(part, "additional multipliers", one.multipliers, 0 if binary else None)
            yield at_most(part, "additional memory bits", one.memory_bits, 0 if binary else None)
