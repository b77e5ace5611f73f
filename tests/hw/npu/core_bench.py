"""A bench that runs frames on an NPU core in Amaranth, as its mesh and its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any, NamedTuple

import numpy as np
from amaranth.hdl import Cat
from amaranth.sim import Simulator
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.core import NpuCore
from hw.npu.flit import SIDE_BITS, Kind, Loaded
from hw.npu.isa import UNITS, Instruction, MicroOp, encode, encode_micro_op
from hw.npu.memories import Contents, NpuMemories
from hw.npu.sending import SOURCES
from hw.npu.shape import PARAMETER_LANES
from tests.hw.npu.programs import unit_of

MOST_CYCLES = 200_000
Ints = NDArray[np.int64]


class Link(NamedTuple):
    """How the host is reached.

    latency, flits : of its answers, as `chipsim.npu.arrivals.HostLink` has them
    waits : of cycles, in how many a flit of the core is not taken
    weights : of the host, int8, shape (words, rows, columns)
    """

    latency: int = 32
    flits: Fraction = Fraction(1)
    waits: float = 0.0
    weights: NDArray[np.int8] | None = None


class Credit(NamedTuple):
    """What SEND gives the host, at the port of a node."""

    x: int
    y: int
    stream: int
    count: int


@dataclass
class Observed:
    """start, end : of each instruction, as the cycle simulator counts; cycles : of the frame
    memories : signed numbers, shape (words, lanes), by name; what streams have counted, shape
        (streams,)
    host : addresses and vectors that went to the host, in order; credits : that it was given"""

    start: list[int]
    end: list[int]
    cycles: int
    memories: dict[str, Ints]
    host: list[tuple[int, list[int]]]
    credits: list[Credit]


class CoreBench:
    """One core that is elaborated once; what it holds is set before every frame."""

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.core = shape, NpuCore(shape)
        self.simulator = Simulator(self.core)
        self.simulator.add_clock(1e-6)
        self.simulator.add_testbench(self._bench)
        self.ran = False

    def run(
        self, instructions: Sequence[Instruction], table: Mapping[str, Any], odd: bool = False,
        link: Link = Link(),  # noqa: B008
        counted: Sequence[int] = (), most: int = MOST_CYCLES,
    ) -> Observed:  # fmt: skip
        """One frame; instructions with their tokens, END the last one.

        counted : what streams have counted before; most : cycles until it is given up, with an
            `AssertionError`
        """
        self.counted, self.most = counted, most
        self.contents = contents_of(self.shape, instructions, table)
        self.odd, self.link, self.random = odd, link, Random(len(instructions))
        self.sent: list[Any] = []
        self.answers: list[tuple[int, int]] = []  # cycle and part
        self.free = 0
        self.started: list[list[int]] = [[] for _ in UNITS]
        self.ended: list[list[int]] = [[] for _ in UNITS]
        if self.ran:
            self.simulator.reset()
        self.ran = True
        self.simulator.run()
        start, end, places = [], [], [0] * len(UNITS)
        for each in instructions:
            unit = unit_of(each)
            start.append(self.started[unit][places[unit]])
            end.append(self.ended[unit][places[unit]])
            places[unit] += 1
        assert places == [len(each) for each in self.started]
        return Observed(start, end, max(end), self.memories, self._host(), self._credits())

    async def _bench(self, ctx: Any) -> None:
        ports: Any = self.core
        for memory, rows in _pairs(self.core.memories, self.contents):
            for at, value in enumerate(rows):
                ctx.set(memory[at], value)
        await self._count(ctx)
        ctx.set(ports.odd, self.odd)
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
            assert cycle < self.most or not busy, f"at work after {cycle} cycles: {self.started}"
            takes = everything
            if self.link.waits:
                takes = sum((self.random.random() > self.link.waits) << n for n in range(SOURCES))
                ctx.set(ready, takes)
            self._answer(ctx, ports.flit, cycle if busy else MOST_CYCLES)  # the rest at once
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
        self.memories = _memories(ctx, self.core)

    async def _count(self, ctx: Any) -> None:
        """Tokens come before the frame."""
        port: Any = self.core.flit
        for stream, count in enumerate(self.counted):
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
        assert weights is not None
        words = weights[host : host + flit.address]
        assert len(words) == flit.address
        data, size = words.tobytes(), min(self.shape.payload_bits // 8, self.shape.columns)
        parts = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
        # A request goes out in the cycle behind its start; each way takes as long as a register.
        begin = max(cycle - 1 + self.link.latency, self.free)
        self.free = begin + ceil(len(parts) / self.link.flits)
        self.answers += [
            (begin + 1 + ceil((number + 1) / self.link.flits), part)
            for number, part in enumerate(parts)
        ]

    def _answer(self, ctx: Any, port: Any, cycle: int) -> None:
        comes = bool(self.answers) and self.answers[0][0] <= cycle
        ctx.set(port.valid, comes)
        if comes:
            _, part = self.answers.pop(0)
            ctx.set(port.payload.kind, Kind.WEIGHTS)
            ctx.set(port.payload.data, part)

    def _credits(self) -> list[Credit]:
        """Requests without words."""
        return [
            Credit(flit.x, flit.y, flit.stream, flit.data >> 2 * SIDE_BITS)
            for flit in self.sent
            if flit.kind == Kind.REQUEST and flit.address == 0
        ]

    def _host(self) -> list[tuple[int, list[int]]]:
        """Vectors from their parts."""
        parts = self.core.layout.parts[Loaded.FM]
        mine = [flit for flit in self.sent if flit.kind == Kind.TO_HOST]
        found = []
        for first in range(0, len(mine), parts):
            group = mine[first : first + parts]
            assert [each.address for each in group] == [
                group[0].address + n for n in range(parts)
            ], "parts of a vector follow each other"
            whole = sum(each.data << self.shape.payload_bits * n for n, each in enumerate(group))
            found.append((group[0].address // parts, lanes_of(whole, self.shape.columns, 8)))
        return found


def contents_of(
    shape: NpuShape, instructions: Sequence[Instruction], table: Mapping[str, Any]
) -> NpuMemories:
    contents = Contents(
        [int.from_bytes(encode(each), "little") for each in instructions],
        [
            int.from_bytes(encode_micro_op(MicroOp(*row)), "little")
            for row in table["micro_ops"].tolist()
        ],
        [int(each) for each in table["headers"]],
        table["parameters"],
        table["weights"],
        table["maps"],
    )
    return NpuMemories(shape, contents)


def _pairs(here: NpuMemories, there: NpuMemories) -> list[tuple[Any, list[int]]]:
    """The memories of a core, and the words that others hold at first."""
    names = ("wm", "pm", "um", "im", "hm")
    found = [(getattr(here, name), list(getattr(there, name).init)) for name in names]
    return found + [(bank, list(other.init)) for bank, other in zip(here.fm, there.fm, strict=True)]


def _memories(ctx: Any, core: NpuCore) -> dict[str, Ints]:
    shape, memories = core.shape, core.memories
    lane = 16 if shape.multiplier == "dual" else 8
    rows = shape.rows if shape.weight_port == "word" else 1  # of a word of the memory

    def whole(memory: Any, count: int, bits: int) -> Ints:
        words = [ctx.get(memory[at]) for at in range(memory.depth)]
        return np.array([lanes_of(word, count, bits) for word in words])

    banks = np.stack([whole(bank, 2 * shape.columns, 8) for bank in memories.fm])
    return {
        "FM": banks.transpose(1, 0, 2).reshape(-1, shape.columns),
        "INP": whole(memories.inp, shape.columns, lane),
        "ACC": whole(memories.acc, shape.rows, shape.accumulator_bits),
        "OUT": whole(memories.out, shape.rows, lane),
        "WM": whole(memories.wm, rows * shape.columns, 8).reshape(-1, shape.columns),
        "PM": whole(memories.pm, PARAMETER_LANES, 32),
        "UM": whole(memories.um, 2, 32),
        "HM": whole(memories.hm, 2, 32),
        "streams": np.array([ctx.get(each) for each in core.control.counted]),
    }


def lanes_of(word: int, count: int, bits: int) -> list[int]:
    """Signed numbers."""
    found = [word >> bits * number & ((1 << bits) - 1) for number in range(count)]
    return [value - (value >> (bits - 1) << bits) for value in found]
