"""Registers that instructions set, and the counts of streams."""

from __future__ import annotations

from amaranth.hdl import Signal

from hw.npu.isa.instruction import WORD_BITS, fields_of
from hw.npu.isa.table import FORMS

BASES = ("load", "store", "weights")
COUNT_BITS = 16 + 1
"""Bits of a stream count; a WAIT consumes up to 2^16 - 1."""
DISTANCES = {"LOAD": ("src",), "GEMM": ("acc", "wgt"), "STORE": ("src",)}
"""Registers that DIST sets, by its queue."""


def _registers() -> dict[str, int]:
    """Return names and bits of the registers that instructions set."""
    bits = {f.name: f.width for form in FORMS for f in form.fields if "DIST" in form.kinds}
    base = fields_of(Signal(WORD_BITS), "CTRL", "BASE").value
    found = {f"base_{name}": len(base) for name in BASES}
    for unit, names in DISTANCES.items():
        found |= {f"{unit.lower()}_{name}": bits[name] for name in names}
    return found


REGISTERS = _registers()
