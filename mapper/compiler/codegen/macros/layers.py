"""What instructions are made from: macro nodes, how they are cut, and where their maps lie."""

from __future__ import annotations

from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import Choices, MemoryPlan
from mapper.compiler.codegen.links import NO_LINKS, Links
from mapper.compiler.codegen.presets import Preset
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.schedule.tiles import Cut


class Layers(NamedTuple):
    """The layers of a core.

    cuts : one for each macro node
    functions : first macro node of each, and the one behind its last
    regions : of the maps that macro nodes take and make
    options : `dual` as it is done, not auto
    borders : around maps, before the first frame
    links : with other cores
    """

    shape: NpuShape
    macros: list[Macro]
    cuts: list[Cut]
    functions: list[tuple[int, int]]
    regions: dict[Tensor, Region]
    options: Choices
    memory: MemoryPlan
    borders: Preset
    core: tuple[int, int] = (0, 0)
    links: Links = NO_LINKS
