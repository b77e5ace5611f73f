# amaranth: UnusedElaboratable=no
# (a core that raises an error is never elaborated)
"""Run one core in Amaranth's simulator, without a mesh, from given memory contents.

    simulator = CoreSimulator(shape)
    run = simulator.run(NpuMemories(shape, contents).words(), most=10_000)

`hw.npu.run` runs chips with several cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any, NamedTuple

import numpy as np
from amaranth.hdl import Cat
from amaranth.sim import Simulator
from numpy.typing import NDArray

from hw.errors import HwError
from hw.npu.core import NpuCore
from hw.npu.flit import SIDE_BITS, Kind, Loaded
from hw.npu.isa.table import UNITS
from hw.npu.shape import PARAMETER_LANES, NpuShape, Widths
from hw.npu.store.sending import SOURCES

Ints = NDArray[np.int64]
Words = Mapping[str, Sequence[int]]
"""Memory contents by the names of `NpuMemories.by_name`, from the first word on."""
Advance = Callable[[int], None]
"""Callback with the number of completed cycles."""
STEP = 256
"""Cycles between two calls of `Advance`."""


class Link(NamedTuple):
    """Connection to the host.

    latency, flits : timing of its answers, as in `chipsim.npu.arrivals.HostLink`
    waits : share of cycles in which a flit of the core is not accepted
    weights : weights of the host, int8, shape (words, rows, columns)
    """

    latency: int = 32
    flits: Fraction = Fraction(1)
    waits: float = 0.0
    weights: NDArray[np.int8] | None = None


class Begin(NamedTuple):
    """Start of a frame.

    first : number of its first instruction
    odd : True for an odd frame
    counted : initial stream counts
    """

    first: int = 0
    odd: bool = False
    counted: Sequence[int] = ()


class Credit(NamedTuple):
    """Credit that SEND gives the host, at the port of a node."""

    x: int
    y: int
    stream: int
    count: int  # type: ignore[assignment]  # named as in the instruction


class CoreRun(NamedTuple):
    """Result of a run.

    started, ended : by unit, cycles of starts, and cycles after ends, counted as in the cycle
        simulator
    words : words of all memories after the frame, by name
    lanes : signed lanes of all memories but the instructions, shape (words, lanes), by the names of
        the instruction set; also stream counts, and tokens of each pair of units, shape (counters,)
    host : addresses and vectors sent to the host, in order
    credits : credits sent to the host
    """

    started: list[list[int]]
    ended: list[list[int]]
    words: dict[str, list[int]]
    lanes: dict[str, Ints]
    host: list[tuple[int, list[int]]]
    credits: list[Credit]


class CoreSimulator:
    """A core that is elaborated once; its memories are set before every frame."""

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.core = shape, NpuCore(shape)
        self._simulator = Simulator(self.core)
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._bench)
        self._job: _Job | None = None

    def run(
        self, words: Words, most: int, begin: Begin = Begin(),  # noqa: B008
        link: Link = Link(),  # noqa: B008
        advance: Advance | None = None,
    ) -> CoreRun:  # fmt: skip
        """Run one frame.

        most : maximum number of cycles

        Raises `HwError` if the frame takes longer, or requests weights that the host does not have.
        """
        if self._job is not None:
            self._simulator.reset()
        job = self._job = _Job(self.core, words, begin, most, link, advance)
        self._simulator.run()
        return job.found()

    async def _bench(self, ctx: Any) -> None:
        assert self._job is not None
        await self._job.run(ctx)


class _Job:
    """One frame."""

    def __init__(
        self, core: NpuCore, words: Words, begin: Begin, most: int, link: Link,
        advance: Advance | None,
    ) -> None:  # fmt: skip
        self.core, self.shape, self.begin, self.most = core, core.shape, begin, most
        self.before, self.link, self.advance = words, link, advance
        self.random = Random(most)
        self.sent: list[Any] = []
        self.answers: list[tuple[int, int]] = []  # cycle and part
        self.free, self.comes = 0, False
        self.started: list[list[int]] = [[] for _ in UNITS]
        self.ended: list[list[int]] = [[] for _ in UNITS]
        self.words: dict[str, list[int]] = {}
        self.left: dict[str, list[int]] = {}

    async def run(self, ctx: Any) -> None:
        ports: Any = self.core
        memories = self.core.memories.by_name()
        for name, words in self.before.items():
            for at, word in enumerate(words):
                if word:  # memories are 0 after reset
                    ctx.set(memories[name][at], word)
        await self._count(ctx)
        ctx.set(ports.odd, self.begin.odd)
        ctx.set(ports.first, self.begin.first)
        ctx.set(ports.start, 1)
        await ctx.tick()
        ctx.set(ports.start, 0)
        cycle, everything = 0, (1 << SOURCES) - 1
        ready = Cat(source.ready for source in ports.sources)
        valid = Cat(source.valid for source in ports.sources)
        seen = Cat(ports.busy, ports.started, ports.ended, valid)
        ctx.set(ready, everything)
        busy = 1
        while busy or self.answers:
            if busy and cycle > self.most:
                counts = ", ".join(
                    f"{unit} {len(ended):,} of {len(started):,}"
                    for unit, started, ended in zip(UNITS, self.started, self.ended, strict=True)
                )
                raise HwError(
                    f"core: still busy after {self.most:,} cycles; completed instructions: {counts}"
                )
            takes = everything
            if self.link.waits:
                takes = sum((self.random.random() > self.link.waits) << n for n in range(SOURCES))
                ctx.set(ready, takes)
            self._answer(ctx, ports.flit, cycle if busy else None)
            found = ctx.get(seen)
            busy, begins, ends, offers = (
                found & 1, found >> 1 & 15, found >> 5 & 15, found >> 9
            )  # fmt: skip
            for unit in range(len(UNITS)):
                if begins >> unit & 1:
                    self.started[unit].append(cycle)
                if ends >> unit & 1:
                    self.ended[unit].append(cycle + 1)
            for number in range(SOURCES):
                if offers & takes & 1 << number:
                    self._take(ctx.get(ports.sources[number].payload), cycle)
            busy |= bool(offers)
            await ctx.tick()
            cycle += 1
            if self.advance is not None and cycle % STEP == 0:
                self.advance(cycle)
        for name, memory in memories.items():
            self.words[name] = [ctx.get(memory[at]) for at in range(memory.depth)]
        control = self.core.control
        self.left = {
            "streams": [ctx.get(each) for each in control.counted],
            "tokens": [ctx.get(each) for row in control.tokens for each in row],
        }

    async def _count(self, ctx: Any) -> None:
        """Send tokens before the frame."""
        port: Any = self.core.flit
        for stream, count in enumerate(self.begin.counted):
            if count:
                ctx.set(port.valid, 1)
                ctx.set(port.payload.kind, Kind.TOKEN)
                ctx.set(port.payload.stream, stream)
                ctx.set(port.payload.data, count)
                await ctx.tick()
        ctx.set(port.valid, 0)

    def _take(self, flit: Any, cycle: int) -> None:
        self.sent.append(flit)
        if flit.kind != Kind.REQUEST or flit.address == 0:
            return
        host, weights = flit.data >> 16, self.link.weights
        if weights is None or host + flit.address > len(weights):
            raise HwError(
                f"core: requests weight words {host} to {host + flit.address - 1}; the host has "
                f"{0 if weights is None else len(weights)}"
            )
        data = weights[host : host + flit.address].tobytes()
        size = min(self.shape.payload_bits // 8, self.shape.columns)
        parts = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
        # A request leaves in the cycle after its start; each direction adds one register.
        begin = max(cycle - 1 + self.link.latency, self.free)
        self.free = begin + ceil(len(parts) / self.link.flits)
        self.answers += [
            (begin + 1 + ceil((number + 1) / self.link.flits), part)
            for number, part in enumerate(parts)
        ]

    def _answer(self, ctx: Any, port: Any, cycle: int | None) -> None:
        """cycle : None after the end of the frame, when remaining parts are sent immediately"""
        comes = bool(self.answers) and (cycle is None or self.answers[0][0] <= cycle)
        if comes != self.comes:
            ctx.set(port.valid, comes)
        self.comes = comes
        if comes:
            _, part = self.answers.pop(0)
            ctx.set(port.payload.kind, Kind.WEIGHTS)
            ctx.set(port.payload.data, part)

    def found(self) -> CoreRun:
        shape, size, words = self.shape, Widths(self.shape), self.words
        rows = shape.rows if shape.weight_port == "word" else 1  # rows per memory word
        banks = [name for name in words if name.startswith("fm")]
        maps = np.stack([_lanes_of_all(words[one], 2 * shape.columns, 8) for one in banks])
        weights = _lanes_of_all(words["wm"], rows * shape.columns, 8)
        lanes = {
            "FM": maps.transpose(1, 0, 2).reshape(-1, shape.columns),
            "INP": _lanes_of_all(words["inp"], shape.columns, size.lane),
            "ACC": _lanes_of_all(words["acc"], shape.rows, size.acc),
            "OUT": _lanes_of_all(words["out"], shape.rows, size.lane),
            "WM": weights.reshape(-1, shape.columns),
            "PM": _lanes_of_all(words["pm"], PARAMETER_LANES, 32),
            "UM": _lanes_of_all(words["um"], 2, 32),
            "HM": _lanes_of_all(words["hm"], 2, 32),
            **{name: np.array(counts) for name, counts in self.left.items()},
        }
        return CoreRun(self.started, self.ended, words, lanes, self._host(), self._credits())

    def _credits(self) -> list[Credit]:
        """Return the requests without words."""
        return [
            Credit(flit.x, flit.y, flit.stream, flit.data >> 2 * SIDE_BITS)
            for flit in self.sent
            if flit.kind == Kind.REQUEST and flit.address == 0
        ]

    def _host(self) -> list[tuple[int, list[int]]]:
        """Return the vectors assembled from their parts."""
        parts = self.core.layout.parts[Loaded.FM]
        mine = [flit for flit in self.sent if flit.kind == Kind.TO_HOST]
        found = []
        for first in range(0, len(mine), parts):
            group = mine[first : first + parts]
            if [each.address for each in group] != [group[0].address + n for n in range(parts)]:
                raise HwError("core: parts of a vector for the host are not contiguous")
            whole = sum(each.data << self.shape.payload_bits * n for n, each in enumerate(group))
            found.append((group[0].address // parts, lanes_of(whole, self.shape.columns, 8)))
        return found


def _lanes_of_all(words: Sequence[int], count: int, bits: int) -> Ints:
    return np.array([lanes_of(word, count, bits) for word in words])


def lanes_of(word: int, count: int, bits: int) -> list[int]:
    """Return the lanes of a word as signed numbers."""
    found = [word >> bits * number & ((1 << bits) - 1) for number in range(count)]
    return [value - (value >> (bits - 1) << bits) for value in found]
