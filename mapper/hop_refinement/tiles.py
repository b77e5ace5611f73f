"""Exchanges between cores in tiles whose rows are in memory, as far as it suffices.

Tiles are rectangles of cores with at most 2^24 entries, in four colours. Tiles of one colour are
not adjacent and start from the same mapping, so their order does not matter; the next colour starts
from the result. Memory only decides how often rows are read: the rows of as many tiles as fit are
gathered at a time; if one tile does not fit, the rows of as many of its pairs as fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.by_label import ByLabel, by_label, sums_by_label
from mapper.graph.rows import HeldRows, Rows
from mapper.hop_refinement.mesh import CoreMesh, Grid
from mapper.hop_refinement.pairwise_fm import Batch, _exchange, _settle
from mapper.limits.domains import FIXED, Domains
from mapper.monitoring.callbacks import Advance, ignore
from storage.arrays import Int32, Int64, Mask

ROW_BYTES = 8  # bytes per entry: id and weight
TILE_ENTRIES = 1 << 24  # entries per tile, at most, 128 MiB, unless it is one core
COLOURS = 4
BUNCHES = 8  # maximum groups of pairs per thread
WORTH_A_CALL = 2048  # vertices per group, approximately: less work does not pay a call


@njit(cache=True, nogil=True)
def _gather_rows(chunk, core, wanted, offset, out_ids, out_weights):
    """Copy the rows of the vertices on selected cores to their positions."""
    first, indptr, ids, weights = chunk
    for i in range(indptr.size - 1):
        v = first + i
        if not wanted[core[v]]:
            continue
        length = indptr[i + 1] - indptr[i]
        out_ids[offset[v] : offset[v] + length] = ids[indptr[i] : indptr[i + 1]]
        out_weights[offset[v] : offset[v] + length] = weights[indptr[i] : indptr[i + 1]]


class Gatherer:
    """Gathers the rows of the vertices on selected cores; the next call overwrites them.

    most : entries that fit in memory
    """

    def __init__(self, rows: Rows, most: int, team: ThreadTeam, advance: Advance) -> None:
        self._rows, self._team, self._advance = rows, team, advance
        self.most = most
        self._degree = rows.degrees()
        self._ids, self._weights = np.empty(0, np.int32), np.empty(0, np.int32)
        self._offset = np.empty(0, np.int64)  # shared by calls: groups keep their batch

    def gather(self, wanted: Mask, core: Int32) -> Batch:
        """Return the rows of the vertices on the selected cores."""
        rows, degree = self._rows, self._degree
        if isinstance(rows, HeldRows):
            self._advance(rows.entries)
            return Batch(wanted, rows.indptr[:-1], degree, rows.ids, rows.weights)
        lengths = np.where(wanted[core], degree, np.int32(0))
        if not self._offset.size:
            self._offset = np.empty(rows.vertices, np.int64)
        offset = np.cumsum(lengths, dtype=np.int64, out=self._offset)
        offset -= lengths
        total = int(lengths.sum(dtype=np.int64))
        del lengths
        if self._ids.size < total:  # allocate the maximum: unused pages need no memory
            size = max(total, min(self.most, rows.entries))
            self._ids, self._weights = np.empty(size, np.int32), np.empty(size, np.int32)
        ids, weights = self._ids, self._weights

        def copy(index: int) -> int:
            chunk = rows.read(index)
            _gather_rows(chunk, core, wanted, offset, ids, weights)
            return int(chunk.indptr[-1] - chunk.indptr[0])

        for entries in self._team.stream(copy, range(rows.chunks)):
            self._advance(entries)
        return Batch(wanted, offset, degree, ids, weights)

    def needs(self, core: Int32, cores: int) -> Int64:
        """Return the number of entries of each core's rows."""
        return sums_by_label(core, self._degree, cores)


@dataclass
class TileGroup:
    """Consecutive tiles whose rows are in memory together.

    cores : mask of their cores
    batch : their rows, once gathered
    """

    cores: Mask
    batch: Batch | None = None


@dataclass(frozen=True)
class CoreTile:
    """Cores that exchange vertices among themselves.

    cores : ndarray[bool], shape (cores of the chip,)
    group : None if the rows of the tile do not fit in memory; then pairs are gathered in batches of
        at least one pair
    """

    cores: Mask
    gatherer: Gatherer
    group: TileGroup | None

    def batches(self, pairs: Int64, core: Int32) -> Iterator[tuple[slice, Batch]]:
        """Yield slices of a list of pairs of the tile's cores, and the rows of their vertices.

        core : of every vertex; vertices may have moved within tiles since the last call
        """
        if self.group is not None:
            if self.group.batch is None:
                self.group.batch = self.gatherer.gather(self.group.cores, core)
            yield slice(0, len(pairs)), self.group.batch
            return
        entries = self.gatherer.needs(core, self.cores.size)[pairs].sum(axis=1)
        at = 0
        while at < len(pairs):
            total = np.cumsum(entries[at:])
            stop = at + max(1, int(np.searchsorted(total, self.gatherer.most, side="right")))
            wanted = np.zeros_like(self.cores)
            wanted[pairs[at:stop]] = True
            yield slice(at, stop), self.gatherer.gather(wanted, core)
            at = stop


def tiles_of(
    rows: Rows,
    core: Int32,
    mesh: CoreMesh,
    memory: int,
    turned: bool,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> list[list[CoreTile]]:
    """Return the tiles of each colour; a single tile with all cores if rows are in memory.

    memory : bytes for rows that are not held in memory
    turned : shift tiles by half a tile, so that other cores come together
    """
    cores, most = mesh.width * mesh.height, memory // ROW_BYTES
    gatherer = Gatherer(rows, most, team, advance)
    if isinstance(rows, HeldRows):
        every = np.ones(cores, np.bool_)
        return [[CoreTile(every, gatherer, TileGroup(every))]]
    needs = gatherer.needs(core, cores)
    tile, colour = tile_of_cores(needs, mesh.width, turned, TILE_ENTRIES)
    entries = np.bincount(tile, weights=needs, minlength=colour.size).astype(np.int64)
    found: list[list[CoreTile]] = []
    group, left = TileGroup(np.zeros(cores, np.bool_)), most
    for one in range(COLOURS):
        found.append([])
        for index in np.flatnonzero((colour == one) & (entries > 0)).tolist():
            mine = tile == index
            if entries[index] > left:
                group, left = TileGroup(np.zeros(cores, np.bool_)), most
            fits = entries[index] <= most
            if fits:
                group.cores |= mine
                left -= int(entries[index])
            found[-1].append(CoreTile(mine, gatherer, group if fits else None))
    return found


def tile_of_cores(needs: Int64, width: int, turned: bool, most: int) -> tuple[Int64, Int64]:
    """Return the tile of each core, and the colour of each tile.

    needs : entries of the rows of each core, by rows of a mesh of this width
    most : entries per tile, at most, unless it is one core
    The sides of the mesh are cut into as few parts as suffice, the side with longer parts first.
    """
    height = needs.size // width
    y, x = np.divmod(np.arange(needs.size), width)
    across = down = 1
    while True:
        column, row = _part(x, width, across, turned), _part(y, height, down, turned)
        columns = int(column.max()) + 1
        tile = row * columns + column
        held = np.bincount(tile, weights=needs)
        if held.max() <= most or (across, down) == (width, height):
            break
        if across < width and width * down >= height * across:
            across += 1
        else:
            down += 1
    place = np.arange(held.size)
    return tile, place // columns % 2 * 2 + place % columns % 2


def _part(x: Int64, length: int, parts: int, turned: bool) -> Int64:
    """Return the part of a length that x is in; turned : parts start half a part earlier."""
    half = length if turned and 1 < parts < length else 0
    return (2 * x * parts + half) // (2 * length)


def _frozen(
    pairs: Int64, core: Int32, sizes: Int64, mesh: CoreMesh, domains: Domains | None
) -> tuple[Mask | None, Grid]:
    """Return the vertices that cannot change to the other core of their pair, and the mesh.

    The mesh has the capacities that the other vertices may use.
    """
    if domains is None:
        return None, mesh.grid
    other = np.arange(mesh.capacities.size)
    other[pairs] = pairs[:, ::-1]
    frozen = domains.kind == FIXED
    if not domains.table.all():
        frozen |= ~domains.allows(np.arange(core.size), other[core])
    held = sums_by_label(core[frozen], sizes[frozen], other.size)
    free, least = np.maximum(mesh.capacities - held, 0), np.maximum(mesh.least - held, 0)
    return frozen, replace(mesh, capacities=free, bounds=least).grid


def pairwise_fm_round(
    tile: CoreTile,
    mesh: CoreMesh,
    core: Int32,
    sizes: Int64,
    sets: Sequence[Int64],
    passes: int,
    rng: np.random.Generator,
    team: ThreadTeam,
    domains: Domains | None = None,
) -> tuple[int, int]:
    """Process all pairs of cores of a tile once; `core` is changed in place.

    core : ndarray[int32], shape (vertices,), core id
    sizes : of the vertices
    sets : sets of disjoint pairs of cores
    domains : of the vertices; fixed vertices have size 0

    Returns the number of moves, and the hops saved (approximate: pairs ignore each other's moves).
    """
    moved = won = 0
    for k in rng.permutation(len(sets)):
        pairs = sets[k][tile.cores[sets[k]].all(axis=1)]
        if not pairs.size:
            continue
        frozen, grid = _frozen(pairs, core, sizes, mesh, domains)
        by_core = by_label(core, mesh.capacities.size, frozen)
        counts = np.diff(by_core.start)[pairs].sum(axis=1)
        side_start = np.append(0, np.cumsum(counts))
        side = np.empty(side_start[-1], np.uint8)

        for places, batch in tile.batches(pairs, core):
            starts = side_start[places.start : places.stop + 1]

            def work(
                bunch: Int64,
                pairs: Int64 = pairs[places],
                by_core: ByLabel = by_core,
                batch: Batch = batch,
                side: NDArray[np.uint8] = side,
                starts: Int64 = starts,
                grid: Grid = grid,
            ) -> int:
                at = starts[bunch]
                return int(
                    _exchange(pairs[bunch], by_core, batch, sizes, core, grid, passes, side, at)
                )

            count = places.stop - places.start
            most = max(team.threads, int(starts[-1] - starts[0]) // WORTH_A_CALL)
            bunches = np.array_split(np.arange(count), min(BUNCHES * team.threads, most))
            won += sum(team.map(work, [bunch for bunch in bunches if bunch.size]))
        moved += int(_settle(pairs, by_core, core, side, side_start))
    return moved, won


def exchange_in_tiles(
    colours: Sequence[Sequence[CoreTile]],
    mesh: CoreMesh,
    core: Int32,
    sizes: Int64,
    sets: Sequence[Int64],
    passes: int,
    rng: np.random.Generator,
    team: ThreadTeam,
    domains: Domains | None = None,
) -> tuple[int, int]:
    """Process all pairs of cores that are in one tile once; `core` is changed in place.

    colours : see `tiles_of`
    other parameters : see `pairwise_fm_round`

    Returns the number of moves, and approximately the hops saved.
    """
    moved = saved = 0
    alone = sum(map(len, colours)) == 1
    for colour in colours:
        draws = rng.integers(2**62, size=0 if alone else len(colour)).tolist()
        changed: list[tuple[Int64, Int32]] = []
        for at, tile in enumerate(colour):
            own = core if alone else core.copy()
            rng_of = rng if alone else np.random.default_rng(draws[at])
            found = pairwise_fm_round(tile, mesh, own, sizes, sets, passes, rng_of, team, domains)
            moved, saved = moved + found[0], saved + found[1]
            vertices = np.flatnonzero(own != core)
            changed.append((vertices, own[vertices]))
        for vertices, cores in changed:
            core[vertices] = cores
    return moved, saved
