"""Reference implementation of the window unit, stepped cycle by cycle.

It consists of a generator, a chain of filters with caches, and the input buffer. It shares no code
with `chipsim.npu`; the docstring of `chipsim.npu.windows` has the rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CACHE = 8
GROUP = 4


@dataclass
class Header:
    start: int
    length: int
    x: int
    y: int


@dataclass
class Word:
    """Bytes of four banks."""

    banks: list[list[int]]


Item = Header | Word


@dataclass
class Filter:
    cache: deque[Item] = field(default_factory=deque)
    header: Header | None = None
    commands: deque[tuple[int, int]] = field(default_factory=deque)  # word and byte; -1: Z
    dropped: int = 0  # words of the packet
    bytes: list[int] = field(default_factory=list)
    result: list[int] | None = None
    vector: int = 0  # number of the next vector of the window
    packet: int = -1
    targets: deque[int] = field(default_factory=deque)  # vectors of the results, in order


def map_words(planes: np.ndarray[Any, Any], lanes: int) -> list[list[list[int]]]:
    """Return T-mode words of planes, shape (channels, pixels): four banks, group by group."""
    channels, pixels = planes.shape
    bank = 2 * lanes
    groups, words = -(-channels // GROUP), -(-pixels // bank)
    whole = np.zeros((groups * GROUP, words * bank), int)
    whole[:channels, :pixels] = planes
    return [
        [whole[GROUP * g + b, w * bank : (w + 1) * bank].tolist() for b in range(GROUP)]
        for g in range(groups)
        for w in range(words)
    ]


class Unit:
    """f : fields of LOAD.WIN; memory : words from the first one of the map on"""

    def __init__(
        self, f: Mapping[str, int], filters: int, lanes: int, memory: Sequence[list[list[int]]]
    ) -> None:
        self.f, self.lanes, self.memory = f, lanes, memory
        self.bank = 2 * lanes
        self.filters = [Filter() for _ in range(filters)]
        self.registers: list[Item | None] = [None] * (filters + 1)
        self.inputs: dict[int, list[int]] = {}
        self.stops = 0  # cycles in which a full cache stalled the chain
        self.vectors = -(-GROUP * f["groups"] * f["kh"] * f["kw"] // lanes)

    def run(self, headers: Sequence[int]) -> int:
        """Process all packets; return the cycles."""
        f = self.f
        items = self.generate(headers)
        self.registers[0] = next(items, None)
        cycle = 0
        while not self.idle():
            stopped = any(len(one.cache) == CACHE for one in self.filters)
            self.stops += stopped
            turn = self.filters[cycle % len(self.filters)]
            if turn.result is not None:
                self.inputs[turn.targets.popleft()] = turn.result
                turn.result = None
            for number, one in enumerate(self.filters):
                self.work(number, one)
            if not stopped:
                moved: list[Item | None] = [next(items, None)]
                for one, item in zip(self.filters, self.registers, strict=False):
                    if item is not None:
                        one.cache.append(item)
                    moved.append(self.next_of(item) if isinstance(item, Header) else item)
                self.registers = moved
                self.registers[-1] = None
            cycle += 1
            assert cycle < 1_000_000, f
        return cycle

    def idle(self) -> bool:
        busy = any(one.cache or one.commands or one.result is not None for one in self.filters)
        return not busy and all(item is None for item in self.registers)

    def generate(self, headers: Sequence[int]) -> Iterator[Item]:
        words = -(-self.f["width"] * self.f["height"] // self.bank)
        for bits in headers:
            header = Header(*(bits >> low & 0xFFFF for low in (0, 16, 32, 48)))
            yield header
            for group in range(self.f["groups"]):
                for word in range(header.start, header.start + header.length):
                    yield Word(self.memory[group * words + word])

    def below(self, header: Header) -> bool:
        return header.y >= self.f["height"] + self.f["pad_t"]

    def next_of(self, header: Header) -> Header:
        """Return the header for the next filter."""
        x, y = header.x, header.y
        if not self.below(header):
            x += self.f["sw"]
            if x == self.f["columns"] * self.f["sw"]:
                x, y = 0, y + self.f["sh"]
        return Header(header.start, header.length, x, y)

    def window(self, header: Header) -> Iterator[tuple[int, int]]:
        f = self.f
        for group in range(f["groups"]):
            for ky in range(f["kh"]):
                for kx in range(f["kw"]):
                    y, x = header.y + ky - f["pad_t"], header.x + kx - f["pad_l"]
                    if 0 <= y < f["height"] and 0 <= x < f["width"]:
                        pixel = y * f["width"] + x
                        place = pixel // self.bank - header.start
                        assert 0 <= place < header.length
                        yield group * header.length + place, pixel % self.bank
                    else:
                        yield -1, 0

    def work(self, number: int, one: Filter) -> None:
        """Run a cycle of a filter, with the content of its cache at the start."""
        if not one.commands:
            while one.cache and isinstance(one.cache[0], Word):
                one.cache.popleft()
            if one.cache:
                header = one.cache.popleft()
                assert isinstance(header, Header)
                one.header, one.dropped, one.vector = header, 0, 0
                one.packet += 1
                if not self.below(header):
                    one.commands = deque(self.window(header))
            return
        wanted, byte = one.commands[0]
        made = [self.f["value"]] * GROUP
        if wanted >= 0:
            while one.dropped < wanted and one.cache:
                one.cache.popleft()
                one.dropped += 1
            if one.dropped < wanted or not one.cache:
                return
            word = one.cache[0]
            assert isinstance(word, Word)
            made = [bank[byte] for bank in word.banks]
        last = len(one.commands) == 1
        fills = last or len(one.bytes) + GROUP == self.lanes
        if fills and one.result is not None:
            return
        one.commands.popleft()
        one.bytes += made
        if fills:
            one.result = one.bytes + [0] * (self.lanes - len(one.bytes))
            one.bytes = []
            window = one.packet * len(self.filters) + number
            one.targets.append(self.f["dst"] + window * self.vectors + one.vector)
            one.vector += 1
