"""A bench that runs frames on an NPU core in Amaranth, and looks into its memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.sim import Simulator
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.core import NpuCore
from hw.npu.isa import UNITS, Instruction, MicroOp, encode, encode_micro_op
from hw.npu.memories import Contents, NpuMemories
from tests.hw.npu.programs import unit_of

MOST_CYCLES = 200_000
Ints = NDArray[np.int64]


@dataclass
class Observed:
    """start, end : of each instruction, as the cycle simulator counts; cycles : of the frame
    memories : signed numbers, shape (words, lanes), by name"""

    start: list[int]
    end: list[int]
    cycles: int
    memories: dict[str, Ints]


class CoreBench:
    """One core that is elaborated once; what it holds is set before every frame."""

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.core = shape, NpuCore(shape)
        self.simulator = Simulator(self.core)
        self.simulator.add_clock(1e-6)
        self.simulator.add_testbench(self._bench)
        self.ran = False

    def run(
        self, instructions: Sequence[Instruction], table: Mapping[str, Any], odd: bool = False
    ) -> Observed:
        """One frame; instructions with their tokens, END the last one."""
        self.contents = contents_of(self.shape, instructions, table)
        self.odd = odd
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
        return Observed(start, end, max(end), self.memories)

    async def _bench(self, ctx: Any) -> None:
        ports: Any = self.core
        for memory, rows in _pairs(self.core.memories, self.contents):
            for at, value in enumerate(rows):
                ctx.set(memory[at], value)
        ctx.set(ports.odd, self.odd)
        ctx.set(ports.start, 1)
        await ctx.tick()
        ctx.set(ports.start, 0)
        cycle = 0
        while ctx.get(ports.busy):
            assert cycle < MOST_CYCLES, f"at work after {cycle} cycles: {self.started}"
            begins, ends = ctx.get(ports.started), ctx.get(ports.ended)
            for unit in range(len(UNITS)):
                if begins >> unit & 1:
                    self.started[unit].append(cycle)
                if ends >> unit & 1:
                    self.ended[unit].append(cycle + 1)
            await ctx.tick()
            cycle += 1
        self.memories = _memories(ctx, self.core)


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

    def whole(memory: Any, count: int, bits: int) -> Ints:
        words = [ctx.get(memory[at]) for at in range(memory.depth)]
        return np.array([_lanes(word, count, bits) for word in words])

    banks = np.stack([whole(bank, 2 * shape.columns, 8) for bank in memories.fm])
    return {
        "FM": banks.transpose(1, 0, 2).reshape(-1, shape.columns),
        "INP": whole(memories.inp, shape.columns, lane),
        "ACC": whole(memories.acc, shape.rows, shape.accumulator_bits),
        "OUT": whole(memories.out, shape.rows, lane),
    }


def _lanes(word: int, count: int, bits: int) -> list[int]:
    """Signed numbers."""
    found = [word >> bits * number & ((1 << bits) - 1) for number in range(count)]
    return [value - (value >> (bits - 1) << bits) for value in found]
