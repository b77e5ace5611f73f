"""Parts of layers, and a core's share of a model: layers, regions of its memory, and links.

A piece is a part of a macro node on a core. A core runs its pieces in the order of the macro nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mapper.compiler.codegen.code import Lying
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.memory.regions import Places
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import CoreLinks, Place, Target


class MacroPiece(NamedTuple):
    """A part of a macro node, given by its index: rows (before upsampling) and output blocks."""

    macro: int
    rows: Span
    blocks: Span


class Whole(NamedTuple):
    """A model to be distributed over cores.

    macros : macro nodes in order of execution; places : places of feature maps inside others
    written, read : feature maps that the host writes and reads
    """

    macros: list[Macro]
    places: Places
    written: list[Tensor]
    read: list[Tensor]


@dataclass(slots=True)
class CorePlan:
    """A core's share of a model.

    pieces : pieces in order of execution; macros : their macro nodes, over parts of feature maps
    regions : regions of their inputs; targets : destinations of their outputs
    parts : parts of feature maps of the model in this core
    used : vectors of the feature memory
    filled : first vector, number of vectors, and value of their bytes before the first frame, for
        padding channels of planes
    """

    pieces: list[MacroPiece]
    macros: list[Macro] = field(default_factory=list)
    regions: dict[Tensor, Region] = field(default_factory=dict)
    targets: dict[Tensor, tuple[Target, ...]] = field(default_factory=dict)
    links: CoreLinks = field(default_factory=CoreLinks)
    parts: list[Lying] = field(default_factory=list)
    used: int = 0
    filled: list[tuple[int, int, int]] = field(default_factory=list)


class ChipPlan(NamedTuple):
    """Plan of all cores.

    results : where the host stores received results
    slots : number of slots of each region that the host writes, by core and stream
    """

    cores: dict[Place, CorePlan]
    results: list[Lying]
    slots: dict[tuple[Place, int], int]
