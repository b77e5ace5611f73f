"""Input, plan and result of mapping a compiled model to cores, and the ports of the host.

A piece is a part of a macro node on a core. A core runs its pieces in the order of the macro nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.host import OPERATIONS
from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import HostLink
from chipsim.npu.mesh.chip import HostStages
from mapper.cache.cache import NO_SLOT, Slot
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.memory.regions import Places
from mapper.compiler.partition.functions import Partition
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import CoreLinks, Place, Target
from mapper.compiler.settings import CompileSettings
from mapper.compiler.tiling.tiles import Cut
from mapper.placement.clock import ENDLESS, Clock


class CompileJob(NamedTuple):
    """Input of mapping a model to cores.

    places : places of feature maps inside others; choices : code generation options
    link : timing of the host's weights; operations : numbers that the host computes per cycle
    searches : searches for cuts of this compilation
    clock : time limit of the search
    kept : place of its result in the cache
    """

    partition: Partition
    places: Places
    shape: NpuShape
    choices: Choices
    settings: CompileSettings
    link: HostLink
    searches: CutSearches
    operations: float = OPERATIONS
    clock: Clock = ENDLESS
    kept: Slot = NO_SLOT


class Made(NamedTuple):
    """Result of mapping a model to cores.

    results : where the host stores received results
    host_words : weight words on the host, shape (rows, columns) each
    ports : nodes of the host's ports, if several cores share the model
    stages : work of the host between functions, and when it needs each of `results`
    """

    codes: list[CoreCode]
    results: list[Lying]
    host_words: list[NDArray[np.int64]]
    ports: Sequence[Place] = ()
    stages: HostStages = HostStages()


def ports_of(chip: Chip) -> list[Place]:
    """Return the nodes of a chip that have a port of the host."""
    return [(core % chip.width, core // chip.width) for core in chip.host_ports]


def nearest(ports: Sequence[Place], place: Place) -> Place:
    """Return the port with the fewest hops to a core; the first in case of a tie."""
    return min(ports, key=lambda port: abs(port[0] - place[0]) + abs(port[1] - place[1]))


class MacroPiece(NamedTuple):
    """A part of a macro node, given by its index: rows (before upsampling) and output blocks."""

    macro: int
    rows: Span
    blocks: Span


class Whole(NamedTuple):
    """A model to be distributed over cores.

    macros : macro nodes in order of execution; places : places of feature maps inside others
    written, read : feature maps that the host writes and reads, with the number of the function
        before or after which it does so
    functions : number of the function of each macro node
    """

    macros: list[Macro]
    places: Places
    written: dict[Tensor, int]
    read: dict[Tensor, int]
    functions: list[int]

    @classmethod
    def of(cls, job: CompileJob) -> Whole:
        functions = job.partition.functions
        return cls(
            job.partition.macros,
            job.places,
            {tensor: number for number, one in enumerate(functions) for tensor in one.inputs},
            {tensor: number for number, one in enumerate(functions) for tensor in one.results},
            [number for number, one in enumerate(functions) for _ in range(one.first, one.stop)],
        )

    @property
    def tensors(self) -> list[Tensor]:
        """All feature maps that the cores or the host read or write."""
        found = dict.fromkeys([*self.written, *self.read])
        found |= dict.fromkeys(
            tensor for macro in self.macros for tensor in (*macro.inputs, *macro.outputs)
        )
        return list(found)


@dataclass(slots=True)
class CorePlan:
    """A core's share of a model.

    function : number of the function of its pieces
    pieces : pieces in order of execution; macros : their macro nodes, over parts of feature maps
    regions : regions of their inputs; targets : destinations of their outputs
    parts : parts of feature maps of the model in this core
    used : vectors of the feature memory
    filled : first vector, number of vectors, and value of their bytes before the first frame, for
        padding channels of planes
    order : macro node of each tile, and cuts, if tiles of different macro nodes alternate
    """

    pieces: list[MacroPiece]
    macros: list[Macro] = field(default_factory=list)
    regions: dict[Tensor, Region] = field(default_factory=dict)
    targets: dict[Tensor, tuple[Target, ...]] = field(default_factory=dict)
    links: CoreLinks = field(default_factory=CoreLinks)
    parts: list[Lying] = field(default_factory=list)
    used: int = 0
    filled: list[tuple[int, int, int]] = field(default_factory=list)
    order: tuple[tuple[int, ...], tuple[Cut, ...]] = ((), ())


class ChipPlan(NamedTuple):
    """Plan of all cores.

    results : where the host stores received results
    slots : number of slots of each region that the host writes, by core and stream
    """

    cores: dict[Place, CorePlan]
    results: list[Lying]
    slots: dict[tuple[Place, int], int]
