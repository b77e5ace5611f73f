"""A reader of lists: keys go in, the entries of each key's list come out.

Both tables of a core are of this kind: the routes of a neuron, and the synapses of an axon. A
memory of heads says where the list of each key begins and how long it is; a memory of entries
holds the lists. Lists come out whole, in the order of their keys.

Timing: a key that is accepted in cycle t gives its first entry in cycle t+2, if the reader was
idle. One entry leaves a cycle while the receiver is ready, without a gap between the lists of keys
that follow each other; an empty list takes one cycle.

State: the head that was read last, the next entry to read and how many remain, and the entry at
the output, which is held by the read port of its memory until it is taken.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import ReadPort
from amaranth.lib.wiring import In, Out


class ListReader(wiring.Component):
    """Ports: `keys` in, `entries` out, `busy`, and the read ports `heads` and `rows` of memories.

    `busy` is 1 from the cycle after a key was accepted until its last entry has left.

    head : layout of a head, with `first` and `count`
    entry : shape of an entry
    keys : bits of a key
    """

    keys: stream.Interface
    entries: stream.Interface
    busy: Signal
    heads: ReadPort
    rows: ReadPort

    def __init__(self, head: data.StructLayout, entry: ShapeLike, keys: int) -> None:
        address = Shape.cast(head["first"].shape).width
        super().__init__(
            {
                "keys": In(stream.Signature(unsigned(keys))),
                "entries": Out(stream.Signature(entry)),
                "busy": Out(1),
                "heads": In(ReadPort.Signature(addr_width=keys, shape=head)),
                "rows": In(ReadPort.Signature(addr_width=address, shape=entry)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        head: Any = self.heads.data
        looked = Signal()  # the head at the read port is of a key whose list was not begun
        row = Signal(len(head.first))  # the next entry of the list that was begun
        left = Signal(len(head.count))  # and how many of them remain
        free, begin, issue = Signal(), Signal(), Signal()

        m.d.comb += [
            free.eq(~self.entries.valid | self.entries.ready),
            begin.eq(looked & (left == 0) & (free | (head.count == 0))),
            issue.eq(Mux(left == 0, begin & (head.count != 0), free)),
            self.keys.ready.eq(~looked | begin),
            self.heads.addr.eq(self.keys.payload),
            self.heads.en.eq(self.keys.valid & self.keys.ready),
            self.rows.addr.eq(Mux(left == 0, head.first, row)),
            self.rows.en.eq(issue),
            self.entries.payload.eq(self.rows.data),
            self.busy.eq(looked | (left != 0) | self.entries.valid),
        ]
        with m.If(self.keys.ready):
            m.d.sync += looked.eq(self.keys.valid)
        with m.If(issue):
            m.d.sync += row.eq(self.rows.addr + 1)
            m.d.sync += left.eq(Mux(left == 0, head.count, left) - 1)
        with m.If(free):
            m.d.sync += self.entries.valid.eq(issue)
        return m
