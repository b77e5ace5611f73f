"""Line buffers of a model: tile widths, order of the tiles of each core, and columns of each ring.

Tiles are narrow, so that a core keeps few columns of its input. Before a cut is known, a part of
typical size stands for each layer; once it is known, all tiles of all cores are put in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.multicore.areas import Homes
from mapper.compiler.multicore.cores import ChipState
from mapper.compiler.multicore.job import Whole
from mapper.compiler.multicore.line_buffers.rings import (
    Access,
    RingNeed,
    TiledPart,
    arrivals,
    columns_read,
    columns_written,
    ring_needs,
    sequence,
)
from mapper.compiler.multicore.slices import Slice, slice_macro
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.steps import most_of
from mapper.compiler.tiling.tiles import (
    Cut,
    Tile,
    extent_of,
    fits,
    largest_cut,
    parts_in,
    spans_of,
    tiles_of,
)
from mapper.errors import DoesNotFitError

CutsOfCore = Callable[[Sequence[int], Sequence[Macro]], list[Cut]]
"""Return the tile sizes of the parts of layers on a core, given with the indices of their macro
nodes."""
MOST_TILES = 48
"""Maximum tiles across a map, unless only narrower ones fit: each tile has its own instructions."""
FILLED = 3 / 8
"""Share of half of the accumulators that a tile should fill; wider tiles would overlap less."""
MOST_COLUMNS = most_of("LOAD", "INP")["wrap"] + 1
"""Columns that a load may have wherever a ring ends."""


class Lines(NamedTuple):
    """Line buffers of a model.

    columns : columns that a core keeps of an input map, by macro node and the map that owns its
        region
    widths : most columns of a tile of each macro node
    links : estimated instructions per tile that wait for data and send credits
    tight : the columns leave no room for producers to run ahead
    """

    columns: Mapping[tuple[int, Tensor], int]
    widths: list[int]
    links: int
    tight: bool = False


def narrow_cut(macro: Macro, shape: NpuShape, most: int) -> Cut:
    """Return the tile sizes of a part of a layer that runs from left to right: the fewest tiles.

    most : columns of a tile
    Raises `DoesNotFitError` if no tile fits.
    """
    extent, base = extent_of(macro, shape), largest_cut(macro, shape)

    def tiles(cut: Cut) -> int:
        sizes = zip(extent[:3], cut[:3], strict=True)
        return math.prod(-(-whole // each) for whole, each in sizes)

    found: list[Cut] = []
    for columns in range(1, min(most, extent.columns) + 1):
        if columns == 1 or _columns_loaded(macro, columns) <= MOST_COLUMNS:
            found += _cuts_of(macro, shape, columns, base.kernel)
    return min(found, key=lambda cut: (tiles(cut), cut.columns), default=base)


def _columns_loaded(macro: Macro, columns: int) -> int:
    """Return the most columns that a tile of a number of columns loads, padding included."""
    tile = Tile(Span(0, 1), Span(0, columns), Span(0, 1))
    return max(wide.size for _, wide in spans_of(macro, tile)[:-1])


def _cuts_of(macro: Macro, shape: NpuShape, columns: int, kernel: tuple[int, int]) -> Iterator[Cut]:
    """Yield the tallest cut for each number of blocks."""
    extent = extent_of(macro, shape)
    for blocks in parts_in(extent.blocks):
        if blocks == extent.blocks or not blocks % extent.share:
            found = _tallest(macro, shape, (columns, blocks, kernel))
            if found is not None:
                yield found


def _width(macro: Macro, shape: NpuShape) -> int:
    """Return the most columns of the tiles of a layer, given a part of typical size."""
    extent, base = extent_of(macro, shape), largest_cut(macro, shape)
    widest = 1
    for columns in range(1, extent.columns + 1):
        if columns > 1 and _columns_loaded(macro, columns) > MOST_COLUMNS:
            break
        cuts = _cuts_of(macro, shape, columns, base.kernel)
        widest = columns
        filled = max((one.rows * columns * one.blocks for one in cuts), default=0)
        if filled >= FILLED * shape.entries / 2 and columns * MOST_TILES >= extent.columns:
            break
    return widest


def _tallest(macro: Macro, shape: NpuShape, size: tuple[Any, ...]) -> Cut | None:
    """Return the cut with most rows and the largest part of the input that fits.

    size : columns, blocks, and part of the kernel
    """
    extent = extent_of(macro, shape)
    columns, blocks, kernel = size
    for inputs in parts_in(extent.inputs):
        for rows in parts_in(extent.rows):
            cut = Cut(rows, columns, blocks, inputs, kernel)
            if fits(macro, shape, cut):
                return cut
    return None


def lines_of(
    whole: Whole, shape: NpuShape, cores: int, links: int = 8, tight: bool = False
) -> Lines:
    """Choose the widths of tiles, and estimate the columns that cores keep of each map.

    cores : number of cores that share the model; links, tight : see `Lines`
    """
    homes = Homes(whole.places, shape.columns)
    each = max(1, cores // len(whole.macros))  # cores per layer
    parts: list[TiledPart] = []
    widths: list[int] = []
    owners: dict[tuple[int, Tensor], int] = {}
    every: set[Tensor] = {homes.of(one).owner for one in whole.written}
    for number, macro in enumerate(whole.macros):
        made, width = _typical(macro, shape, each)
        of = {one.part: homes.of(one.whole).owner for one in made.inputs}
        owners |= {(number, owner): owner.width for owner in of.values()}
        every |= {*of.values(), *(homes.of(one.whole).owner for one in made.outputs)}
        widths.append(width)
        tiles = tiles_of(made.macro, narrow_cut(made.macro, shape, widths[-1]), shape, True)
        regions = {part: (number, owner) for part, owner in of.items()}
        parts.append(_tiled(number, made, tiles, homes, regions))
    host = {homes.of(tensor).owner: at for tensor, at in whole.written.items()}
    order = sequence(parts, arrivals(every, host))
    needs: Mapping[Any, RingNeed] = ring_needs(parts, order, owners, frozenset(host))
    columns = {
        key: min(need.least + (0 if tight else need.step), owners[key])
        for key, need in needs.items()
        if homes.can_wrap(key[1], whole.tensors)
        and host.get(key[1], whole.functions[key[0]]) == whole.functions[key[0]]
    }
    return Lines(columns, widths, links, tight)


def _typical(macro: Macro, shape: NpuShape, cores: int) -> tuple[Slice, int]:
    """Return a part of a layer and the most columns of its tiles: an equal share of its rows, or
    less if no tile of it fits.

    cores : number of cores that share the layer
    Raises `DoesNotFitError` if not even a row has a tile.
    """
    extent = extent_of(macro, shape)
    rows = -(-extent.rows // cores)
    while True:
        first = (extent.rows - rows) // 2
        made = slice_macro(macro, Span(first, first + rows), Span(0, extent.blocks), shape.columns)
        try:
            return made, _width(made.macro, shape)
        except DoesNotFitError:  # headers of windows are limited per part
            if rows == 1:
                raise
        rows = -(-rows // 2)


def _tiled(
    layer: int, made: Slice, tiles: Iterable[Tile], homes: Homes, regions: Mapping[Tensor, Hashable]
) -> TiledPart:
    """Return a part of a layer with the columns that its tiles read and write.

    layer : index of its macro node; regions : regions of its inputs
    """
    wholes = {one.part: one.whole for one in made.inputs}
    part = TiledPart(layer, [], [])

    def access(whole: Tensor, span: Span, region: Hashable = None) -> Access:
        return Access(homes.of(whole).owner, homes.columns(whole, span), region)

    for tile in tiles:
        spans = zip(made.macro.inputs, columns_read(made.macro, tile), strict=True)
        part.reads.append([access(wholes[one], span, regions[one]) for one, span in spans])
        written = columns_written(made.macro, tile)
        part.writes.append(list(dict.fromkeys(access(one.whole, written) for one in made.outputs)))
    return part


def order_tiles(chip: ChipState, cuts: CutsOfCore) -> None:
    """Choose the order of the tiles of each core, and its rings with the columns that they need."""
    homes, shape, cores = chip.homes, chip.shape, chip.cores.values()
    parts, places = [], []
    for core in cores:
        macros = [made.macro for made in core.slices]
        core.cuts = cuts([piece.macro for piece in core.pieces], macros)
        for number, (piece, made) in enumerate(zip(core.pieces, core.slices, strict=True)):
            tiles = tiles_of(made.macro, core.cuts[number], shape, by_columns=True)
            regions = {one.part: (core.place, chip.key(core, one)) for one in made.inputs}
            parts.append(_tiled(piece.macro, made, tiles, homes, regions))
            places.append((core, number))
    used = [one for core in cores for made in core.slices for one in made.inputs + made.outputs]
    host = frozenset(chip.functions)
    order = sequence(parts, arrivals({homes.of(one.whole).owner for one in used}, chip.functions))
    for part in order.part.tolist():
        core, number = places[part]
        core.order.append(number)
    widths = {
        (core.place, key): kept.owner.width for core in cores for key, kept in core.kept.items()
    }
    needs = ring_needs(parts, order, widths, host)
    for core in cores:
        for key, kept in core.kept.items():
            need = needs.get((core.place, key))
            if need is None:  # its layers read only padding
                continue
            given = kept.owner in host and kept.owner not in chip.whole.written
            # the host would wait for a later function before it sends the rest to this one
            later = chip.functions.get(kept.owner, core.function) < core.function
            narrow = need.least < kept.owner.width and not given and not later
            if narrow and homes.can_wrap(kept.owner, chip.tensors):
                core.rings[key] = need
