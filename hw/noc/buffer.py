"""Input buffer: a queue of packets between two streams.

Ports
    ``i``      In, stream    accepted in a cycle with ``i.valid`` and ``i.ready``
    ``o``      Out, stream   the oldest packet; leaves in a cycle with ``o.valid`` and ``o.ready``
    ``level``  Out           packets held, 0 .. depth

Timing
    First word falls through: a packet accepted in cycle t by an empty buffer is at the output in
    cycle t + 1. ``i.ready`` and ``o.valid`` come from ``level`` alone, which is a register: a
    full buffer does not accept in the cycle in which it is read, and no path leads through from
    ``o.ready`` to ``i.ready``. So a depth of 1 passes a packet every second cycle, 2 and more one
    every cycle.

State
    ``depth`` packets in a memory with an asynchronous read port (distributed RAM or registers), a
    read and a write pointer, the level. All are 0 after reset, but the contents of the memory.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Assert, Module, ShapeLike, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.errors import check_count
from hw.flow.sharing import shared

MAX_DEPTH = 1024


def check_depth(where: str, depth: object) -> int:
    """``depth`` as an int; raises `HwError` unless it is 1 to 1024."""
    return check_count(f"{where}: depth", depth, 1, MAX_DEPTH)


class Buffer(wiring.Component):
    """Queue of ``depth`` (1 to 1024) payloads of shape ``layout``; raises `HwError` on others."""

    module_name = "buffer"

    def __init__(self, layout: ShapeLike, depth: int) -> None:
        self.layout = layout
        self.depth = check_depth("buffer", depth)
        super().__init__(
            {
                "i": In(stream.Signature(layout)),
                "o": Out(stream.Signature(layout)),
                "level": Out(range(depth + 1)),
            }
        )

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """What makes two buffers the same module."""
        return (self.layout, self.depth)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width = len(Value.cast(self.i.payload))
        m.submodules.queue = queue = fifo.SyncFIFO(width=width, depth=self.depth)
        m.d.comb += [
            queue.w_data.eq(self.i.payload),
            queue.w_en.eq(self.i.valid),
            self.i.ready.eq(queue.w_rdy),
            self.o.payload.eq(queue.r_data),
            self.o.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.o.ready),
            self.level.eq(queue.level),
        ]
        m.d.sync += [
            Assert(self.level <= self.depth, "buffer: level is above its depth"),
            Assert(self.i.ready == (self.level != self.depth), "buffer: ready unlike its level"),
            Assert(self.o.valid == (self.level != 0), "buffer: valid unlike its level"),
        ]
        return m
