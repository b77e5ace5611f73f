"""Cycles of the window unit for its packets: LOAD.WIN.

The unit is a generator, a chain of F filters and the input buffer after them. This text describes
its hardware, cycle by cycle; `cycles_of_windows` computes the same as a recurrence, and a reference
implementation in the tests steps through it.

Items. The generator creates one list of items from all packets of the instruction: for each packet
the header, then for each group `length` words, from `start` on, of four banks each. The header of a
packet follows the last word of the previous one.

Chain. The generator and each filter but the last hold an item for the next filter in a register. In
a cycle in which no cache is full (holds CACHE items) the whole chain advances: each filter moves
the item that waits for it into its cache and passes it on to the next filter. A header is advanced
to the next window on the way: (x + sw, y), at the end of a row of `columns` windows (0, y + sh);
windows that start below the map stay unchanged. In a cycle that starts with any cache full nothing
moves. So filter f receives item i in move number i + f of the chain, and may use it from the
following cycle on.

Filter. An idle filter drops the words at the head of its cache and consumes the following header in
the same cycle as its window. From the next cycle on it has one command per cycle, over groups, then
kernel rows, then kernel columns; no command if its window starts below the map. Z, outside the map,
produces four pad values. X, inside, drops all words before the required one in the cycle in which
the command becomes current; it produces four bytes of the required word, one per bank, as soon as
the word is present; the word stays, since the next command may need it. After the last command the
filter is idle (E). An item that leaves in a cycle frees its place in the next.

Vectors. Four bytes at a time fill a vector of the filter; after the last command zeros do. The
command that fills it moves it, at the end of its cycle, to the one result register of the filter;
it stalls while the previous vector is there, except in the cycle in which that leaves. The input
buffer accepts one vector per cycle: in cycle t from filter t mod F, if the vector has been there
since the previous cycle or longer. Cycle 0 is the cycle of the first move.

The instruction ends when all vectors are written and the chain and all caches are empty. The cycles
before the first move (HM and FM are read) and after the last write are the latency of all loads,
`Latency.load`; they are not counted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from chipsim.errors import ChipError

CACHE = 8
"""Items per filter cache, including headers."""
CHANNELS = 4
"""Channels per group: banks of a word, and bytes per command."""


class WindowFields(NamedTuple):
    """Fields of a LOAD.WIN on a map and its windows, and the size of the unit.

    columns : windows per row
    groups : groups of four channels
    filters : filters of the unit
    lanes : bytes per vector
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
        """Pixels per word: bytes of a word in one bank."""
        return 2 * self.lanes

    @property
    def vectors(self) -> int:
        """Vectors per window."""
        return -(-CHANNELS * self.groups * self.kh * self.kw // self.lanes)

    def inside(self, y: int) -> bool:
        """Return True if a window starts above the last row of the map; others are dropped."""
        return y < self.height + self.pad_t

    def behind(self, x: int, y: int) -> tuple[int, int]:
        """Return the next window, in padded coordinates; one that starts below the map stays."""
        if not self.inside(y):
            return x, y
        if x + self.sw < self.columns * self.sw:
            return x + self.sw, y
        return 0, y + self.sh

    def words(self, x: int, y: int) -> Iterator[int]:
        """Yield the word of a plane for each kernel position, row by row; -1 outside the map."""
        for ky in range(self.kh):
            for kx in range(self.kw):
                py, px = y + ky - self.pad_t, x + kx - self.pad_l
                in_map = 0 <= py < self.height and 0 <= px < self.width
                yield (py * self.width + px) // self.bank if in_map else -1


class PacketHeader(NamedTuple):
    """Header of a packet.

    start, length : words of a plane
    x, y : its first window, in padded coordinates
    """

    start: int
    length: int
    x: int
    y: int

    @classmethod
    def of(cls, bits: int) -> PacketHeader:
        """Decode bits 15:0 start, 31:16 length, 47:32 x, 63:48 y."""
        return cls(*(bits >> low & 0xFFFF for low in (0, 16, 32, 48)))

    @property
    def bits(self) -> int:
        return self.start | self.length << 16 | self.x << 32 | self.y << 48


class _Filter:
    """A filter of the chain, up to the items received so far.

    left : the cycle in which each item leaves its cache
    free : the first cycle of its next command, or in which it is idle
    """

    def __init__(self, number: int, unit: WindowFields) -> None:
        self.number, self.unit = number, unit
        self.left: list[int] = []
        self.free = 0
        self.wanted: list[int] = []  # words of the remaining commands, reversed; -1: none
        self.word = 0  # next word of the packet
        self.made = 0  # commands since the last vector
        self.written = -1  # cycle of the last vector

    def take_header(self, header: PacketHeader, there: int) -> None:
        """Consume a header.

        there : the first cycle in which the filter can use it
        """
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
        """Consume the next word of the packet; run its commands and the following Z commands."""
        if self.wanted and self.wanted[-1] == self.word:
            self._command(max(self.free, there))
            while self.wanted and self.wanted[-1] in (-1, self.word):
                self._command(self.free)
        self.left.append(max(self.free, there))
        self.word += 1

    def _command(self, cycle: int) -> None:
        """Produce four bytes, from a cycle on.

        The command that completes a vector waits for the result register; the vector is written
        when it is the filter's turn.
        """
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
            raise ChipError("LOAD.WIN: a header does not cover the pixels of its windows")

    @property
    def end(self) -> int:
        """The cycle of its last activity."""
        self._require_done()
        return max(self.free - 1, self.written, *self.left[-1:])


def _place(word: int, header: PacketHeader) -> int:
    """Return the index of a word in its group; raises `ChipError` if it is not in the packet."""
    if not header.start <= word < header.start + header.length:
        raise ChipError("LOAD.WIN: a header does not cover the pixels of its windows")
    return word - header.start


@lru_cache(maxsize=4096)
def cycles_of_windows(unit: WindowFields, headers: tuple[int, ...]) -> int:
    """Return the cycles of consecutive packets, without the latency of loads.

    With a(k) the cycle of move k, i the items, and left(f, i) the cycle in which item i leaves the
    cache of filter f:

        a(0) = 0
        a(k) = max(a(k-1) + 1, left(f, n - CACHE) + 1 of all f with n >= CACHE items before move k)
        item i can be used by filter f from cycle a(i + f) + 1 on

    and for each filter, in order:

        a header is consumed, and leaves, when it can be used and the last command before is done
        a command runs in the cycle after the previous one, or after the header; X not before its
        word can be used; one that completes a vector not before the cycle in which the previous
        vector is written
        a vector is written in the first cycle t after its command with t mod F = f
        a word leaves when it can be used, and the first command that needs a later word, or the end
        of the commands, is reached

    Raises `ChipError` if a packet lacks words of its windows, or vectors are not a whole number of
    groups.
    """
    if unit.lanes % CHANNELS:
        raise ChipError(f"LOAD.WIN: vectors of {unit.lanes} bytes; must be a multiple of 4")
    items = [
        (header, word)
        for header in map(PacketHeader.of, headers)
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


def windows_of(fields: Mapping[str, int], filters: int, lanes: int) -> WindowFields:
    """Return the windows described by the fields of a LOAD.WIN, by name."""
    names = WindowFields._fields[: WindowFields._fields.index("filters")]
    return WindowFields(**{name: fields[name] for name in names}, filters=filters, lanes=lanes)
