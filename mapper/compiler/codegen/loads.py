"""Loads of parts of feature maps into the input buffer or into accumulators."""

from __future__ import annotations

import numpy as np

from hw.npu.isa.table import Instruction
from mapper.compiler.codegen.areas import Entries, LoadArea
from mapper.compiler.codegen.builder import ProgramBuilder
from mapper.compiler.program.steps import Touch


def load_inputs(core: ProgramBuilder, area: LoadArea, far: int = 0) -> Entries:
    """Load a part of a feature map into the input buffer; padding holds its zero point.

    far : vectors from each pixel to the second pixel that is packed above it; 0 for none
    """
    base = core.next_inputs()
    inputs = Entries(base, area.blocks.size, area.rows.size, area.columns.size)
    value = padding = area.region.tensor.zero_point
    cells = area.cells(padding)
    if far:
        value, cells = (value << 8) + (value & 255), np.concatenate([cells, cells + far])
    core.set_distance("LOAD", src=far or area.region.high)
    fields = area.fields(padding) | {"dst": base, "value": value}
    core.step(
        "LOAD", Instruction("LOAD", "INP", fields=fields),
        [Touch("FM", cells)], [Touch("INP", inputs.cells)],
    )  # fmt: skip
    return inputs


def load_entries(core: ProgramBuilder, area: LoadArea, first: int, padding: int = 0) -> Entries:
    """Load a part of a feature map into accumulators, starting at `first`.

    padding : value of pixels outside the map
    """
    made = Entries(first, area.blocks.size, area.rows.size, area.columns.size)
    core.set_distance("LOAD", src=area.region.high)
    fields = area.fields(padding) | {"dst": first, "value": padding}
    core.step(
        "LOAD", Instruction("LOAD", "ACC8", fields=fields),
        [Touch("FM", area.cells(padding))], [Touch("ACC", made.cells)],
    )  # fmt: skip
    return made
