"""End of an instruction: a fixed number of cycles after its last step."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal

from hw.errors import HwError


def drained(m: Module, last: Any, cycles: int) -> Any:
    """Return `last` delayed by `cycles`; raise `HwError` if a latency is below the pipeline's."""
    if cycles < 0:
        raise HwError(f"npu: a latency is {-cycles} cycles shorter than the pipeline of its unit")
    if cycles == 0:
        return last
    stages = Signal(cycles, name="drain")
    m.d.sync += stages.eq((stages << 1) | last)
    return stages[cycles - 1]
