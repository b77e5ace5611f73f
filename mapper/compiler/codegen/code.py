"""What a core runs, and all that was known when it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import HostLink
from chipsim.npu.cycles import Timeline
from hw.npu.isa import Instruction
from mapper.compiler.codegen.image import Image
from mapper.compiler.codegen.links import NO_LINKS, Links, Place
from mapper.compiler.codegen.loaded import Loaded
from mapper.compiler.codegen.presets import Preset
from mapper.compiler.codegen.program import Emitted
from mapper.compiler.codegen.steps import Step
from mapper.compiler.codegen.tables import Tables
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.schedule.inputs import Span
from mapper.compiler.schedule.preloaded import Preloaded
from mapper.compiler.schedule.units import timeline_of_functions


class Lying(NamedTuple):
    """A map of the model, or a part of it, in the memory of a core.

    tensor : of the graph; region : where it lies, whose tensor is as large as the part
    rows, channels : that the part has
    """

    tensor: Tensor
    region: Region
    rows: Span
    channels: Span

    @classmethod
    def whole(cls, region: Region) -> Lying:
        tensor = region.tensor
        return cls(tensor, region, Span(0, tensor.height), Span(0, tensor.channels))


@dataclass(slots=True)
class CoreCode:
    """A core's program.

    numbers : of its layers, that of the macro node of the model; macros : its layers
    maps : that lie in its memory; used : vectors of them
    steps, program : as many; records : the file of macro records that they are made from
    ends : instructions up to the end of each layer
    spans : first instruction of each function, and the one behind its END
    timeline : of a frame, if nothing from other cores delays it
    """

    place: Place
    numbers: list[int]
    macros: list[Macro]
    maps: list[Lying]
    used: int
    static_words: int
    tables: Tables
    preset: Preset
    steps: list[Step]
    program: list[Instruction]
    records: bytes
    ends: list[int]
    spans: list[tuple[int, int]]
    timeline: Timeline
    links: Links = field(default_factory=lambda: NO_LINKS)

    @classmethod
    def of(
        cls, place: Place, layers: tuple[list[int], list[Macro]], maps: tuple[list[Lying], int],
        static_words: int, made: Emitted, code: tuple[list[Instruction], list[tuple[int, int]]],
        links: Links = NO_LINKS, link: HostLink | None = None,
    ) -> CoreCode:  # fmt: skip
        """layers : numbers and macro nodes; maps : and how many vectors they use; code : program
        and functions; link : with the host's weights"""
        tables, shape = made.emitter.tables, made.emitter.shape
        before = Preloaded.of(tables, made.preset)
        timeline = timeline_of_functions(*code, shape, before, link)
        return cls(
            place, *layers, *maps, static_words, tables, made.preset, made.emitter.steps, code[0],
            made.records, made.ends, code[1], timeline, links,
        )  # fmt: skip

    @property
    def regions(self) -> dict[Tensor, Region]:
        """Of maps of the model; parts of them have several."""
        return {one.tensor: one.region for one in self.maps}

    def image(self, shape: NpuShape) -> Image:
        """What is loaded into the core before its first frame."""
        return Loaded(
            shape, self.program, self.spans, self.tables, self.preset, self.used, self.static_words
        ).image(self.place)
