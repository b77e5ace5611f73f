"""Input of instruction generation: macro nodes, their cuts, and the regions of feature maps."""

from __future__ import annotations

from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import Choices, MemoryPlan
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.program.links import NO_LINKS, CoreLinks
from mapper.compiler.program.presets import Preset
from mapper.compiler.tiling.tiles import Cut


class Layers(NamedTuple):
    """The layers of a core.

    cuts : one per macro node
    functions : first macro node and end of each function
    regions : regions of the inputs and outputs of macro nodes
    options : options, with `dual` resolved (not "auto")
    borders : contents around feature maps before the first frame
    links : links with other cores
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
    links: CoreLinks = NO_LINKS
