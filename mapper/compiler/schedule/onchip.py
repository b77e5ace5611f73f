"""How the maps of a core with its own memory are cut into tiles.

A tile is loaded, multiplied, worked on by the ALU and stored, while other tiles are elsewhere on
this way; the unit that takes longest sets the pace. What each unit takes of a tile is measured on
the instructions that the tile would become. Cuts of a layer are ranked by sums over their tiles; of
the best ones those are taken with which the tiles of all layers, followed one by one, end first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.schedule.fixed import PLANES
from mapper.compiler.schedule.tiles import (
    Cut,
    Extent,
    Tile,
    extent_of,
    fits,
    largest_cut,
    parts_in,
    spans_of,
    tiles_of,
    window_of,
)
from mapper.errors import DoesNotFitError

FOLLOWED = 12  # cuts of a layer whose tiles are followed
PADDED = 4  # of them, in which products with padding are left out, too
FEW = 2  # cuts into equal tiles among them, which take fewer micro-ops
AHEAD = 3  # layers that are followed behind one whose cut is chosen
MICRO_OP = (0.0, 0.25, 1.0, 4.0)  # cycles that a micro-op less is worth, tried one after the other
INSTRUCTION = 0.25  # cycles that an instruction less is worth


class TileCost(NamedTuple):
    """What a tile takes: cycles of each unit, instructions, and micro-ops.

    loads : in how many parts the inputs come, each multiplied as soon as it is there
    """

    load: int
    matrix: int
    alu: int
    store: int
    loads: int
    instructions: int
    micro_ops: int


Measure = Callable[[Tile, Cut], TileCost]
"""What a tile of a macro node takes; raises `DoesNotFitError` if a small memory is too small."""


class Choice(NamedTuple):
    """A cut, and what its tiles take, in their order.

    across : tiles that have the same rows; needs : rows behind those that a tile takes of
        each map; counted : micro-ops, if those of tiles have much in common
    """

    cut: Cut
    tiles: list[TileCost]
    across: int
    needs: list[tuple[int, ...]]
    counted: int = 0

    @property
    def row_cycles(self) -> int:
        """Cycles of a row of tiles, at the pace of the slowest unit of each."""
        first = self.tiles[: self.across]
        return sum(max(one.load, one.matrix, one.alu, one.store) for one in first)

    @property
    def instructions(self) -> int:
        return sum(tile.instructions for tile in self.tiles)

    @property
    def micro_ops(self) -> int:
        """Of each kind of tile, in both halves of the buffers if there is more than one of it."""
        if self.counted:
            return self.counted
        times = Counter(map(id, self.tiles))
        kinds = {id(tile): tile.micro_ops for tile in self.tiles}
        return sum(min(2, times[kind]) * ops for kind, ops in kinds.items())


def choices(
    macro: Macro, shape: NpuShape, measure: Measure, count: Callable[[Cut], int],
    plane: tuple[int, int] | None = None,
) -> list[Choice]:  # fmt: skip
    """Cuts of a macro node, the one without a search first.

    count : micro-ops of all tiles of a cut
    plane : rows and columns of its tiles, if they are given
    Raises `DoesNotFitError` if nothing fits.
    """
    measured: dict[tuple[int, ...], TileCost] = {}
    extent = extent_of(macro, shape)

    def made(cut: Cut) -> Choice:
        costs, needs = [], []
        for tile in tiles_of(macro, cut, shape):
            sizes = (*(span.size for span in tile), cut.inputs, *cut.kernel)
            if cut.edges:
                sizes = (*sizes, len(cut.edges), *_touched(tile, extent))
            if sizes not in measured:
                measured[sizes] = measure(tile, cut)
            costs.append(measured[sizes])
            needs.append(_rows_taken(macro, tile))
        across = -(-extent.columns // cut.columns) * -(-extent.blocks // cut.blocks)
        return Choice(cut, costs, across, needs, count(cut) if cut.edges else 0)

    base = largest_cut(macro, shape)
    cuts = [base] if plane is None else []
    cuts += [cut for cut in _cuts(macro, shape, base, plane) if cut != base]
    if not cuts:
        assert plane is not None
        raise DoesNotFitError(
            f"{macro.label}: tiles of {plane[1]}x{plane[0]} do not fit half of the buffers; give "
            "smaller ones with --first-tile"
        )
    found = [made(cuts[0])]
    known = found[0].tiles[0]
    around = 2 if macro.windows is None else 0  # windows have all pixels that they take
    ranked = sorted(cuts[1:], key=lambda cut: _estimate(cut, cuts[0], known, extent, around))
    alike = [cut for cut in ranked if _even_tiles(cut, extent)][:FEW]  # fewer kinds of tiles
    followed = list(dict.fromkeys([*ranked[:FOLLOWED], *alike]))
    window = window_of(macro.nodes[0])
    if macro.conv is not None and window is not None and any(window.pad):
        padded = [cuts[0], *ranked[:PADDED], *alike]
        followed += [cut._replace(edges="rows") for cut in dict.fromkeys(padded)]
        followed += [cut._replace(edges="all") for cut in dict.fromkeys(padded)]
    for cut in followed:
        with suppress(DoesNotFitError):  # of the small memories: others take less of them
            found.append(made(cut))
    return found


def _touched(tile: Tile, extent: Extent) -> tuple[bool, ...]:
    """Which edges of the map a tile lies at."""
    ends = (
        tile.rows.stop == extent.rows, tile.columns.stop == extent.columns,
    )  # fmt: skip
    return (tile.rows.first == 0, tile.columns.first == 0, *ends)


def chosen(
    macros: Sequence[Macro], options: Sequence[list[Choice]], limits: Limits, shared: bool = False
) -> list[Choice]:
    """One cut for each macro node: the fewest cycles up to the end of some layers behind, each in
    turn; never more instructions or micro-ops than fit, if there are cuts that fit.

    What a micro-op costs is tried: the more it does, the more of them are left for layers behind.
    shared : whether loads and stores share the way to external memory
    """
    makers = {macro.output: number for number, macro in enumerate(macros)}
    sources = [
        [makers.get(tensor, -1) for tensor in dict.fromkeys(macro.inputs)] for macro in macros
    ]
    sizes = {  # counting micro-ops takes long
        id(one): (one.micro_ops, one.instructions) for choice in options for one in choice
    }

    def size(kept: Sequence[Choice]) -> tuple[int, int]:
        micro_ops, instructions = (sum(sizes[id(one)][at] for one in kept) for at in range(2))
        return micro_ops, instructions

    start = [choice[0] for choice in options]
    for at, most in enumerate((limits.micro_ops, limits.instructions)):
        if size(start)[at] > most:
            start = [min(choice, key=lambda one: sizes[id(one)][at]) for choice in options]
            break
    found = []
    for price in MICRO_OP:
        kept = list(start)
        state = Pipeline.empty(len(macros), shared)
        for number, choice in enumerate(options):
            whole, mine = size(kept), sizes[id(kept[number])]
            room = limits.micro_ops - whole[0] + mine[0], limits.instructions - whole[1] + mine[1]
            fit = [
                one
                for one in choice
                if one is kept[number]
                or (sizes[id(one)][0] <= room[0] and sizes[id(one)][1] <= room[1])
            ]
            ranks = [
                _ahead(state, number, one, kept, sources).end
                + INSTRUCTION * sizes[id(one)][1]
                + price * sizes[id(one)][0]
                + limits.lag * one.row_cycles
                for one in fit
            ]
            kept[number] = fit[ranks.index(min(ranks))]
            state = state.stop(number, kept[number], sources[number], kept)
        late = limits.lag * sum(one.row_cycles for one in kept)
        micro_ops, instructions = size(kept)
        found.append((state.end + INSTRUCTION * instructions + late, kept))
        if micro_ops <= limits.micro_ops // 2:
            break  # there is more than enough for all
    return min(found, key=lambda one: one[0])[1]


def _ahead(
    state: Pipeline, number: int, one: Choice, kept: Sequence[Choice], sources: list[list[int]]
) -> Pipeline:
    """Behind a layer with a cut that is tried, and some layers more."""
    trial = [*kept[:number], one, *kept[number + 1 : number + 1 + AHEAD]]
    for at in range(number, len(trial)):
        state = state.stop(at, trial[at], sources[at], trial)
    return state


class Limits(NamedTuple):
    """Of the small memories.

    lag : what a cycle of a row of tiles is worth beside one of the frame, for cores that wait for
        its rows: low tiles come early, high ones take fewer cycles in all
    """

    instructions: int
    micro_ops: int
    lag: float = 0.0


class Pipeline(NamedTuple):
    """When the units are free behind some layers, and buffers left.

    free : of load, matrix, ALU and store
    inputs, sums, results : when the last two tiles left their halves of the buffers
    rows : when each row of a layer's tiles is stored, by layer
    moved : cycles of all loads and stores, which share the way to external memory; 0 if there is
        none
    """

    free: tuple[int, int, int, int]
    inputs: tuple[int, int]
    sums: tuple[int, int]
    results: tuple[int, int]
    rows: tuple[tuple[int, ...], ...]
    moved: int
    shared: bool

    @classmethod
    def empty(cls, layers: int, shared: bool = False) -> Pipeline:
        """Before the first layer; shared : whether maps are in external memory."""
        return cls((0, 0, 0, 0), (0, 0), (0, 0), (0, 0), ((),) * layers, 0, shared)

    @property
    def end(self) -> int:
        """When the last result is stored."""
        return max(self.free[3], self.moved)

    def stop(
        self, number: int, choice: Choice, sources: list[int], kept: Sequence[Choice]
    ) -> Pipeline:
        """Behind one more layer. A load waits until the matrix unit has left the half it fills and
        for the rows it takes, the matrix unit for the ALU, and the ALU for the store.

        sources : the layers that make the maps it takes, -1 of what is there before
        """
        load, matrix, alu, store = self.free
        inputs, sums, results = self.inputs, self.sums, self.results
        rows: list[int] = []
        for tile, needs in zip(choice.tiles, choice.needs, strict=True):
            there = max(
                (
                    self.rows[source][
                        min((need - 1) // kept[source].cut.rows, len(self.rows[source]) - 1)
                    ]
                    for source, need in zip(sources, needs, strict=True)
                    if source >= 0 and self.rows[source]
                ),
                default=0,
            )
            begin = max(load, inputs[0], there)
            load = begin + tile.load
            parts = max(1, tile.loads)
            matrix = max(
                max(matrix, begin + -(-tile.load // parts), sums[0]) + tile.matrix,
                load + tile.matrix // parts,
            )
            inputs = (inputs[1], matrix)
            alu = max(alu, matrix, results[0]) + tile.alu
            sums = (sums[1], alu)
            store = max(store, alu) + tile.store
            results = (results[1], store)
            rows.append(store)
        done = tuple(rows[choice.across - 1 :: choice.across])
        layers = (*self.rows[:number], done, *self.rows[number + 1 :])
        moved = sum(tile.load + tile.store for tile in choice.tiles) if self.shared else 0
        return Pipeline(
            (load, matrix, alu, store),
            inputs,
            sums,
            results,
            layers,
            self.moved + moved,
            self.shared,
        )


def _rows_taken(macro: Macro, tile: Tile) -> tuple[int, ...]:
    """For each map that a macro node takes, the rows behind those that a tile takes of it."""
    spans = spans_of(macro, tile)
    found: dict[Tensor, int] = {}
    for at, node in enumerate(macro.nodes):
        for tensor in node.inputs:
            if tensor in macro.inputs:
                stop = min(spans[at][0].stop, tensor.height)
                found[tensor] = max(found.get(tensor, 1), stop)
    # windows are made of maps of the host, which are there
    return tuple(found.get(tensor, 1) for tensor in dict.fromkeys(macro.inputs))


def _even_tiles(cut: Cut, extent: Extent) -> bool:
    """Whether all tiles have one size."""
    return not (
        extent.rows % cut.rows or extent.columns % cut.columns or extent.blocks % cut.blocks
    )


def fixed_cut(rule: str, macro: Macro, shape: NpuShape) -> Cut:
    """The cut of a fixed rule, with as few blocks each way as there may be."""
    extent, base = extent_of(macro, shape), largest_cut(macro, shape)
    most = (PLANES[rule],) * 2 if rule in PLANES else (extent.rows, extent.columns)
    blocks = min(extent.share, extent.blocks)
    for columns in range(min(most[1], extent.columns), 0, -1):
        for rows in range(min(most[0], extent.rows), 0, -1):
            cut = Cut(rows, columns, blocks, 1, base.kernel)
            if fits(macro, shape, cut):
                return cut
    return base


def _cuts(macro: Macro, shape: NpuShape, base: Cut, plane: tuple[int, int] | None) -> list[Cut]:
    """All that fit, with the largest part of the input at once."""
    extent = extent_of(macro, shape)
    rows = parts_in(extent.rows) if plane is None else [min(plane[0], extent.rows)]
    wide = parts_in(extent.columns) if plane is None else [min(plane[1], extent.columns)]
    found = []
    for columns in wide:
        for blocks in parts_in(extent.blocks):
            if blocks < extent.blocks and blocks % extent.share:
                continue
            for high in rows:
                for inputs in parts_in(extent.inputs):
                    cut = Cut(high, columns, blocks, inputs, base.kernel)
                    if fits(macro, shape, cut):
                        found.append(cut)
                        break
    return found


def _estimate(cut: Cut, base: Cut, known: TileCost, extent: Extent, around: int) -> float:
    """Cycles of a cut, in proportion to what a tile of another one takes: the slowest unit over the
    whole map, half of what the others take of one tile, and a bit for each instruction.

    around : rows and columns that tiles load besides their own, about
    """
    share = cut.rows * cut.columns * cut.blocks / (base.rows * base.columns * base.blocks)
    tiles = (
        -(-extent.rows // cut.rows)
        * -(-extent.columns // cut.columns)
        * -(-extent.blocks // cut.blocks)
    )
    whole = extent.rows * extent.columns * extent.blocks
    even = whole / (base.rows * base.columns * base.blocks)
    area, known_area = ((one.rows + around) * (one.columns + around) for one in (cut, base))
    first = area / known_area
    load = first * known.load + 4
    units = [known.matrix * even + 5 * tiles, known.alu * even + 10 * tiles,
             known.store * even + 3 * tiles, load * tiles]  # fmt: skip
    rest = load + share * (known.alu + known.store)
    return max(units) + rest / 2 + INSTRUCTION * known.instructions * tiles
