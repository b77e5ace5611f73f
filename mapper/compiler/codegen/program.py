"""The program of a core: which cut each macro node gets, and how products are paired.

What is chosen becomes a list of macro records, and instructions are made from these alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import Instruction
from mapper.compiler.codegen.builder import DUAL, Choices, Dual, MemoryPlan, WeightPlan
from mapper.compiler.codegen.emitter import Emitter
from mapper.compiler.codegen.links import NO_LINKS, Links, Others, Place, linked
from mapper.compiler.codegen.macros.file import MACROS, pack_layers, unpack_layers
from mapper.compiler.codegen.macros.layers import Layers
from mapper.compiler.codegen.presets import Preset
from mapper.compiler.codegen.steps import Step, with_tokens
from mapper.compiler.codegen.tables import MICRO_OPS, TableFullError
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import Region, memory_use
from mapper.compiler.schedule.onchip import Choice, Limits, chosen, fixed_cut
from mapper.compiler.schedule.tiles import Cut
from mapper.compiler.stages import stage
from mapper.errors import DoesNotFitError

END = Instruction("CTRL", "END", fields={"drain": 1})
UNLIMITED = 1 << 30
"""Instructions in external memory, or micro-ops that are loaded again."""


class Core(NamedTuple):
    """What a program is for: the core, where maps lie, what else is in memory, and what comes from
    other cores, and goes there.

    preset : of maps; None are the borders of the regions
    """

    shape: NpuShape
    regions: dict[Tensor, Region]
    memory: MemoryPlan
    links: Links = NO_LINKS
    place: Place = (0, 0)
    preset: Preset | None = None

    @classmethod
    def alone(
        cls, shape: NpuShape, regions: dict[Tensor, Region], weights: WeightPlan,
        place: Place = (0, 0),
    ) -> Core:  # fmt: skip
        """A core that has all of a model. weights : which stay"""
        memory = MemoryPlan(weights, stop=memory_use(regions).used)
        return cls(shape, regions, memory, place=place)


def memory_sizes(shape: NpuShape, vectors: int) -> dict[str, int]:
    """Cells of each memory that instructions may wait for; vectors : of the feature memory."""
    return {
        "FM": vectors, "INP": shape.input_vectors, "ACC": shape.entries, "OUT": shape.entries,
        "WM": shape.weight_words, "WQ": 1, "UM": shape.micro_ops, "PM": shape.parameter_words,
        "HM": shape.headers,
    }  # fmt: skip


class Emitted(NamedTuple):
    """What a core runs.

    ends : steps up to the end of each macro node; that of a function belongs to the last one in it
    records : the file of macro records that they are made from
    borders : what is around maps before the first frame
    """

    emitter: Emitter
    ends: list[int]
    records: bytes
    borders: Preset

    @property
    def preset(self) -> Preset:
        """Of the maps, before the first frame."""
        return self.borders.with_area(self.emitter.area)

    def linked(self, links: Links, others: Others) -> tuple[Emitted, Links]:
        """With waits and credits, see `mapper.compiler.codegen.links.linked`."""
        shape = self.emitter.shape
        steps, links = linked(self.emitter.steps, links, others, shape.map_vectors)
        self.emitter.steps = steps
        numbers = np.array([step.macro for step in self.emitter.steps])
        ends = [int(np.flatnonzero(numbers <= at)[-1]) + 1 for at in range(len(self.ends))]
        return self._replace(ends=ends), links

    def program(self, spans: list[tuple[int, int]]) -> list[Instruction]:
        """The instructions of some functions, by first step and the one behind the last."""
        shape, area = self.emitter.shape, self.emitter.area
        sizes = memory_sizes(shape, shape.map_vectors or area.stop)
        found: list[Instruction] = []
        for begin, stop in spans:
            found += with_tokens(self.emitter.steps[begin:stop], sizes)
        return found


def emitted(
    macros: list[Macro], functions: list[tuple[int, int]], core: Core, options: Choices,
    log: list[str],
) -> Emitted:  # fmt: skip
    """The steps of a core for all functions, each from a macro node to the one behind its last.

    Pairs of products take micro-ops: the fastest way to pair them that fits is taken.
    Raises `DoesNotFitError` that names the memory and the layer.
    """
    auto = options.dual == "auto" and core.shape.multiplier == "dual"
    ways: tuple[Dual, ...] = DUAL if auto else (options.dual,)
    for way in ways:
        try:
            return _emitted(macros, functions, core, replace(options, dual=way))
        except DoesNotFitError as error:
            if way == ways[-1]:
                raise
            log.append(f"--dual {way} is not taken: {error}")
    raise AssertionError


def _emitted(
    macros: list[Macro], functions: list[tuple[int, int]], core: Core, options: Choices
) -> Emitted:
    """Micro-ops and parameters that do not fit at once are loaded while the program runs."""
    shape, reloaded, plan = core.shape, frozenset[str](), core.memory
    borders = core.preset or Preset.around(core.regions, shape.columns)
    with stage("tiles and cores"):
        ways = Ways.of(Emitter(shape, core.regions, options, plan), macros)
    while True:
        with stage("tiles and cores"):
            cuts = ways.chosen(macros, shape, reloaded, options.lag)
        plan = plan._replace(reloaded=reloaded)
        layers = Layers(
            shape, macros, cuts, functions, core.regions, options, plan, borders, core.place,
            core.links,
        )  # fmt: skip
        records = pack_layers(layers)
        try:
            made = from_records(records, MACROS.ending)
        except TableFullError as error:
            reloaded |= {error.memory}
            continue
        break
    area = made.emitter.area
    stop, tables = area.stop, area.stop - area.first
    if shape.map_vectors and stop > shape.map_vectors:
        raise DoesNotFitError(
            f"feature memory: {stop:,} vectors needed, {tables:,} of them for micro-ops and "
            f"parameters that are loaded while the program runs; a core has "
            f"{shape.map_vectors:,} ({stop - shape.map_vectors:,} short); take a core with more"
        )
    return made


def from_records(records: bytes, where: str) -> Emitted:
    """The steps of the functions in a file of macro records; where : the file, for errors.

    Raises `MapperError` if it is damaged, `TableFullError` that names a small memory.
    """
    return steps_of(unpack_layers(records, where), records)


def steps_of(layers: Layers, records: bytes) -> Emitted:
    """The same of its layers."""
    last = {stop for _, stop in layers.functions}
    emitter = Emitter(layers.shape, layers.regions, layers.options, layers.memory)
    ends = []
    for number, (macro, cut) in enumerate(zip(layers.macros, layers.cuts, strict=True), 1):
        emitter.emit(macro, cut)
        if number in last:
            emitter.step("LOAD", END, [], [])
            emitter.forget_distances()
        ends.append(len(emitter.steps))
    return Emitted(emitter, ends, records, layers.borders)


class Ways(NamedTuple):
    """How each macro node may be cut; one way each if a fixed rule says it.

    searched : choices of the search; cuts : of the rule
    """

    searched: list[list[Choice]]
    cuts: list[Cut]

    @classmethod
    def of(cls, emitter: Emitter, macros: list[Macro]) -> Ways:
        """By search, or by a fixed rule; that of the first layer as it is given."""
        options = emitter.options
        plane = options.first_tile[::-1] if options.first_tile else None
        if options.schedule == "search":
            found = [
                emitter.ways(macro, number, None if number else plane)
                for number, macro in enumerate(macros)
            ]
            return cls(found, [])
        cuts = [fixed_cut(options.schedule, macro, emitter.shape) for macro in macros]
        if plane and macros:
            cuts[0] = emitter.ways(macros[0], 0, plane)[0].cut
        return cls([], cuts)

    def chosen(
        self, macros: list[Macro], shape: NpuShape, reloaded: frozenset[str], lag: float = 0
    ) -> list[Cut]:
        """A cut for each macro node, with which small memories that are not reloaded hold all.

        lag : see `Limits`
        """
        if self.cuts:
            return self.cuts
        micro_ops = UNLIMITED if MICRO_OPS in reloaded else shape.micro_ops
        limits = Limits(shape.instructions or UNLIMITED, micro_ops, lag)
        # parts of layers with tables of their own would load them for every tile
        ways = [
            [one for one in choice if not (reloaded and one.cut.edges)] for choice in self.searched
        ]
        return [one.cut for one in chosen(macros, ways, limits, not shape.map_vectors)]


def require_instructions(
    program: list[Instruction], steps: list[Step], macros: list[Macro], shape: NpuShape
) -> None:
    """Raise `DoesNotFitError` that names the layer if the instruction memory is too small; external
    memory holds any number."""
    if shape.instructions and len(program) > shape.instructions:
        label = macros[steps[min(shape.instructions, len(steps)) - 1].macro].label
        raise DoesNotFitError(
            f"{label}: instruction memory: {len(program):,} words needed, a core has "
            f"{shape.instructions:,} ({len(program) - shape.instructions:,} short); take a core "
            "with more, or more cores"
        )


def host_words(words: list[NDArray[np.int64]], shape: NpuShape) -> NDArray[np.int8]:
    """Weight words as they lie in the host's memory."""
    return np.array(words, np.int8).reshape(-1, shape.rows, shape.columns)
