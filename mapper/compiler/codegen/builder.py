"""The program of a core as it grows, and the tile that is worked on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import UNITS, Instruction
from mapper.compiler.codegen.areas import Entries
from mapper.compiler.codegen.steps import Step, Touch
from mapper.compiler.codegen.tables import Tables
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.schedule.inputs import Span
from mapper.compiler.schedule.tiles import Cut, Tile


@dataclass(slots=True)
class TileWork:
    """A tile on its way through a core.

    cut : of its macro node
    spans : rows and columns of the first input, and of the result of each node
    made : the accumulators that its values are in
    free : the first accumulator behind all that are in use
    """

    tile: Tile
    cut: Cut
    spans: list[tuple[Span, Span]]
    made: Entries
    free: int


Dual = Literal["off", "pixels", "kernels", "auto"]
DUAL: tuple[Dual, ...] = ("auto", "pixels", "kernels", "off")
"""Ways to pair products, the fastest first."""

Schedule = Literal["search", "rows", "plane8", "plane16"]


@dataclass(frozen=True, slots=True)
class Choices:
    """How programs do their work; none of it changes a result.

    bias : what sums begin with, or added to them by the ALU
    dual : which pairs of products of bytes dual cores make at once; auto takes the fewest cycles
    schedule : how layers are cut into tiles, by search or by a fixed rule
    first_tile : columns and rows of the tiles of the first layer, if they are given
    """

    bias: Literal["init", "alu"] = "init"
    dual: Dual = "auto"
    schedule: Schedule = "search"
    first_tile: tuple[int, int] | None = None


DEFAULT = Choices()


class ProgramBuilder:
    """Collects the steps of a core, and fills its small memories.

    regions : where stored maps lie
    macro, number, tile : the macro node and the tile of the program that steps are made for
    """

    def __init__(
        self, shape: NpuShape, regions: dict[Tensor, Region], options: Choices = DEFAULT
    ) -> None:
        self.shape = shape
        self.options = options
        self.regions = regions
        self.tables = Tables(shape)
        self.steps: list[Step] = []
        self.macro = Macro([])
        self.number = self.tile = -1
        self._distances: dict[str, dict[str, int]] = {}  # that units have been told last
        self._half_inputs = self._half_entries = 0  # of the buffers that come next

    def step(
        self, unit: str, instruction: Instruction, reads: list[Touch], writes: list[Touch]
    ) -> None:
        """Add an instruction of a unit."""
        self.steps.append(Step(unit, instruction, self.number, reads, writes, self.tile))

    def set_distance(self, unit: str, **distances: int) -> None:
        """Let a unit pack, or write, pairs so far apart; unless it does so already."""
        if distances != self._distances.get(unit, dict.fromkeys(distances, 0)):
            self._distances[unit] = distances
            fields = {"queue": UNITS.index(unit), **distances}
            self.step(unit, Instruction("CTRL", "DIST", fields=fields), [], [])

    def next_inputs(self) -> int:
        """The first vector of the half of the input buffer that comes next."""
        base = self._half_inputs * (self.shape.input_vectors // 2)
        self._half_inputs ^= 1
        return base

    def next_entries(self) -> int:
        """The first entry of the half of the accumulators that comes next."""
        base = self._half_entries * (self.shape.entries // 2)
        self._half_entries ^= 1
        return base
