"""Trial code of tiles, to count its cycles and micro-ops before a cut is chosen.

Tiles of equal size at equal edges have the same code with other addresses, in all cuts of a layer
and in all parts of it, which a search tries by the hundreds: each kind of tile is generated once.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.table import MicroOp
from mapper.compiler.codegen.builder import BASES, BuilderState, ProgramBuilder
from mapper.compiler.codegen.emitter import Emitter
from mapper.compiler.ir import node as op
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import TWO_MAPS
from mapper.compiler.memory.planner import VECTORS_OF_ENTRY, blocks_of, blocks_of_vector
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Target
from mapper.compiler.program.steps import most_of
from mapper.compiler.program.tables import Tables
from mapper.compiler.tiling.tile_pipeline import TileCost
from mapper.compiler.tiling.tiles import Cut, Tile, spans_along, tiles_of
from mapper.compiler.tiling.units import tile_cost

WITHOUT_BASE = 1 + min(
    most_of(name, kind)[BASES[name][0]]
    for name, kind in (("LOAD", "INP"), ("LOAD", "ACC8"), ("STORE", "LOCAL"), ("STORE", "REMOTE"))
)
"""Vectors that instructions address without a base, which would depend on the tiles before."""


class TileCode(NamedTuple):
    """cost : its cost; lists : numbers of its different lists of micro-ops; after : state"""

    cost: TileCost
    lists: tuple[int, ...]
    after: BuilderState


class TileCodes:
    """Kinds of tiles that were generated before, and their lists of micro-ops."""

    def __init__(self) -> None:
        self.known: dict[Hashable, TileCode] = {}
        self.lengths: list[int] = []
        self._numbers: dict[tuple[MicroOp, ...], int] = {}
        self._tables: TrialTables | None = None

    def number(self, ops: tuple[MicroOp, ...]) -> int:
        """Return the number of a list of micro-ops."""
        found = self._numbers.setdefault(ops, len(self.lengths))
        if found == len(self.lengths):
            self.lengths.append(len(ops))
        return found

    def tables(self, shape: NpuShape) -> TrialTables:
        """Return the tables that all trials share, so that equal parameters have equal addresses in
        their micro-ops."""
        if self._tables is None or self._tables.shape != shape:
            self._tables = TrialTables(shape)
        return self._tables


class TrialTables(Tables):
    """Unlimited small memories that record the lists of micro-ops that are added."""

    def __init__(self, shape: NpuShape) -> None:
        super().__init__(shape, bounded=False)
        self.lists: dict[tuple[MicroOp, ...], None] = {}

    def add_micro_ops(self, ops: list[MicroOp], label: str) -> int:
        self.lists[tuple(ops)] = None
        return 0


class TileTrials:
    """Trial code of the tiles of a macro node.

    layer : all that the code of its tiles depends on, except their size, edges, and addresses
    codes : kinds of tiles so far
    """

    def __init__(
        self, core: Emitter, macro: Macro, number: int, layer: Hashable, codes: TileCodes
    ) -> None:
        self._core = Emitter(core.shape, core.regions, core.options, core.memory)
        self._core.macro, self._core.number = macro, number
        self._core.tables = Tables(core.shape, bounded=False)
        self._product = self._core.begin()
        self._core.tables = self._tables = codes.tables(core.shape)
        self._layer, self._codes = layer, codes
        self._alike = _are_alike(core, number)
        self._state = self._core.state
        self._axes: dict[tuple[int, Span, bool], Hashable] = {}
        self._places = _has_places(macro)
        self._pairs = core.shape.multiplier == "dual"
        inputs = [node for node in macro.nodes if isinstance(node.operator, TWO_MAPS)]
        self._fixed = tuple(
            tensor.shape == node.output.shape for node in inputs for tensor in node.inputs
        )

    def cost(self, tile: Tile, cut: Cut) -> TileCost:
        """Return the cost of a tile."""
        self._state = self._state._replace(inputs=0, entries=0)
        return self._code(tile, cut).cost

    def micro_ops(self, cut: Cut) -> int:
        """Return the micro-ops of all tiles of a cut; equal lists are stored once."""
        self._state = self._state._replace(inputs=0, entries=0)
        lists: set[int] = set()
        for tile in tiles_of(self._core.macro, cut, self._core.shape):
            lists.update(self._code(tile, cut).lists)
        return sum(self._codes.lengths[number] for number in lists)

    def _code(self, tile: Tile, cut: Cut) -> TileCode:
        if self._alike:
            kind = self._layer, self._state, self._kind(tile, cut)
            found = self._codes.known.get(kind)
            if found is None:
                found = self._codes.known[kind] = self._generated(tile, cut)
        else:
            found = self._generated(tile, cut)
        self._state = found.after
        return found

    def _kind(self, tile: Tile, cut: Cut) -> Hashable:
        """Return the size and the edges of a tile, and the shares of its results per destination.
        Code depends on edges if products at padding are skipped, or if pixels are paired."""
        core = self._core
        rows = self._along(0, tile.rows, self._pairs or cut.edges != "")
        columns = self._along(1, tile.columns, self._pairs or cut.edges == "all")
        shares = [
            _share(core, tile, target)
            for tensor in core.macro.outputs
            for target in core.targets_of(tensor)
        ]
        place = (tile, *_maps(core.macro)) if self._places else None
        return cut[3:], tile.blocks, rows, columns, self._fixed, place, *shares

    def _along(self, axis: int, span: Span, edges: bool) -> Hashable:
        """Return the sizes of a tile along an axis in all maps, and how far it is outside them."""
        key = axis, span, edges
        if key not in self._axes:
            macro = self._core.macro
            spans = spans_along(macro, span, axis)
            found: list[Hashable] = [one.size for one in spans]
            if edges:
                sizes = [shape[1 + axis] for shape in _maps(macro)]
                found += map(_outside, spans, sizes)
            self._axes[key] = tuple(found)
        return self._axes[key]

    def _generated(self, tile: Tile, cut: Cut) -> TileCode:
        core, tables = self._core, self._tables
        core.state, core.steps, tables.lists = self._state, [], {}
        core.emit_tile(self._product, tile, cut)
        count = sum(map(len, tables.lists))
        cost = tile_cost(core.steps, count, core.shape, tables.headers)
        return TileCode(cost, tuple(map(self._codes.number, tables.lists)), core.state)


def _are_alike(core: ProgramBuilder, number: int) -> bool:
    """Return whether tiles of a kind have the same code: not if they stream weights, which may be
    in memory already, or use addresses that need a base, or parameters as operands."""
    near = core.area.first <= WITHOUT_BASE
    return near and number not in core.dynamic and core.options.bias == "init"


def _maps(macro: Macro) -> list[tuple[int, ...]]:
    """Return the shapes of the first input and of each node's result."""
    return [one.shape for one in (macro.nodes[0].inputs[0], *(node.output for node in macro.nodes))]


def _outside(span: Span, length: int) -> tuple[int, int]:
    return max(0, -span.first), max(0, span.stop - length)


def _has_places(macro: Macro) -> bool:
    """Return whether code depends on the place of a tile: by packet headers of windows, edges of
    bits, or factors per pixel."""
    if macro.windows is not None or macro.nodes[0].inputs[0].type == "bits":
        return True
    return any(
        isinstance(node.operator, op.Requantise) and node.operator.how.factor.m0.ndim == 3
        for node in macro.nodes
    )


def _share(core: ProgramBuilder, tile: Tile, target: Target) -> Hashable:
    """Return the rows and blocks of a tile that a destination receives, see `store`."""
    macro, shape = core.macro, core.shape
    kind = target.region.tensor.type
    scale = 2 if isinstance(macro.nodes[-1].operator, op.Upsample) else 1
    rows, blocks = Span(tile.rows.first * scale, tile.rows.stop * scale), tile.blocks
    if kind == "int32":
        blocks = Span(VECTORS_OF_ENTRY * blocks.first, VECTORS_OF_ENTRY * blocks.stop)
    elif kind == "bits":
        share = blocks_of_vector(shape.rows, shape.columns)
        blocks = Span(blocks.first // share, blocks_of(blocks.stop, share))
    some = rows.meet(target.rows)
    return max(0, some.size), max(0, blocks.meet(target.blocks).size), some == rows
