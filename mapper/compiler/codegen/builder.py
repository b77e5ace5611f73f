"""Builder of a core's program, and the state of the current tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.table import MICRO_OP_BYTES, UNITS, Instruction, MicroOp
from mapper.compiler.codegen.areas import Entries
from mapper.compiler.codegen.streams import Streams
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region, memory_use, pixel_vectors
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Target
from mapper.compiler.program.steps import SentVectors, Step, Touch, control, most_of, unit_of
from mapper.compiler.program.tables import (
    MICRO_OPS,
    PARAMETER_BYTES,
    PARAMETERS,
    ReloadArea,
    Reloaded,
    Tables,
)
from mapper.compiler.settings import Dual, Schedule
from mapper.compiler.tiling.tiles import Cut, Tile


@dataclass(slots=True)
class TileWork:
    """State of a tile during code generation.

    cut : tiling of its macro node
    spans : rows and columns of the first input, and of the result of each node
    made : accumulators that hold its values
    free : first unused accumulator
    """

    tile: Tile
    cut: Cut
    spans: list[tuple[Span, Span]]
    made: Entries
    free: int


DUAL: tuple[Dual, ...] = ("auto", "pixels", "kernels", "off")
"""Ways to pair products, fastest first."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Code generation options; none of them changes a result.

    bias : "init" starts sums with the bias, "alu" adds it afterwards
    dual : which pairs of byte products dual cores compute at once; auto takes the fewest cycles
    schedule : how layers are cut into tiles, by search or by a fixed rule
    first_tile : columns and rows of the tiles of the first layer, None to choose them
    lag : weight of early rows in the search, see `Limits`
    """

    bias: Literal["init", "alu"] = "init"
    dual: Dual = "auto"
    schedule: Schedule = "search"
    first_tile: tuple[int, int] | None = None
    lag: float = 0.0


DEFAULT = Choices()


class WeightPlan(NamedTuple):
    """dynamic : indices of the macro nodes whose weights come from the host
    static : weight words of the other macro nodes
    """

    dynamic: frozenset[int]
    static: int


class MemoryPlan(NamedTuple):
    """weights : which weights come from the host
    reloaded : names of the small memories that are reloaded while the program runs
    stop : end of the feature maps, in vectors; None to derive it from the regions
    host_first : first free word in the host's memory
    targets : destinations of results that are not simply stored in their regions
    """

    weights: WeightPlan
    reloaded: frozenset[str] = frozenset()
    stop: int | None = None
    host_first: int = 0
    targets: Mapping[Tensor, tuple[Target, ...]] = MappingProxyType({})


ALL_AT_ONCE = MemoryPlan(WeightPlan(frozenset(), 0))
TABLES = {MICRO_OPS: (0, "UM"), PARAMETERS: (1, "PM")}
"""Numbers of the memories in LOAD.TABLE, and their short names."""
END = Instruction("CTRL", "END", fields={"drain": 1})
BASES = {"LOAD": ("src", 0), "STORE": ("dst", 1)}
"""Address fields in the feature memory, and the space of their base, by op."""


class BuilderState(NamedTuple):
    """Buffer halves to use next, and the distances that the units are set to."""

    inputs: int = 0
    entries: int = 0
    distances: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()


class ProgramBuilder:
    """Collects the steps of a core and fills its small memories.

    regions : memory regions of stored feature maps
    memory : contents that are not in the core from the start
    macro, number, tile : macro node, its index, and tile index that new steps belong to
    """

    def __init__(
        self, shape: NpuShape, regions: dict[Tensor, Region], options: Choices = DEFAULT,
        memory: MemoryPlan = ALL_AT_ONCE,
    ) -> None:  # fmt: skip
        self.shape = shape
        self.options = options
        self.regions = regions
        self.tables = Tables(shape)
        self.memory = memory
        self.dynamic = memory.weights.dynamic
        self.streams = Streams(memory.weights.static, shape.weight_words, memory.host_first)
        stop = memory_use(regions).used if memory.stop is None else memory.stop
        self.area = ReloadArea(stop, shape.columns)
        sizes = {MICRO_OPS: (shape.micro_ops, MICRO_OP_BYTES),
                 PARAMETERS: (shape.parameter_words, PARAMETER_BYTES)}  # fmt: skip
        self.tables.reloaded = {
            name: Reloaded(name, *sizes[name], self.area, self._load_table)
            for name in sorted(memory.reloaded)
        }
        self.steps: list[Step] = []
        self.macro = Macro([])
        self.number = self.tile = -1
        self._bases = dict.fromkeys(BASES, 0)
        self._distances: dict[str, dict[str, int]] = {}  # current setting of each unit
        self._half_inputs = self._half_entries = 0  # buffer halves to use next

    def micro_ops(self, ops: list[MicroOp]) -> dict[str, int]:
        """Add micro-ops to their memory and return the fields that select them."""
        return {"uop": self.tables.add_micro_ops(ops, self.macro.label), "uops": len(ops)}

    def step(
        self, instruction: Instruction, reads: Sequence[Touch] = (), writes: Sequence[Touch] = (),
        sent: SentVectors | None = None, numbers: NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        """Add an instruction; its reads of small memories are added here.

        sent, numbers : see `Step`
        """
        tables, fields, reads = self.tables, instruction.fields, list(reads)
        for name, (_, memory) in TABLES.items() if tables.reloaded else ():
            spans = tables.used[name]
            if name == PARAMETERS and ("bm" in fields or fields.get("source") == 2):
                spans = spans + tables.bias
            reads += [Touch(memory, one.cells) for one in spans]
        if instruction.op != "CTRL" and tables.reloaded:
            tables.used = {name: [] for name in tables.used}
        self._add(instruction, reads, list(writes))
        self.steps[-1].sent, self.steps[-1].numbers = sent, numbers

    def _add(self, instruction: Instruction, reads: list[Touch], writes: list[Touch]) -> None:
        """Add a step; feature memory addresses too large for a field are relative to a base."""
        unit = UNITS[unit_of(instruction)]
        name, space = BASES.get(instruction.op, ("", 0))
        if name in instruction.fields:
            most = most_of(instruction.op, instruction.kind)[name]
            address = instruction.fields[name]
            if not 0 <= address - self._bases[instruction.op] <= most:
                base = self._bases[instruction.op] = max(0, address - most // 2)
                base_step = control(unit, "BASE", space=space, value=base)
                self.steps.append(Step(unit, base_step, self.number, [], [], self.tile))
            more = {name: address - self._bases[instruction.op]}
            instruction = instruction._replace(fields={**instruction.fields, **more})
        self.steps.append(Step(unit, instruction, self.number, reads, writes, self.tile))

    def _load_table(self, memory: str, first: int, source: int, vectors: int) -> None:
        number, name = TABLES[memory]
        fields = {"dst": first, "src": source, "vectors": vectors, "memory": number}
        words = -(-vectors * self.shape.columns // (MICRO_OP_BYTES, PARAMETER_BYTES)[number])
        self._add(
            Instruction("LOAD", "TABLE", fields=fields),
            [Touch("FM", np.arange(source, source + vectors))],
            [Touch(name, np.arange(first, first + words))],
        )  # fmt: skip
        self._stream_last()

    def _stream_last(self) -> None:
        """Move a request for weights after the last step, if no unit works in between: on the path
        to external memory that step would wait for all words; the next product needs the first."""
        if self.shape.map_vectors:
            return
        steps = self.steps
        at = len(steps) - 2
        while at > 0 and steps[at].instruction.op == "CTRL":
            at -= 1
        if steps[at].instruction.kind == "WSTREAM" and steps[at].tile == self.tile:
            steps.append(steps.pop(at))

    def set_distance(self, unit: str, **distances: int) -> None:
        """Set the distances of pairs that a unit reads or writes, unless they are set already."""
        if distances != self._distances.get(unit, dict.fromkeys(distances, 0)):
            self._distances[unit] = distances
            self.step(control(unit, "DIST", **distances))

    def end_function(self) -> None:
        """Add the end of a function. Registers keep their values between frames, so those that its
        instructions have changed are set back to 0, which the first instructions rely on."""
        for op, (_, space) in BASES.items():
            if self._bases[op]:
                self._bases[op] = 0
                self.step(control(op, "BASE", space=space, value=0))
        for unit, distances in self._distances.items():
            if any(distances.values()):
                self.set_distance(unit, **dict.fromkeys(distances, 0))
        self._distances = {}
        self.step(END)

    def targets_of(self, tensor: Tensor) -> tuple[Target, ...]:
        """Return the destinations of a result."""
        found = self.memory.targets.get(tensor)
        if found is None:
            pixel = pixel_vectors(tensor, self.shape.columns)
            rows, blocks = Span(0, tensor.height), Span(0, pixel)
            return (Target("LOCAL", self.regions[tensor], rows, blocks),)
        return found

    @property
    def state(self) -> BuilderState:
        """State that earlier tiles leave to the next one."""
        distances = tuple((unit, tuple(one.items())) for unit, one in self._distances.items())
        return BuilderState(self._half_inputs, self._half_entries, distances)

    @state.setter
    def state(self, state: BuilderState) -> None:
        self._half_inputs, self._half_entries, distances = state
        self._distances = {unit: dict(one) for unit, one in distances}

    def next_inputs(self) -> int:
        """Return the first vector of the next half of the input buffer."""
        base = self._half_inputs * (self.shape.input_vectors // 2)
        self._half_inputs ^= 1
        return base

    def next_entries(self) -> int:
        """Return the first entry of the next half of the accumulators."""
        base = self._half_entries * (self.shape.entries // 2)
        self._half_entries ^= 1
        return base
