"""Generated code of a core, with the data that it was generated from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import HostLink
from chipsim.npu.cycles import Timeline
from hw.npu.isa.table import Instruction
from mapper.compiler.codegen.loaded import Loaded
from mapper.compiler.codegen.program import Emitted
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.program.image import Image
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import NO_LINKS, CoreLinks, Place
from mapper.compiler.program.presets import Preloaded, Preset
from mapper.compiler.program.steps import Step
from mapper.compiler.program.tables import Tables
from mapper.compiler.tiling.units import timeline_of_functions


class Lying(NamedTuple):
    """A feature map of the model, or a part of it, in the memory of a core.

    tensor : tensor of the graph
    region : its memory region, whose tensor has the size of the part
    rows, channels : extent of the part
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

    numbers : index in the model of the macro node of each layer; macros : its layers
    maps : feature maps in its memory; used : vectors that they occupy
    steps, program : one instruction per step; records : file of the macro records they come from
    ends : number of instructions up to the end of each layer
    spans : first instruction and end of each function, END included
    timeline : timing of a frame if nothing from other cores delays it
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
    links: CoreLinks = field(default_factory=lambda: NO_LINKS)

    @classmethod
    def of(
        cls, place: Place, layers: tuple[list[int], list[Macro]], maps: tuple[list[Lying], int],
        static_words: int, made: Emitted, code: tuple[list[Instruction], list[tuple[int, int]]],
        links: CoreLinks = NO_LINKS, link: HostLink | None = None,
    ) -> CoreCode:  # fmt: skip
        """layers : numbers and macro nodes; maps : feature maps and the vectors they occupy
        code : program and spans of its functions; link : timing of the host's weights"""
        tables, shape = made.emitter.tables, made.emitter.shape
        before = Preloaded.of(tables, made.preset)
        timeline = timeline_of_functions(*code, shape, before, link)
        return cls(
            place, *layers, *maps, static_words, tables, made.preset, made.emitter.steps, code[0],
            made.records, made.ends, code[1], timeline, links,
        )  # fmt: skip

    @property
    def regions(self) -> dict[Tensor, Region]:
        """Regions by tensor of the model; split tensors have several, of which one is returned."""
        return {one.tensor: one.region for one in self.maps}

    def image(self, shape: NpuShape) -> Image:
        """Return the image that is loaded into the core before its first frame."""
        return Loaded(
            shape, self.program, self.spans, self.tables, self.preset, self.used, self.static_words
        ).image(self.place)
