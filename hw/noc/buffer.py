# amaranth: UnusedElaboratable=no
# (proofs access the memory of a buffer, even of a faulty one that has none)
"""Input buffer: a queue of packets between two streams.

Ports
    ``i``      In, stream    accepted in a cycle with ``i.valid`` and ``i.ready``
    ``o``      Out, stream   the oldest packet; leaves in a cycle with ``o.valid`` and ``o.ready``
    ``level``  Out           packets held, 0 .. depth

Timing
    First word falls through: a packet accepted in cycle t by an empty buffer is at the output in
    cycle t + 1. ``i.ready`` and ``o.valid`` depend only on ``level``, which is a register: a full
    buffer does not accept in the cycle in which it is read, and there is no combinational path from
    ``o.ready`` to ``i.ready``. So a depth of 1 passes a packet every second cycle, a depth of 2 or
    more one every cycle.

State
    ``depth`` packets in a memory with an asynchronous read port (distributed RAM or registers), a
    read and a write pointer, the level. All are 0 after reset except the contents of the memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from amaranth.hdl import Assert, Module, Mux, Shape, ShapeLike, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.errors import check_count
from hw.flow.sharing import shared

MAX_DEPTH = 1024


def check_depth(where: str, depth: object) -> int:
    """Return ``depth`` as an int; raise `HwError` unless it is 1 to 1024."""
    return check_count(f"{where}: depth", depth, 1, MAX_DEPTH)


class Buffer(wiring.Component):
    """Queue of ``depth`` (1 to 1024) payloads of shape ``layout``; raises `HwError` otherwise."""

    module_name = "buffer"

    def __init__(self, layout: ShapeLike, depth: int) -> None:
        self.layout = layout
        self.depth = check_depth("buffer", depth)
        self.produce, self.consume = Signal(range(depth)), Signal(range(depth))
        super().__init__(
            {
                "i": In(stream.Signature(layout)),
                "o": Out(stream.Signature(layout)),
                "level": Out(range(depth + 1)),
            }
        )

    @cached_property
    def storage(self) -> Memory:
        """The memory of packets."""
        return Memory(shape=unsigned(Shape.cast(self.layout).width), depth=self.depth, init=[])

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        return (self.layout, self.depth)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.storage = self.storage
        write: Any = self.storage.write_port()
        read: Any = self.storage.read_port(domain="comb")
        enters, leaves = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq(self.level != self.depth),
            self.o.valid.eq(self.level != 0),
            write.addr.eq(self.produce),
            write.data.eq(self.i.payload),
            write.en.eq(enters),
            read.addr.eq(self.consume),
            self.o.payload.eq(read.data),
        ]
        with m.If(enters):
            m.d.sync += self.produce.eq(self._after(self.produce))
        with m.If(leaves):
            m.d.sync += self.consume.eq(self._after(self.consume))
        with m.If(enters & ~leaves):
            m.d.sync += self.level.eq(self.level + 1)
        with m.If(leaves & ~enters):
            m.d.sync += self.level.eq(self.level - 1)
        m.d.sync += [
            Assert(self.level <= self.depth, "buffer: level is above its depth"),
            Assert(self.i.ready == (self.level != self.depth), "buffer: ready unlike its level"),
            Assert(self.o.valid == (self.level != 0), "buffer: valid unlike its level"),
        ]
        return m

    def _after(self, pointer: Signal) -> Value:
        """Return the next place in the memory."""
        return Mux(pointer == self.depth - 1, 0, pointer + 1)
