"""Parts of layers, and what a core gets of a model: layers, regions of its memory, and links.

A piece is a part of a macro node on a core. A core runs its pieces in the order of the macro nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mapper.compiler.codegen.links import Links, Place, Target
from mapper.compiler.cores.slices import Sliced
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.memory.regions import Places
from mapper.compiler.schedule.inputs import Span


class Piece(NamedTuple):
    """A part of a macro node, by its number: rows, before they are upsampled, and output blocks."""

    macro: int
    rows: Span
    blocks: Span


class Whole(NamedTuple):
    """What is spread over cores.

    macros : in the order in which they run; places : of maps that lie in others
    written, read : maps that the host writes, and reads
    """

    macros: list[Macro]
    places: Places
    written: list[Tensor]
    read: list[Tensor]


class Part(NamedTuple):
    """A part of a map that a core, or the host, holds.

    region : of `one.part`; slots are those of the region
    """

    one: Sliced
    region: Region


@dataclass(slots=True)
class CorePlan:
    """What a core gets.

    pieces : in the order in which they run; macros : as many, over parts of maps
    regions : of the maps that these take; targets : of those that they make
    parts : of maps of the model that lie there; brought : streams of those that the host sends, by
        the map's name
    used : vectors of the feature memory
    filled : first vectors, how many follow, and the value of their bytes before the first frame:
        channels of planes that there are none of
    """

    pieces: list[Piece]
    macros: list[Macro] = field(default_factory=list)
    regions: dict[Tensor, Region] = field(default_factory=dict)
    targets: dict[Tensor, tuple[Target, ...]] = field(default_factory=dict)
    links: Links = field(default_factory=Links)
    parts: list[Part] = field(default_factory=list)
    used: int = 0
    filled: list[tuple[int, int, int]] = field(default_factory=list)


class ChipPlan(NamedTuple):
    """results : where the host keeps what it is sent
    slots : of each region that the host sends something to, by core and stream
    """

    cores: dict[Place, CorePlan]
    results: list[Part]
    slots: dict[tuple[Place, int], int]
