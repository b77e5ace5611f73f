"""State of the cores of a chip while their regions, streams and credits are planned."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.node import Upsample
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Lives
from mapper.compiler.multicore.areas import Box, Homes, Kept
from mapper.compiler.multicore.job import MacroPiece, Whole
from mapper.compiler.multicore.line_buffers.rings import RingNeed
from mapper.compiler.multicore.rooms import Address
from mapper.compiler.multicore.slices import Slice, Sliced, slice_macro
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Place
from mapper.compiler.tiling.tiles import Cut
from mapper.errors import DoesNotFitError

HOST: Place = (-1, -1)
"""Placeholder for the host in place of a core."""
UP = 2
"""Rows per row of an upsampled feature map, and columns per column."""


class CoreState:
    """State of a core during planning."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.function = 0  # of all its pieces
        self.pieces: list[MacroPiece] = []
        self.slices: list[Slice] = []
        self.kept: dict[Hashable, Kept] = {}
        self.lives: dict[Hashable, Lives] = {}
        self.feeds: dict[Hashable, list[Place]] = {}  # cores that write to each region
        self.fed: dict[tuple[Hashable, Place], Box] = {}  # boxes that they write
        self.streams: dict[tuple[Hashable, Place], int] = {}  # streams of received vectors
        self.credits: dict[Place, int] = {}  # streams of credits from each destination core
        self.addresses: dict[Hashable, Address] = {}
        self.rings: dict[Hashable, RingNeed] = {}  # of regions that keep some columns
        self.cuts: list[Cut] = []
        self.order: list[int] = []  # macro node of each tile, if they alternate

    @property
    def name(self) -> str:
        return f"core ({self.place[0]}, {self.place[1]})"

    def touch(self, key: Hashable, number: int) -> None:
        one = self.lives.setdefault(key, Lives(number, number))
        self.lives[key] = Lives(min(one.born, number), max(one.dies, number))


class ChipState:
    """State of all cores during planning.

    cores : by place; homes : owners of the feature maps
    functions : function before which the host writes a map, by owner
    tensors : all feature maps that cores or the host read or write
    """

    def __init__(
        self, whole: Whole, placed: Sequence[tuple[MacroPiece, Place]], shape: NpuShape,
        ports: Sequence[Place],
    ) -> None:  # fmt: skip
        self.whole, self.shape, self.ports = whole, shape, ports
        self.homes = Homes(whole.places, shape.columns)
        cores: dict[Place, CoreState] = {}
        for piece, place in sorted(placed, key=lambda one: one[0].macro):
            core = cores.setdefault(place, CoreState(place))
            core.pieces.append(piece)
            core.function = whole.functions[piece.macro]
            macro = whole.macros[piece.macro]
            core.slices.append(slice_macro(macro, piece.rows, piece.blocks, shape.columns))
        self.cores = {place: cores[place] for place in sorted(cores)}
        self.functions = {self.homes.of(one).owner: at for one, at in whole.written.items()}
        self.tensors = whole.tensors

    def key(self, core: CoreState, one: Sliced) -> Hashable:
        """Return the key of the region with a layer's input."""
        owner, box = self.even_box(one)
        for key, kept in core.kept.items():
            if kept.owner is owner and (kept.box == box if owner.planes else kept.box.holds(box)):
                return key
        raise DoesNotFitError(
            f"{core.name}: its rows of a layer depend only on padding of {one.whole.name!r}; use "
            "fewer cores with --cores"
        )

    def even_box(self, one: Sliced) -> tuple[Tensor, Box]:
        """Return the owner of a part of a map, and its box; pairs of rows if it is upsampled."""
        owner, box = self.homes.kept(one)
        if not self.is_upsampled(owner):
            return owner, box
        first = box.rows.first // UP * UP
        rows = Span(first, min(-(-box.rows.stop // UP) * UP, owner.height))
        return owner, box._replace(rows=rows)

    def is_upsampled(self, owner: Tensor) -> bool:
        return any(
            isinstance(macro.nodes[-1].operator, Upsample)
            for macro in self.whole.macros
            for tensor in macro.outputs
            if self.homes.of(tensor).owner is owner
        )

    def held(self, owner: Tensor, box: Box) -> Iterator[Sliced]:
        """Yield the parts of feature maps inside a box of their owner."""
        for tensor in dict.fromkeys([owner, *self.tensors]):
            if self.homes.of(tensor).owner is owner:
                held = self.homes.held(tensor, box)
                if held is not None:
                    yield self.homes.part(tensor, held)
