"""The window unit: computes columns of the im2col matrix from a planar map, without storing it.

A generator creates a list of items: for each packet its header, then the words of each group of
channels. They pass a chain of filters (`hw.npu.load.filter`), each of which produces the values of
one window of a packet. In a cycle in which no cache is full the whole chain advances. The input
buffer accepts one vector per cycle, from the filters in round-robin order.

Pipeline of the generator: an address of the header memory or of the feature memory; the data read;
the input register of the first filter. All stages advance with the chain.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.isa.instruction import WORD_BITS, fields_of
from hw.npu.load.areas import ADDRESS
from hw.npu.load.filter import CHANNELS, HEADER, LAYER, PLACE, Filter, behind, item_layout
from hw.npu.shape import BANKS, HEADER_BITS, NpuShape, Widths


class WindowUnit(ShapedComponent):
    """Window unit.

    word : the instruction, from the cycle after its start on
    starts : the cycle after its start
    base : base address of loads, in vectors
    head, header, reads_header : address of a header, and the header a cycle later, kept while not
        read
    place, words, reads : the same for the words of all banks
    en, to, vector : a write to the input buffer
    ends : the instruction ends with this cycle
    """

    module_name = "npu_windows"

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.size = shape, Widths(shape)
        size = self.size
        super().__init__(
            {
                "word": In(WORD_BITS),
                "starts": In(1),
                "base": In(ADDRESS),
                "head": Out(PLACE),
                "header": In(HEADER_BITS),
                "reads_header": Out(1),
                "place": Out(PLACE),
                "words": In(2 * size.vector * BANKS),
                "reads": Out(1),
                "en": Out(1),
                "to": Out(ADDRESS),
                "vector": Out(size.vector),
                "ends": Out(1),
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        f = fields_of(me.word, "LOAD", "WIN")
        layer = self._layer(m, f)
        filters = [Filter(self.size) for _ in range(self.shape.filters)]
        moves, works = Signal(), Signal()
        # The first header is read, arrives, and the chain can advance.
        begun = Signal()
        m.d.sync += begun.eq(me.starts)
        with m.If(begun):
            m.d.sync += works.eq(1)
        front = Signal(item_layout(self.size))
        empty = self._generate(m, f, layer, front, begun, moves)

        turn = Signal(range(max(2, len(filters))))
        chain: Any = front
        held = []
        for number, one in enumerate(filters):
            m.submodules[f"filter{number}"] = one
            port: Any = one
            m.d.comb += [
                port.layer.eq(layer), port.item.eq(chain), port.moves.eq(moves),
                port.turn.eq(works & (turn == number)),
            ]  # fmt: skip
            if number + 1 < len(filters):
                register = Signal(item_layout(self.size), name=f"chain_{number}")
                with m.If(moves):
                    m.d.sync += register.eq(port.handed)
                held.append(register.valid)
                chain = register
        ports: list[Any] = list(filters)
        full = Cat(*(one.full for one in ports)).any()
        idle = Cat(*(one.idle for one in ports)).all() & ~front.valid & ~Cat(*held).any() & empty
        m.d.comb += [
            moves.eq(works & ~full),
            me.ends.eq(works & idle),
        ]
        with m.If(works):
            m.d.sync += turn.eq(Mux(turn == len(filters) - 1, 0, turn + 1))
        with m.Else():
            m.d.sync += turn.eq(0)
        with m.If(me.ends):
            m.d.sync += works.eq(0)
        place, vector = Value.cast(0), Value.cast(0)
        for one in ports:
            place = place | Mux(one.en, one.place, 0)
            vector = vector | Mux(one.en, one.vector, 0)
        m.d.comb += [
            me.en.eq(Cat(*(one.en for one in ports)).any()),
            me.to.eq(f.dst + place),
            me.vector.eq(vector),
        ]
        return m

    def _layer(self, m: Module, f: Any) -> Any:
        """Return the constants of the filters, computed in the cycle after the start."""
        layer = Signal(LAYER)
        lanes = ceil_log2(self.shape.columns)
        values = Signal(PLACE)
        m.d.comb += values.eq(CHANNELS * f.groups * f.kh * f.kw + self.shape.columns - 1)
        m.d.sync += [
            getattr(layer, name).eq(getattr(f, name))
            for name in (
                "width", "height", "kh", "kw", "sh", "sw", "pad_t", "pad_l", "columns", "groups",
                "value",
            )
        ]  # fmt: skip
        m.d.sync += layer.vectors.eq(values >> lanes)
        return layer

    def _generate(
        self, m: Module, f: Any, layer: Any, front: Any, begun: Signal, moves: Signal
    ) -> Value:
        """Generate items, one per move; return whether none is on its way to the first register.

        The second stage holds the data read: a header, or a word.
        """
        me: Any = self
        comes, is_header = Signal(), Signal()  # the second stage holds an item
        packet = Signal(range(1 << 11))  # packets after this one whose header has not arrived
        header = Signal(HEADER)
        window = Signal(PLACE)
        length, group, at, plane_at = Signal(PLACE), Signal(6), Signal(PLACE), Signal(PLACE)
        plane = Signal(PLACE)
        pixels = Signal(2 * PLACE)
        bank = ceil_log2(2 * self.shape.columns)
        m.d.comb += [
            pixels.eq(f.width * f.height + 2 * self.shape.columns - 1),
            plane.eq(pixels >> bank),
        ]
        m.d.comb += [
            header.eq(Cat(me.header, window)),
        ]
        start = Signal(PLACE)
        m.d.comb += start.eq((me.base >> 3) + f.src + header.start)
        advances = begun | moves
        place = Signal(PLACE)  # place of the word in the second stage
        last_of_group = at + 1 == length
        last = last_of_group & (group + 1 == f.groups)
        next_header = Mux(is_header, header.length == 0, last)
        follows = plane_at + plane
        m.d.comb += [
            me.head.eq(f.head + (f.packets - packet)),
            me.place.eq(Mux(is_header, start, Mux(last_of_group, follows, place + 1))),
            me.reads.eq(advances),
            me.reads_header.eq(me.starts | (advances & comes & is_header)),
        ]
        with m.If(me.starts):
            m.d.sync += [
                comes.eq(f.packets != 0), is_header.eq(1), packet.eq(f.packets - 1), window.eq(0),
            ]  # fmt: skip
            m.d.comb += me.head.eq(f.head)
        with m.If(advances):
            m.d.sync += [
                front.valid.eq(comes), front.is_header.eq(is_header),
                place.eq(me.place),
            ]  # fmt: skip
            m.d.sync += front.payload.eq(Mux(is_header, header.as_value(), me.words))
            with m.If(is_header):
                m.d.sync += [
                    length.eq(header.length), group.eq(0), at.eq(0), plane_at.eq(start),
                    window.eq(self._behind_all(m, header, layer)),
                ]  # fmt: skip
            with m.Elif(last_of_group):
                m.d.sync += [group.eq(group + 1), at.eq(0), plane_at.eq(follows)]
            with m.Else():
                m.d.sync += at.eq(at + 1)
            with m.If(next_header):
                m.d.sync += [is_header.eq(1), comes.eq(comes & (packet != 0))]
                with m.If(packet != 0):
                    m.d.sync += packet.eq(packet - 1)
            with m.Else():
                m.d.sync += is_header.eq(0)
        return ~comes

    def _behind_all(self, m: Module, header: Any, layer: Any) -> Value:
        """Return the number of the first window of the next packet."""
        for _ in range(self.shape.filters):
            header = behind(m, header, layer)
        return header.window
