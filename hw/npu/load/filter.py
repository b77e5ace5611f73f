"""A filter of the window unit: produces the values of one window of a packet from a word stream.

The filters form a chain. In a move, each one stores the waiting item in its cache and passes it to
the next filter: a header is advanced to the next window on the way. An idle filter drops the words
at the head of its cache and consumes the following header. Then it executes one command per cycle,
over groups, kernel rows and kernel columns: outside the map four pad values; inside it four bytes
of a word, one per bank, once the word is present. Earlier words are dropped, and the word itself
stays, as the next command may need it. Full vectors wait in a register for the filter's turn to
write.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.flow.sharing import shared
from hw.npu.shape import BANKS, Widths

CACHE = 8
"""Items per filter cache, including headers."""
CHANNELS = 4
"""Channels per group: banks, and bytes per command."""
PLACE = 16
"""Bits of a coordinate, of a word address and of a window number."""
SIGNED = PLACE + 2


LAYER = data.StructLayout(
    {
        "width": 9, "height": 9, "kh": 4, "kw": 4, "sh": 3, "sw": 3, "pad_t": 3, "pad_l": 3,
        "columns": 9, "groups": 6, "value": signed(8), "vectors": PLACE,
    }
)  # fmt: skip
"""Fields of an instruction for the map and its windows; vectors : vectors per window"""
HEADER = data.StructLayout(
    {"start": PLACE, "length": PLACE, "x": PLACE, "y": PLACE, "window": PLACE}
)
"""start, length : words of a plane; x, y : a window, in padded coordinates; window : its number
among the windows that are kept"""


def item_layout(size: Widths) -> data.StructLayout:
    """Return the layout of an item of the chain: a header, or a word of all banks."""
    return data.StructLayout(
        {
            "valid": 1,
            "is_header": 1,
            "payload": data.UnionLayout({"header": HEADER, "word": 2 * size.vector * BANKS}),
        }
    )


def inside(header: Any, layer: Any) -> Value:
    """Return whether a window starts above the last row of the map; others are dropped."""
    return header.y < layer.height + layer.pad_t


def behind(m: Module, header: Any, layer: Any) -> Any:
    """Return the header of the next window; one below the map stays unchanged."""
    found = Signal(HEADER, name="behind")
    right = header.x + layer.sw
    in_row = right < layer.columns * layer.sw
    m.d.comb += found.eq(header)
    with m.If(inside(header, layer)):
        m.d.comb += [
            found.x.eq(Mux(in_row, right, 0)),
            found.y.eq(Mux(in_row, header.y, header.y + layer.sh)),
            found.window.eq(header.window + 1),
        ]
    return found


class Filter(wiring.Component):
    """Filter of the window unit.

    layer : fields of the instruction; constant while it runs
    item, moves : the waiting item; it is accepted, and `handed` passes it on
    full : the cache is full
    idle : no work is left
    turn : a vector may be written in this cycle
    en, place, vector : a vector is written, at an offset from the first one
    """

    module_name = "npu_filter"

    def __init__(self, size: Widths) -> None:
        self.size = size
        item = item_layout(size)
        super().__init__(
            {
                "layer": In(LAYER),
                "item": In(item),
                "moves": In(1),
                "handed": Out(item),
                "full": Out(1),
                "idle": Out(1),
                "turn": In(1),
                "en": Out(1),
                "place": Out(PLACE),
                "vector": Out(size.vector),
            }
        )

    @property
    def module_parameters(self) -> tuple[Any, ...]:
        """Key of the shared module."""
        return (self.size.shape,)

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        layer = me.layer
        m.d.comb += me.handed.eq(me.item)
        with m.If(me.item.is_header):
            m.d.comb += me.handed.payload.header.eq(behind(m, me.item.payload.header, layer))
        cache = _Cache(m, self.size, me.item, me.moves)
        self.works = works = Signal()

        # Idle: drop words up to the next header, and consume it.
        taken = Signal(HEADER)
        kept = inside(taken, layer)
        m.d.comb += taken.eq(cache.header)
        takes = ~works & cache.has_header

        commands = _Commands(m, self.size, layer, taken, takes & kept)
        there = Signal()
        ahead = Signal(signed(SIGNED))  # words of the cache before the required one
        m.d.comb += [
            ahead.eq(commands.wanted - cache.first),
            there.eq(commands.outside | (ahead < cache.level)),
        ]
        result, waits = Signal(self.size.vector), Signal()
        collected = (
            Signal(self.size.vector - 8 * CHANNELS) if self.size.columns > CHANNELS else None
        )
        number = Signal(range(max(2, self.size.columns // CHANNELS)))
        goes, fills = Signal(), Signal()
        writes = waits & me.turn
        m.d.comb += [
            fills.eq((number == self.size.columns // CHANNELS - 1) | commands.last),
            goes.eq(works & there & (~fills | ~waits | writes)),
        ]
        values = self._values(m, cache, ahead, commands)
        whole = self._whole(values, collected, number)
        vector = Signal(PLACE)  # number of the next vector of the window
        window = Signal(PLACE)
        with m.If(takes):
            m.d.sync += [
                works.eq(kept), number.eq(0), window.eq(taken.window * layer.vectors),
                vector.eq(0), cache.first.eq(0),
            ]  # fmt: skip
            if collected is not None:
                m.d.sync += collected.eq(0)
        with m.If(writes):
            m.d.sync += waits.eq(0)
        with m.If(goes):
            commands.step()
            m.d.sync += [works.eq(~commands.last), number.eq(Mux(fills, 0, number + 1))]
            if collected is not None:
                m.d.sync += collected.eq(Mux(fills, 0, whole[: len(collected)]))
            with m.If(fills):
                m.d.sync += [
                    result.eq(whole), waits.eq(1), me.place.eq(window + vector),
                    vector.eq(vector + 1),
                ]  # fmt: skip
        dropped = Signal(range(CACHE + 1))
        some = Mux(ahead < cache.level, ahead, cache.level)
        m.d.comb += [
            dropped.eq(
                Mux(works, Mux(commands.outside | (ahead < 0), 0, some), cache.up_to_header)
            ),
            cache.dropped.eq(dropped + takes),
            me.full.eq(cache.level == CACHE),
            me.idle.eq(~works & ~waits & (cache.level == 0)),
            me.en.eq(writes),
            me.vector.eq(result),
        ]
        with m.If(works):
            m.d.sync += cache.first.eq(cache.first + dropped)
        return m

    def _values(self, m: Module, cache: _Cache, ahead: Signal, commands: _Commands) -> Value:
        """Return four bytes: of the required word, or of padding."""
        me: Any = self
        word = cache.word(ahead)
        bank = 2 * self.size.vector
        found = []
        for channel in range(CHANNELS):
            row = word[bank * channel : bank * (channel + 1)]
            byte = row.word_select(commands.pixel[: ceil_log2(bank // 8)], 8)
            value = Signal(8, name=f"value_{channel}")
            m.d.comb += value.eq(Mux(commands.outside, me.layer.value, byte))
            found.append(value)
        return Cat(*found)

    def _whole(self, values: Value, collected: Signal | None, number: Signal) -> Value:
        """Return the vector including the values of a command, zero-padded."""
        if collected is None:
            return values
        shift = Cat(Const(0, 5), number)
        return (collected | (values << shift))[: self.size.vector]


class _Cache:
    """The cache of a filter.

    first : number of the first word, within its packet
    level : items
    up_to_header : words before the first header
    has_header, header : whether there is a header, and the header
    dropped : items that leave in this cycle
    """

    def __init__(self, m: Module, size: Widths, item: Any, moves: Signal) -> None:
        bits = len(item.payload.as_value())
        m.submodules.cache = memory = Memory(shape=bits, depth=CACHE, init=[])
        write = memory.write_port()
        self._word, header = memory.read_port(domain="comb"), memory.read_port(domain="comb")
        self._at = Signal(range(CACHE))
        flags = Signal(CACHE)  # which places hold headers
        self.first = Signal(PLACE + 6)
        self.level = Signal(range(CACHE + 1))
        self.dropped = Signal(range(CACHE + 1))
        takes = moves & item.valid
        to = (self._at + self.level)[: ceil_log2(CACHE)]
        m.d.comb += [write.addr.eq(to), write.data.eq(item.payload), write.en.eq(takes)]
        m.d.sync += [
            self.level.eq(self.level + takes - self.dropped), self._at.eq(self._at + self.dropped),
        ]  # fmt: skip
        with m.If(takes):
            m.d.sync += flags.bit_select(to, 1).eq(item.is_header)
        self.up_to_header = Signal(range(CACHE + 1))
        self.has_header = Signal()
        m.d.comb += self.up_to_header.eq(self.level)
        for number in reversed(range(CACHE)):
            place = (self._at + number)[: ceil_log2(CACHE)]
            with m.If(flags.bit_select(place, 1) & (number < self.level)):
                m.d.comb += [self.up_to_header.eq(number), self.has_header.eq(1)]
        m.d.comb += header.addr.eq(self._at + self.up_to_header)
        self.header = header.data[: len(Signal(HEADER).as_value())]
        self._m = m

    def word(self, ahead: Value) -> Value:
        """Return the item `ahead` places after the first one."""
        self._m.d.comb += self._word.addr.eq(self._at + ahead[: ceil_log2(CACHE)])
        return self._word.data


class _Commands:
    """Sequence of commands of a filter for its window.

    outside : the next command is outside the map
    pixel, wanted : otherwise its pixel of the plane, and the number of its word within the packet
    last : the command is the last one
    """

    def __init__(self, m: Module, size: Widths, layer: Any, taken: Any, begins: Value) -> None:
        self.m, self.layer = m, layer
        self._group, self._ky, self._kx = Signal(6), Signal(4), Signal(4)
        self._py, self._px = Signal(signed(SIGNED)), Signal(signed(SIGNED))
        self._top, self._left = Signal(signed(SIGNED)), Signal(signed(SIGNED))
        self._row, self._first = Signal(signed(2 * PLACE)), Signal(signed(2 * PLACE))
        self._pixel = Signal(signed(2 * PLACE))
        self._start, self._length = Signal(PLACE), Signal(PLACE)
        self._behind = Signal(PLACE + 6)  # words of the previous groups
        y, x = taken.y - layer.pad_t, taken.x - layer.pad_l
        first = Signal(signed(2 * PLACE))
        m.d.comb += first.eq(y * layer.width + x)
        with m.If(begins):
            m.d.sync += [
                self._group.eq(0), self._ky.eq(0), self._kx.eq(0),
                self._py.eq(y), self._top.eq(y), self._px.eq(x), self._left.eq(x),
                self._row.eq(first), self._first.eq(first), self._pixel.eq(first),
                self._start.eq(taken.start), self._length.eq(taken.length), self._behind.eq(0),
            ]  # fmt: skip
        self._row_ends = self._kx + 1 == layer.kw
        self._window_ends = self._row_ends & (self._ky + 1 == layer.kh)
        self.last = Signal()
        self.outside = Signal()
        self.pixel = self._pixel
        self.wanted = Signal(signed(SIGNED + 6))
        shift = ceil_log2(2 * size.columns)
        within = (self._py >= 0) & (self._py < layer.height)
        m.d.comb += [
            self.last.eq(self._window_ends & (self._group + 1 == layer.groups)),
            self.outside.eq(~(within & (self._px >= 0) & (self._px < layer.width))),
            self.wanted.eq((self._pixel >> shift) - self._start + self._behind),
        ]

    def step(self) -> None:
        """Go to the next command; must be called in the domain of the surrounding logic."""
        m, layer = self.m, self.layer
        below = (self._row + layer.width)[: 2 * PLACE].as_signed()
        with m.If(self._window_ends):
            m.d.sync += [
                self._group.eq(self._group + 1), self._ky.eq(0), self._kx.eq(0),
                self._py.eq(self._top), self._px.eq(self._left), self._row.eq(self._first),
                self._pixel.eq(self._first), self._behind.eq(self._behind + self._length),
            ]  # fmt: skip
        with m.Elif(self._row_ends):
            m.d.sync += [
                self._ky.eq(self._ky + 1), self._kx.eq(0), self._py.eq(self._py + 1),
                self._px.eq(self._left), self._row.eq(below), self._pixel.eq(below),
            ]  # fmt: skip
        with m.Else():
            m.d.sync += [
                self._kx.eq(self._kx + 1), self._px.eq(self._px + 1),
                self._pixel.eq(self._pixel + 1),
            ]  # fmt: skip
