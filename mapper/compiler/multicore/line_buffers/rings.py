"""Line buffers: the columns of feature maps that cores keep, and the order of tiles.

Maps pass through the layers column by column. Parts of layers are strips of rows; each computes its
tiles from left to right, as soon as its input has the columns that they read. A core keeps a map in
a ring of columns: a new column replaces one that no later tile reads.

One sequence of all tiles of all cores determines order and sizes. Each tile follows the producers
of its input, and a ring has room for each new column after all earlier tiles have ended. So there
is no deadlock: of all tiles that have not ended, the first one has its input, and room for its
result. Cores run in parallel; more columns than the sequence needs let a producer run ahead.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Product, Upsample, WindowColumns
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.program.inputs import Span, needed
from mapper.compiler.tiling.tiles import Tile, spans_of

LATE = 0.5
"""Delay of a layer after its input, in tiles: on a core with several layers, tiles of others run in
between, while a result is stored that the next tile of the layer loads."""
FUNCTION = 1e6
"""Time of a function in the order of tiles; more than any sum of such delays."""


class Access(NamedTuple):
    """Columns of a map that a tile reads or writes.

    owner : map that owns the region; region : region of a core, for a reader
    """

    owner: Hashable
    columns: Span
    region: Hashable = None


class TiledPart(NamedTuple):
    """A part of a layer on a core, with its tiles in order.

    layer : index of its macro node
    reads, writes : accesses of each tile
    """

    layer: int
    reads: list[list[Access]]
    writes: list[list[Access]]


class TileSequence(NamedTuple):
    """Order of all tiles. part, tile : int64, indices of the part, and of its tile"""

    part: NDArray[np.int64]
    tile: NDArray[np.int64]


def columns_read(macro: Macro, tile: Tile) -> list[Span]:
    """Return the columns that a tile reads of each input of a macro node, without padding."""
    spans = spans_of(macro, tile)
    found: dict[Tensor, Span] = {}
    if macro.windows is not None:
        data, operator = macro.windows.inputs[0], macro.windows.operator
        assert isinstance(operator, WindowColumns)
        found[data] = needed(spans[0][1], operator.window, 1).meet(Span(0, data.width))
    for at, node in enumerate(macro.nodes):
        for tensor in node.inputs:
            if tensor not in macro.inputs:
                continue
            span = spans[at][1].meet(Span(0, tensor.width))
            if isinstance(node.operator, Product) and tensor.width < node.output.width:
                span = Span(0, tensor.width)
            found[tensor] = span.around(found[tensor]) if tensor in found else span
    return [found[tensor] for tensor in macro.inputs]


def columns_written(macro: Macro, tile: Tile) -> Span:
    """Return the columns of the result that a tile writes."""
    last = macro.nodes[-1].operator
    scale = last.columns if isinstance(last, Upsample) else 1
    return Span(tile.columns.first * scale, tile.columns.stop * scale)


def arrivals(
    owners: Iterable[Tensor], host: Mapping[Tensor, int]
) -> dict[Tensor, NDArray[np.float64]]:
    """Return when the host has sent each column of its maps, as a share of the frame; 0 for other
    maps. Inputs of a function from the host depend on all results of the previous one.

    owners : all maps; host : function for which the host sends a map
    """
    return {
        one: FUNCTION * host[one] + (1 + np.arange(one.width)) / one.width
        if one in host
        else np.zeros(one.width)
        for one in owners
    }


def sequence(parts: Sequence[TiledPart], ready: Mapping[Any, NDArray[np.float64]]) -> TileSequence:
    """Return all tiles in an order in which each tile follows the producers of its input.

    parts : in order of their layers
    ready : when each column of a map is complete; known for maps of the host, computed here for
        the other maps
    """
    rows: list[tuple[float, int, int, int]] = []
    for layer in sorted({one.layer for one in parts}):
        made: list[tuple[Access, float]] = []
        for number, part in enumerate(parts):
            if part.layer != layer:
                continue
            latest, across = 0.0, len({one.columns for some in part.writes for one in some})
            late = LATE / max(1, across)
            for tile, (reads, writes) in enumerate(zip(part.reads, part.writes, strict=True)):
                for one in reads:
                    if one.columns.size > 0:  # otherwise the tile reads only padding
                        latest = max(latest, float(ready[one.owner][slice(*one.columns)].max()))
                rows.append((latest + late, layer, number, tile))
                made += [(one, latest + late) for one in writes]
        for one, time in made:
            some = ready[one.owner][slice(*one.columns)]
            np.maximum(some, time, out=some)
    rows.sort(key=lambda row: (row[0], row[1], row[3], row[2]))
    table = np.array([row[2:] for row in rows], np.int64).reshape(-1, 2)
    return TileSequence(table[:, 0], table[:, 1])


class RingNeed(NamedTuple):
    """Columns that a region must keep.

    least : columns that the sequence needs
    step : columns of the widest write, plus columns from a reading tile to the next; with as many
        more, producer and consumer overlap by one tile
    band : columns that are freed at a time
    """

    least: int
    step: int
    band: int


def ring_needs(
    parts: Sequence[TiledPart], order: TileSequence, widths: Mapping[Any, int],
    host: frozenset[Hashable],
) -> dict[Hashable, RingNeed]:  # fmt: skip
    """Return the columns that each region must keep.

    widths : columns of the whole map, by region
    host : maps that the host writes, each band just before its first read
    """
    places = {
        (int(part), int(tile)): at
        for at, (part, tile) in enumerate(zip(order.part, order.tile, strict=True))
    }
    readers: dict[Hashable, list[tuple[int, Span]]] = {}
    owners: dict[Hashable, Hashable] = {}
    writers: dict[Hashable, list[tuple[int, Span]]] = {}
    steps: dict[Hashable, list[int]] = {}
    for number, part in enumerate(parts):
        before: dict[Hashable, int] = {}
        for tile, (reads, writes) in enumerate(zip(part.reads, part.writes, strict=True)):
            at = places[number, tile]
            for one in reads:
                if one.columns.size <= 0:
                    continue
                readers.setdefault(one.region, []).append((at, one.columns))
                owners[one.region] = one.owner
                if one.region in before and one.columns.first > before[one.region]:
                    steps.setdefault(one.region, []).append(one.columns.first - before[one.region])
                before[one.region] = one.columns.first
            for one in writes:
                writers.setdefault(one.owner, []).append((at, one.columns))
    found = {}
    for region, read in readers.items():
        width, owner = widths[region], owners[region]
        last, first = np.full(width, -1), np.full(width, len(places))
        for at, span in read:
            some = slice(*span)
            last[some], first[some] = np.maximum(last[some], at), np.minimum(first[some], at)
        band = max(1, min(steps.get(region, [width])))
        written = list(writers.get(owner, []))
        if owner in host:
            for begin in range(0, width, band):
                stop = min(begin + band, width)
                written.append((int(first[begin:stop].min()), Span(begin, stop)))
        least, widest = 1, 1
        for at, span in written:
            wanted = np.flatnonzero(last[: span.stop] >= at)
            oldest = int(wanted[0]) if wanted.size else span.first
            oldest = min(oldest, span.first)
            least = max(least, span.stop - oldest // band * band)
            widest = max(widest, span.size)
        reach = max(span.size for _, span in read)
        step = widest + max(steps.get(region, [0]))
        found[region] = RingNeed(min(width, max(least, reach)), step, band)
    return found
