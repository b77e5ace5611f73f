"""The program of a core: choice of the cut of each macro node and of the pairing of products.

The choices are stored as macro records, and instructions are generated from the records alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.table import Instruction
from mapper.compiler.codegen.builder import DUAL, Choices, MemoryPlan, WeightPlan
from mapper.compiler.codegen.emitter import Emitter
from mapper.compiler.codegen.macros.encode import Layers
from mapper.compiler.codegen.macros.file import MACROS, pack_layers, unpack_layers
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.planner import Region, map_capacity, memory_use
from mapper.compiler.program.links import (
    NO_LINKS,
    CoreLinks,
    Place,
    brought_in_turn,
    freed_for,
    given,
    linked,
    sent,
)
from mapper.compiler.program.presets import Preset
from mapper.compiler.program.steps import Step, with_tokens
from mapper.compiler.program.tables import MICRO_OPS, TableFullError
from mapper.compiler.settings import Dual
from mapper.compiler.stages import stage
from mapper.compiler.tiling.onchip import Limits, chosen
from mapper.compiler.tiling.tile_pipeline import CutChoice
from mapper.compiler.tiling.tiles import Cut, fixed_cut
from mapper.errors import DoesNotFitError

UNLIMITED = 1 << 30
"""Limit for instructions in external memory, and for micro-ops that are reloaded."""


class Tiling(NamedTuple):
    """Result of the search for the tiles of a core's layers; its programs follow from it.

    cuts : of each layer; dual : way to pair products; reloaded : see `MemoryPlan`
    """

    cuts: tuple[Cut, ...]
    dual: Dual
    reloaded: frozenset[str] = frozenset()


class CoreTarget(NamedTuple):
    """Target of a program: the core, placement of feature maps, other memory contents, and links
    from and to other cores.

    preset : preset vectors of feature maps; None for the borders of the regions
    order : macro node of each tile, and the cuts, if tiles of different macro nodes alternate
    searches : searches for cuts of this compilation; None to search again
    tiling : known result of the search
    """

    shape: NpuShape
    regions: dict[Tensor, Region]
    memory: MemoryPlan
    links: CoreLinks = NO_LINKS
    place: Place = (0, 0)
    preset: Preset | None = None
    order: tuple[tuple[int, ...], tuple[Cut, ...]] = ((), ())
    searches: CutSearches | None = None
    tiling: Tiling | None = None

    @classmethod
    def alone(
        cls, shape: NpuShape, regions: dict[Tensor, Region], weights: WeightPlan,
        place: Place = (0, 0),
    ) -> CoreTarget:  # fmt: skip
        """Return the target for a core that runs a whole model. weights : weight plan"""
        memory = MemoryPlan(weights, stop=memory_use(regions).used)
        return cls(shape, regions, memory, place=place)


def memory_sizes(shape: NpuShape, vectors: int) -> dict[str, int]:
    """Return the cells of each memory that instructions may wait for.

    vectors : size of the feature memory
    """
    return {
        "FM": vectors, "INP": shape.input_vectors, "ACC": shape.entries, "OUT": shape.entries,
        "WM": shape.weight_words, "WQ": 1, "UM": shape.micro_ops, "PM": shape.parameter_words,
        "HM": shape.headers,
    }  # fmt: skip


class Emitted(NamedTuple):
    """Generated steps of a core.

    ends : number of steps up to the end of each macro node; the END of a function belongs to its
        last macro node
    records : file of the macro records that the steps come from
    borders : contents around feature maps before the first frame
    in_order : tiles of different macro nodes alternate; all macro nodes end with the program
    tiling : result of the search for tiles; None if the records were read from a file
    """

    emitter: Emitter
    ends: list[int]
    records: bytes
    borders: Preset
    in_order: bool = False
    tiling: Tiling | None = None

    @property
    def preset(self) -> Preset:
        """Contents of the feature memory before the first frame."""
        return self.borders.with_area(self.emitter.area)

    def program(self, spans: list[tuple[int, int]]) -> list[Instruction]:
        """Return the instructions of functions, given by their first step and end."""
        shape, area = self.emitter.shape, self.emitter.area
        sizes = memory_sizes(shape, shape.map_vectors or area.stop)
        found: list[Instruction] = []
        for begin, stop in spans:
            found += with_tokens(self.emitter.steps[begin:stop], sizes)
        return found


def linked_cores(
    cores: Sequence[tuple[Place, Emitted, CoreLinks]],
) -> Iterator[tuple[Emitted, CoreLinks]]:
    """Yield the programs of all cores of a chip with waits and credits, and their links with the
    initial counts of streams."""
    come = sent(made.emitter.steps for _, made, _ in cores)
    freed = [given(made.emitter.steps, links.credits) for _, made, links in cores]
    for (place, made, links), mine in zip(cores, freed, strict=True):
        comes = come.get(place, {}) | links.comes
        input_ = comes, freed_for(place, freed)
        emitter = made.emitter
        brought = brought_in_turn(mine, links)
        emitter.steps, counts = linked(emitter.steps, mine, *input_, map_capacity(emitter.shape))
        numbers = np.array([step.macro for step in emitter.steps])
        ends = [int(np.flatnonzero(numbers <= at)[-1]) + 1 for at in range(len(made.ends))]
        if made.in_order:
            ends = [len(emitter.steps)] * len(made.ends)
        yield made._replace(ends=ends), replace(links, counts=counts, brought=brought)


def emitted(
    macros: list[Macro], functions: list[tuple[int, int]], core: CoreTarget, options: Choices,
    log: CompileLog,
) -> Emitted:  # fmt: skip
    """Return the steps of a core for all functions, each given by its first macro node and end.

    Pairs of products take micro-ops: the fastest pairing that fits is used.
    Raises `DoesNotFitError` that names the memory and the layer.
    """
    auto = options.dual == "auto" and core.shape.multiplier == "dual"
    ways: tuple[Dual, ...] = DUAL if auto else (options.dual,)
    if core.tiling is not None:
        ways = (core.tiling.dual,)
    for way in ways:
        try:
            return _emitted(macros, functions, core, replace(options, dual=way))
        except DoesNotFitError as error:
            if way == ways[-1]:
                raise
            log.add(f"--dual {way} not used: {error}")
    raise AssertionError


def _emitted(
    macros: list[Macro], functions: list[tuple[int, int]], core: CoreTarget, options: Choices
) -> Emitted:
    """Generate steps; small memories that overflow are reloaded while the program runs."""
    shape, reloaded, plan = core.shape, frozenset[str](), core.memory
    borders = core.preset or Preset.around(core.regions, shape.columns)
    if core.order[0]:
        layers = Layers(
            shape, macros, list(core.order[1]), functions, core.regions, options, plan, borders,
            core.place, core.links, core.order[0],
        )  # fmt: skip
        return from_records(pack_layers(layers), MACROS.ending)
    if core.tiling is not None:
        reloaded, ways = core.tiling.reloaded, CutOptions([], list(core.tiling.cuts))
    else:
        with stage("tiles and cores"):
            searches = core.searches or CutSearches()
            ways = CutOptions.of(Emitter(shape, core.regions, options, plan), macros, searches)
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
            f"parameters that are reloaded while the program runs; a core has "
            f"{shape.map_vectors:,} ({stop - shape.map_vectors:,} short); use a larger core"
        )
    return made._replace(tiling=Tiling(tuple(cuts), options.dual, reloaded))


def from_records(records: bytes, where: str) -> Emitted:
    """Generate the steps from a file of macro records; where : file name for errors.

    Raises `MapperError` if it is damaged, `TableFullError` that names a small memory.
    """
    return steps_of(unpack_layers(records, where), records)


def steps_of(layers: Layers, records: bytes) -> Emitted:
    """Generate the steps of layers that were read from records."""
    last = {stop for _, stop in layers.functions}
    emitter = Emitter(layers.shape, layers.regions, layers.options, layers.memory)
    ends = []
    if layers.order:
        emitter.emit_in_order(layers.macros, layers.cuts, layers.order)
        emitter.end_function()
        ends = [len(emitter.steps)] * len(layers.macros)
        return Emitted(emitter, ends, records, layers.borders, True)
    for number, (macro, cut) in enumerate(zip(layers.macros, layers.cuts, strict=True), 1):
        emitter.emit(macro, cut)
        if number in last:
            emitter.end_function()
        ends.append(len(emitter.steps))
    return Emitted(emitter, ends, records, layers.borders)


class CutOptions(NamedTuple):
    """Possible cuts of each macro node; a single one each if a fixed rule is used.

    searched : choices of the search; cuts : result of the rule
    """

    searched: list[list[CutChoice]]
    cuts: list[Cut]

    @classmethod
    def of(cls, emitter: Emitter, macros: list[Macro], searches: CutSearches) -> CutOptions:
        """Find cuts by search or by a fixed rule; `first_tile` fixes the first layer."""
        options = emitter.options
        plane = options.first_tile[::-1] if options.first_tile else None
        if options.schedule == "search":
            found = [
                searches.ways(emitter, macro, number, None if number else plane)
                for number, macro in enumerate(macros)
            ]
            return cls(found, [])
        cuts = [fixed_cut(options.schedule, macro, emitter.shape) for macro in macros]
        if plane and macros:
            cuts[0] = searches.ways(emitter, macros[0], 0, plane)[0].cut
        return cls([], cuts)

    def chosen(
        self, macros: list[Macro], shape: NpuShape, reloaded: frozenset[str], lag: float = 0
    ) -> list[Cut]:
        """Return a cut per macro node such that the memories that are not reloaded suffice.

        lag : see `Limits`
        """
        if self.cuts:
            return self.cuts
        micro_ops = UNLIMITED if MICRO_OPS in reloaded else shape.micro_ops
        limits = Limits(shape.instructions or UNLIMITED, micro_ops, lag)
        # edge parts with separate tables would reload the tables for every tile
        ways = [
            [one for one in choice if not (reloaded and one.cut.edges)] for choice in self.searched
        ]
        return [one.cut for one in chosen(macros, ways, limits, not shape.map_vectors)]


def require_instructions(
    program: list[Instruction], steps: list[Step], macros: list[Macro], shape: NpuShape
) -> None:
    """Raise `DoesNotFitError` that names the layer if the instruction memory is too small; external
    memory is unlimited."""
    if shape.instructions and len(program) > shape.instructions:
        label = macros[steps[min(shape.instructions, len(steps)) - 1].macro].label
        raise DoesNotFitError(
            f"{label}: instruction memory: {len(program):,} words needed, a core has "
            f"{shape.instructions:,} ({len(program) - shape.instructions:,} short); use a larger "
            "core, or more cores"
        )


def host_words(words: list[NDArray[np.int64]], shape: NpuShape) -> NDArray[np.int8]:
    """Return weight words as stored in the host's memory."""
    return np.array(words, np.int8).reshape(-1, shape.rows, shape.columns)
