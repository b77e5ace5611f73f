"""Tiling of feature maps for a core with internal feature memory.

A tile is loaded, multiplied, processed by the ALU and stored, in a pipeline with other tiles; the
slowest unit determines the throughput. The cost of a tile per unit is measured on its generated
instructions. Cuts of a layer are ranked by sums over their tiles; among the best, the cuts with the
earliest end are chosen by following the tiles of all layers through the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.program.inputs import Span
from mapper.compiler.tiling.streams import TileStream, tile_stream
from mapper.compiler.tiling.tile_pipeline import CutChoice, Pipeline, TileCost
from mapper.compiler.tiling.tiles import (
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

AHEAD = 3  # layers that are followed after the layer whose cut is chosen
MICRO_OP = (0.0, 0.25, 1.0, 4.0)  # cycles per micro-op in the objective, tried in order
INSTRUCTION = 0.25  # cycles per instruction in the objective


class Breadth(NamedTuple):
    """Breadth of the search for the cut of a layer.

    followed : cuts whose tiles are followed
    padded : cuts that are also tried without products with padding
    equal : additional cuts into equal tiles, which need fewer micro-ops
    """

    followed: int = 12
    padded: int = 4
    equal: int = 2


DEFAULT = Breadth()


Measure = Callable[[Tile, Cut], TileCost]
"""Return the cost of a tile; raises `DoesNotFitError` if a small memory is too small."""


def choices(
    macro: Macro, shape: NpuShape, measure: Measure, count: Callable[[Cut], int],
    plane: tuple[int, int] | None = None, breadth: Breadth = DEFAULT,
) -> list[CutChoice]:  # fmt: skip
    """Return the cuts of a macro node, starting with the default one.

    count : returns the micro-ops of all tiles of a cut
    plane : rows and columns of its tiles, None to choose them
    Raises `DoesNotFitError` if nothing fits.
    """
    measured: dict[tuple[int, ...], TileCost] = {}
    extent = extent_of(macro, shape)
    taken: dict[Span, tuple[int, ...]] = {}

    def made(cut: Cut) -> CutChoice:
        costs, needs, streams = [], [], []
        stream, blocks = tile_stream(macro, cut, shape), None
        for tile in tiles_of(macro, cut, shape):
            streams.append(stream.others if tile.blocks == blocks else stream.first)
            blocks = tile.blocks
            sizes = (*(span.size for span in tile), cut.inputs, *cut.kernel)
            if cut.edges:
                sizes = (*sizes, len(cut.edges), *_touched(tile, extent))
            if sizes not in measured:
                measured[sizes] = measure(tile, cut)
            costs.append(measured[sizes])
            if tile.rows not in taken:
                taken[tile.rows] = _rows_taken(macro, tile)
            needs.append(taken[tile.rows])
        across = -(-extent.columns // cut.columns) * -(-extent.blocks // cut.blocks)
        arriving = tuple(streams) if any(streams) else ()
        return CutChoice(cut, costs, across, needs, count(cut) if cut.edges else 0, arriving)

    base = largest_cut(macro, shape)
    cuts = [base] if plane is None else []
    cuts += [cut for cut in _cuts(macro, shape, base, plane) if cut != base]
    if not cuts:
        assert plane is not None
        raise DoesNotFitError(
            f"{macro.label}: tiles of {plane[1]}x{plane[0]} do not fit in half of the buffers; use "
            "smaller ones with --first-tile"
        )
    found = [made(cuts[0])]
    known = found[0].tiles[0]
    around = 2 if macro.windows is None else 0  # windows have no halo

    def estimate(cut: Cut) -> float:
        stream = tile_stream(macro, cut, shape)
        work = _plane(cut, shape) / _plane(cuts[0], shape)
        return _estimate(cut, cuts[0], known, extent, around, work, stream)

    ranked = sorted(cuts[1:], key=estimate)
    alike = [cut for cut in ranked if _even_tiles(cut, extent)][: breadth.equal]
    followed = list(dict.fromkeys([*ranked[: breadth.followed], *alike]))
    window = window_of(macro.nodes[0])
    if macro.conv is not None and window is not None and any(window.pad):
        padded = [cuts[0], *ranked[: breadth.padded], *alike]
        followed += [cut._replace(edges="rows") for cut in dict.fromkeys(padded)]
        followed += [cut._replace(edges="all") for cut in dict.fromkeys(padded)]
    for cut in followed:
        with suppress(DoesNotFitError):  # small memories: other cuts may need less
            found.append(made(cut))
    return found


def _touched(tile: Tile, extent: Extent) -> tuple[bool, ...]:
    """Return which edges of the feature map a tile touches."""
    ends = tile.rows.stop == extent.rows, tile.columns.stop == extent.columns
    return (tile.rows.first == 0, tile.columns.first == 0, *ends)


def chosen(
    macros: Sequence[Macro],
    options: Sequence[list[CutChoice]],
    limits: Limits,
    shared: bool = False,
) -> list[CutChoice]:
    """Return one cut per macro node, chosen in order: the fewest cycles up to the end of some
    following layers, within the limits of instructions and micro-ops if possible.

    Several costs of a micro-op are tried: higher costs leave more micro-ops for later layers.
    shared : loads and stores share the path to external memory
    """
    makers = {macro.output: number for number, macro in enumerate(macros)}
    sources = [
        [makers.get(tensor, -1) for tensor in dict.fromkeys(macro.inputs)] for macro in macros
    ]
    sizes = {  # cached, as counting micro-ops is slow
        id(one): (one.micro_ops, one.instructions) for choice in options for one in choice
    }

    def size(kept: Sequence[CutChoice]) -> tuple[int, int]:
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
            break  # micro-ops are plentiful
    return min(found, key=lambda one: one[0])[1]


def _ahead(
    state: Pipeline,
    number: int,
    one: CutChoice,
    kept: Sequence[CutChoice],
    sources: list[list[int]],
) -> Pipeline:
    """Return the pipeline state after a layer with a candidate cut and some more layers."""
    trial = [*kept[:number], one, *kept[number + 1 : number + 1 + AHEAD]]
    for at in range(number, len(trial)):
        state = state.stop(at, trial[at], sources[at], trial)
    return state


class Limits(NamedTuple):
    """Limits of the small memories.

    lag : weight of the cycles of a row of tiles compared with cycles of the frame, for cores that
        wait for its rows: low tiles finish early, high tiles need fewer cycles in total
    """

    instructions: int
    micro_ops: int
    lag: float = 0.0


def _rows_taken(macro: Macro, tile: Tile) -> tuple[int, ...]:
    """Return the end of the input rows of a tile for each input feature map of a macro node."""
    spans = spans_of(macro, tile)
    found: dict[Tensor, int] = {}
    for at, node in enumerate(macro.nodes):
        for tensor in node.inputs:
            if tensor in macro.inputs:
                stop = min(spans[at][0].stop, tensor.height)
                found[tensor] = max(found.get(tensor, 1), stop)
    # windows of host inputs are available from the start
    return tuple(found.get(tensor, 1) for tensor in dict.fromkeys(macro.inputs))


def _even_tiles(cut: Cut, extent: Extent) -> bool:
    """Return whether all tiles have the same size."""
    return not (
        extent.rows % cut.rows or extent.columns % cut.columns or extent.blocks % cut.blocks
    )


def _cuts(macro: Macro, shape: NpuShape, base: Cut, plane: tuple[int, int] | None) -> list[Cut]:
    """Return all cuts that fit, each with the largest part of the input."""
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


def _plane(cut: Cut, shape: NpuShape) -> int:
    """Return the approximate cycles of a product with all pixels of a tile, in half cycles of a
    dual multiplier, which computes two pixels at once."""
    at_once = 2 if shape.multiplier == "dual" else 1
    overhead = at_once * shape.loop_overhead
    cycles = cut.rows * (cut.columns + overhead) + overhead
    return max(cycles, at_once * shape.rows) if shape.weight_port == "row" else cycles


def _estimate(
    cut: Cut, base: Cut, known: TileCost, extent: Extent, around: int, work: float,
    stream: TileStream,
) -> float:  # fmt: skip
    """Estimate the cycles of a cut from the measured tile of another one: the slowest unit over the
    whole map, half of the other units' cycles for one tile, and a cost per instruction.

    around : approximate halo of a tile in rows and columns
    work : cycles of a product with the pixels of a tile, relative to the other tile
    stream : cycles in which its weights arrive
    """
    share = cut.rows * cut.columns * cut.blocks / (base.rows * base.columns * base.blocks)
    groups = -(-extent.blocks // cut.blocks)
    tiles = -(-extent.rows // cut.rows) * -(-extent.columns // cut.columns) * groups
    whole = extent.rows * extent.columns * extent.blocks
    even = whole / (base.rows * base.columns * base.blocks)
    area, known_area = ((one.rows + around) * (one.columns + around) for one in (cut, base))
    first = area / known_area
    load = first * known.load + 4
    size = cut.rows * cut.columns / (base.rows * base.columns)
    units = [known.matrix * even * work / size + 5 * tiles, known.alu * even + 10 * tiles,
             known.store * even + 3 * tiles, load * tiles,
             groups * stream.first + (tiles - groups) * stream.others]  # fmt: skip
    rest = load + share * (known.alu + known.store)
    return max(units) + rest / 2 + INSTRUCTION * known.instructions * tiles
