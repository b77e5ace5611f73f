"""A reader of lists: consumes keys and streams the entries of each key's list.

Both tables of a core are of this kind: the routes of a neuron, and the synapses of an axon. A
memory of heads gives the start and length of each key's list; a memory of entries holds the lists.
Lists are streamed whole, in the order of their keys.

Timing: a key that is accepted in cycle t yields its first entry in cycle t+3 if the reader was
idle. One entry leaves per cycle while the receiver is ready, without a gap between consecutive
lists; an empty list takes one cycle.

State: the head at the read port and the one in the following register, whose lists have not
started; the next entry to read, the number of remaining entries, and the base of their list; and
the entry at the output, which the read port of its memory holds until it is accepted.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.core.loaded import Memories, loaded_memory
from hw.core.shape import CoreShape, DestinationTable
from hw.strobe import strobe


class ListReader(wiring.Component):
    """List reader: `keys` in, `entries` out, `busy`, and `load` for words of the two memories.

    `busy` is 1 from the cycle after a key was accepted until its last entry has left. If heads have
    a `base`, the port `base` has the base of the list whose entry is at `entries`.

    heads, rows : the tables among `memories` of the heads, with `first` and `count`, and of entries
    """

    keys: stream.Interface
    entries: stream.Interface
    busy: Signal
    base: Signal
    load: Any

    def __init__(
        self, shape: CoreShape, memories: Memories, heads: DestinationTable, rows: DestinationTable
    ) -> None:
        self.memories, self.heads, self.rows = memories, heads, rows
        keys = exact_log2(memories[heads].depth)
        members: dict[str, Any] = {
            "keys": In(stream.Signature(unsigned(keys))),
            "entries": Out(stream.Signature(memories[rows].shape)),
            "busy": Out(1),
            "load": In(strobe(shape.load)),
        }
        layout: Any = memories[heads].shape
        self._based = "base" in layout.members
        if self._based:
            members["base"] = Out(layout["base"].shape)
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        heads: Any = loaded_memory(m, self.memories, self.heads, self.load)
        rows: Any = loaded_memory(m, self.memories, self.rows, self.load)
        looked = Signal()  # a head is at the read port
        head = Signal(heads.data.shape())
        known = Signal()  # a head is in the register
        row = Signal(len(head.first))  # the next entry of the current list
        left = Signal(len(head.count))  # number of remaining entries
        running = Signal()  # any entries remain
        free, begin, issue, passes = Signal(), Signal(), Signal(), Signal()

        remain = Mux(running, left, head.count)
        m.d.comb += [
            free.eq(~self.entries.valid | self.entries.ready),
            begin.eq(known & ~running & free),
            issue.eq(free & (running | (known & (head.count != 0)))),
            passes.eq(~known | begin),
            self.keys.ready.eq(~looked | passes),
            heads.addr.eq(self.keys.payload),
            heads.en.eq(self.keys.valid & self.keys.ready),
            rows.addr.eq(Mux(running, row, head.first)),
            rows.en.eq(issue),
            self.entries.payload.eq(rows.data),
            self.busy.eq(looked | known | running | self.entries.valid),
        ]
        with m.If(self.keys.ready):
            m.d.sync += looked.eq(self.keys.valid)
        with m.If(passes):
            m.d.sync += [known.eq(looked), head.eq(heads.data)]
        with m.If(issue):
            m.d.sync += [row.eq(rows.addr + 1), left.eq(remain - 1), running.eq(remain != 1)]
        if self._based:
            with m.If(begin):
                m.d.sync += self.base.eq(head.base)
        with m.If(free):
            m.d.sync += self.entries.valid.eq(issue)
        return m
