"""A bench that runs test programs on an NPU core in Amaranth, acting as its mesh and host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from hw.errors import HwError
from hw.npu.core_run import Begin, CoreSimulator, Credit, Ints, Link
from hw.npu.isa.encoding import encode, encode_micro_op
from hw.npu.isa.table import Instruction, MicroOp
from hw.npu.memories.memories import Contents, NpuMemories
from tests.hw.npu.programs import unit_of

MOST_CYCLES = 200_000


class Observed(NamedTuple):
    """Observations of a run.

    start, end : for each instruction, counted as in the cycle simulator
    cycles : cycles of the frame
    memories, host, credits : as in `hw.npu.core_run.CoreRun`
    """

    start: list[int]
    end: list[int]
    cycles: int
    memories: dict[str, Ints]
    host: list[tuple[int, list[int]]]
    credits: list[Credit]


class CoreBench:
    """One core for many programs."""

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.simulator = shape, CoreSimulator(shape)

    def run(
        self, instructions: Sequence[Instruction], table: Mapping[str, Any], odd: bool = False,
        link: Link = Link(),  # noqa: B008
        counted: Sequence[int] = (), most: int = MOST_CYCLES,
    ) -> Observed:  # fmt: skip
        """Run one frame of instructions with tokens, ending with END.

        counted : initial stream counts
        most : maximum number of cycles; raises `AssertionError` beyond
        """
        words = contents_of(self.shape, instructions, table).words()
        try:
            found = self.simulator.run(words, most, Begin(0, odd, counted), link)
        except HwError as error:
            raise AssertionError(str(error)) from error
        units = [unit_of(each) for each in instructions]
        assert len(units) == sum(map(len, found.started)) == sum(map(len, found.ended))
        start, end = (_in_order(times, units) for times in (found.started, found.ended))
        return Observed(start, end, max(end), found.lanes, found.host, found.credits)


def _in_order(times: list[list[int]], units: list[int]) -> list[int]:
    """Return the times by instruction, from the times by unit."""
    rest: list[Iterator[int]] = [iter(each) for each in times]
    return [next(rest[unit]) for unit in units]


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
