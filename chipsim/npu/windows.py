"""How many cycles the window unit takes for its packets: LOAD.WIN.

The unit is a generator, a chain of F filters and the input buffer behind them. This is what its
hardware does, cycle by cycle; `cycles_of_windows` says the same as a recurrence, and a twin in the
tests steps through it.

Items. The generator makes one list of items of all packets of the instruction: of each packet the
header, then for each group `length` words, from `start` on, of four banks each. The header of a
packet follows the last word of the one before.

Chain. The generator and each filter but the last hold an item for the filter behind them in a
register. In a cycle in which no cache is full (holds CACHE items) the whole chain moves on: each
filter takes the item that waits for it into its cache, and hands it on to the next one; a header
is rewritten on its way to the next window: (x + sw, y), at the end of a row of `columns` windows
(0, y + sh); windows that begin below the map stay as they are. In a cycle that begins with any
cache full nothing moves. So filter f takes item i in move number i + f of the chain; in the cycle
behind it may use it.

Filter. A filter without work drops the words at the head of its cache, and takes the header
behind them in the same cycle; it keeps it as its window. From the next cycle on it has a command a
cycle, over groups, then kernel rows, then kernel columns; without any if its window begins below
the map. Z, outside of the map, makes four pad values. X, inside, drops all words before the wanted
one in the cycle in which the command is the next; it makes four bytes of the wanted word, one of
each bank, as soon as that is there; the word stays, since the next command may want it. Behind the
last command the filter is without work (E). An item that leaves in a cycle makes room in the next.

Vectors. Four bytes after the other fill a vector of the filter; behind the last command zeros do.
The command that fills it moves it, at the end of its cycle, to the one result register of the
filter; it waits while the vector before is there, but for the cycle in which that leaves. The
input buffer takes one vector a cycle: in cycle t that of filter t mod F, if it has one since
the cycle before or longer. Cycle 0 is that of the first move.

The instruction is at its end when all vectors are written and the chain and all caches are empty.
What is before the first move (HM and FM are read) and behind the last write is the latency of all
loads, `Latency.load`; it is not counted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from chipsim.errors import ChipError

CACHE = 8
"""Items, headers among them, that a filter holds."""
CHANNELS = 4
"""Of a group: banks of a word, and bytes that a command makes."""


class Windows(NamedTuple):
    """What a LOAD.WIN says of a map and its windows, and what the unit has.

    columns : windows in a row; groups : of four channels
    filters : of the unit; lanes : bytes of a vector
    """

    width: int
    height: int
    kh: int
    kw: int
    sh: int
    sw: int
    pad_t: int
    pad_l: int
    columns: int
    groups: int
    filters: int
    lanes: int

    @property
    def bank(self) -> int:
        """Pixels of a word: bytes of a word in one bank."""
        return 2 * self.lanes

    @property
    def vectors(self) -> int:
        """Of a window."""
        return -(-CHANNELS * self.groups * self.kh * self.kw // self.lanes)

    def inside(self, y: int) -> bool:
        """Whether a window begins above the last row of the map; others are dropped."""
        return y < self.height + self.pad_t

    def behind(self, x: int, y: int) -> tuple[int, int]:
        """The window behind one, in padded coordinates; one that begins below the map stays."""
        if not self.inside(y):
            return x, y
        if x + self.sw < self.columns * self.sw:
            return x + self.sw, y
        return 0, y + self.sh

    def words(self, x: int, y: int) -> Iterator[int]:
        """The word of a plane that each place of a window's kernel wants, row by row; -1 outside
        of the map."""
        for ky in range(self.kh):
            for kx in range(self.kw):
                py, px = y + ky - self.pad_t, x + kx - self.pad_l
                in_map = 0 <= py < self.height and 0 <= px < self.width
                yield (py * self.width + px) // self.bank if in_map else -1


class Header(NamedTuple):
    """Of a packet. start, length : words of a plane; x, y : its first window, in padded
    coordinates"""

    start: int
    length: int
    x: int
    y: int

    @classmethod
    def of(cls, bits: int) -> Header:
        """15:0 start, 31:16 length, 47:32 x, 63:48 y."""
        return cls(*(bits >> low & 0xFFFF for low in (0, 16, 32, 48)))

    @property
    def bits(self) -> int:
        return self.start | self.length << 16 | self.x << 32 | self.y << 48


class _Filter:
    """A filter of the chain, as far as items have come to it.

    left : the cycle in which each item leaves its cache
    free : the first cycle in which its next command can be, or it is without work
    """

    def __init__(self, number: int, unit: Windows) -> None:
        self.number, self.unit = number, unit
        self.left: list[int] = []
        self.free = 0
        self.wanted: list[int] = []  # words of the commands that are left, backwards; -1: none
        self.word = 0  # of the packet, that comes next
        self.made = 0  # commands since the last vector
        self.written = -1  # cycle of the last vector

    def take_header(self, header: Header, there: int) -> None:
        """there : the first cycle in which the filter can use it"""
        self._require_done()
        taken = max(self.free, there)
        self.left.append(taken)
        self.free = taken + 1
        x, y = header.x, header.y
        for _ in range(self.number):
            x, y = self.unit.behind(x, y)
        self.word, self.wanted = 0, []
        if self.unit.inside(y):
            plane = list(self.unit.words(x, y))
            places = [
                -1 if word < 0 else _place(word, header) + group * header.length
                for group in range(self.unit.groups)
                for word in plane
            ]
            self.wanted = places[::-1]
        while self.wanted and self.wanted[-1] < 0:
            self._command(self.free)

    def take_word(self, there: int) -> None:
        """The next word of the packet: all commands that want it, and those without a word behind
        them."""
        if self.wanted and self.wanted[-1] == self.word:
            self._command(max(self.free, there))
            while self.wanted and self.wanted[-1] in (-1, self.word):
                self._command(self.free)
        self.left.append(max(self.free, there))
        self.word += 1

    def _command(self, cycle: int) -> None:
        """Make four bytes, from a cycle on; with the last ones of a vector when that has a place,
        and then it is written when it is the filter's turn."""
        self.wanted.pop()
        self.made += 1
        if self.made * CHANNELS == self.unit.lanes or not self.wanted:
            cycle = max(cycle, self.written)
            turns = self.unit.filters
            self.written = cycle + 1 + (self.number - cycle - 1) % turns
            self.made = 0
        self.free = cycle + 1

    def _require_done(self) -> None:
        if self.wanted:
            raise ChipError("LOAD.WIN: a header covers less than the pixels of its windows")

    @property
    def end(self) -> int:
        """The cycle of the last thing that it did."""
        self._require_done()
        return max(self.free - 1, self.written, *self.left[-1:])


def _place(word: int, header: Header) -> int:
    """Which word of its group it is; raises `ChipError` if the packet does not bring it."""
    if not header.start <= word < header.start + header.length:
        raise ChipError("LOAD.WIN: a header covers less than the pixels of its windows")
    return word - header.start


@lru_cache(maxsize=4096)
def cycles_of_windows(unit: Windows, headers: tuple[int, ...]) -> int:
    """Cycles of the packets, one after the other, without the latency of loads.

    With a(k) the cycle of move k, i the items, and left(f, i) the cycle in which item i leaves the
    cache of filter f:

        a(0) = 0
        a(k) = max(a(k-1) + 1, left(f, n - CACHE) + 1 of all f that took n >= CACHE items before k)
        item i can be used by filter f from cycle a(i + f) + 1 on

    and of each filter, one after the other:

        a header is taken, and leaves, when it can be used and the last command before is over
        a command is made in the cycle behind the one before, or behind the header; X not before
            its word can be used; one that fills a vector not before the cycle in which the vector
            before is written
        a vector is written in the first cycle t behind its command with t mod F = f
        a word leaves when it can be used, and the first command that wants a later word, or the
            end of the commands, is reached

    Raises `ChipError` if a packet does not bring what its windows want, or vectors are no whole
    number of groups.
    """
    if unit.lanes % CHANNELS:
        raise ChipError(f"LOAD.WIN: vectors of {unit.lanes} bytes; the window unit needs fours")
    items = [
        (header, word)
        for header in map(Header.of, headers)
        for word in range(-1, header.length * unit.groups)
    ]
    filters = [_Filter(number, unit) for number in range(unit.filters)]
    if not items or not filters:
        return 0
    move = -1
    for number in range(len(items) + unit.filters - 1):
        full = (one.left[-CACHE] for one in filters if len(one.left) >= CACHE)
        move = max([move, *full]) + 1
        for one in filters:
            if 0 <= number - one.number < len(items):
                header, word = items[number - one.number]
                if word < 0:
                    one.take_header(header, move + 1)
                else:
                    one.take_word(move + 1)
    return 1 + max([move, *(one.end for one in filters)])


def windows_of(fields: Mapping[str, int], filters: int, lanes: int) -> Windows:
    """What the fields of a LOAD.WIN say, by name."""
    names = Windows._fields[: Windows._fields.index("filters")]
    return Windows(**{name: fields[name] for name in names}, filters=filters, lanes=lanes)
