"""The end of an instruction: so many cycles behind its last step."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal

from hw.errors import HwError


def drained(m: Module, last: Any, cycles: int) -> Any:
    """A signal that is 1 so many cycles behind those in which `last` is; raises `HwError` if a
    latency is shorter than the pipeline."""
    if cycles < 0:
        raise HwError(f"npu: a latency is {-cycles} cycles shorter than the pipeline of its unit")
    if cycles == 0:
        return last
    stages = Signal(cycles, name="drain")
    m.d.sync += stages.eq((stages << 1) | last)
    return stages[cycles - 1]
