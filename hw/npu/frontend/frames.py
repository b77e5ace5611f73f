"""Frame control: repeats the program of a core for the number of frames that the host requests.

The next frame starts when nothing of the previous one is left: `NpuShape.latency.restart` cycles
pass between the first cycle in which the core is idle and the first fetch. The first frame is even.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.drain import drained
from hw.npu.flit import COUNT_BITS
from hw.npu.shape import NpuShape
from hw.strobe import strobe

STAGES = 2
"""Minimum cycles of a restart, from an idle core to the first fetch."""
FRAMES = data.StructLayout({"count": COUNT_BITS, "first": COUNT_BITS})
"""Number of frames, and the first instruction of each."""


class Frames(ShapedComponent):
    """Frame control.

    begin : run a number of frames from the next cycle on
    busy, start, odd, first : ports of the core
    active : frames are in progress or waiting
    """

    module_name = "npu_frames"

    def __init__(self, shape: NpuShape) -> None:
        self.shape = shape
        super().__init__(
            {
                "begin": In(strobe(FRAMES)),
                "busy": In(1),
                "start": Out(1),
                "odd": Out(1),
                "first": Out(COUNT_BITS),
                "active": Out(1),
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        left, waits, starts = Signal(COUNT_BITS), Signal(), Signal()
        m.d.comb += [
            starts.eq((left != 0) & ~me.busy & ~waits),
            me.active.eq((left != 0) | waits | me.busy),
        ]
        m.d.sync += me.start.eq(drained(m, starts, self.shape.latency.restart - STAGES))
        with m.If(starts):
            m.d.sync += [left.eq(left - 1), waits.eq(1), me.odd.eq(~me.odd)]
        with m.If(me.start):
            m.d.sync += waits.eq(0)
        with m.If(me.begin.valid):
            m.d.sync += [
                left.eq(me.begin.payload.count), me.first.eq(me.begin.payload.first), me.odd.eq(1),
            ]  # fmt: skip
        return m
