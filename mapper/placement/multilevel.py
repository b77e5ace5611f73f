"""Places from coarse to fine: few merged groups on a coarse mesh, interpolated level by level.

As in multilevel placers of circuits (Chan, Cong and Sze, ISPD 2005) and drawings of large graphs
(Walshaw, J. Graph Algorithms Appl. 7, 2003): groups are paired along heavy connections until few
are left, these are placed by their spectrum on a mesh of as many cells, and on the way back every
group starts where its pair was. The springs of `mapper.placement.quadratic` then have to mend only
what is as small as a pair, so that few stiff rounds are enough; on a million groups slack ones from
the eigenvectors alone had reached 1.5 times the cost in twice the time. Departures: each level has
a mesh of its own, made of the cells that are usable; and its groups are renumbered by their places,
so that the sums over neighbours find them in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mapper.placement.clock import ENDLESS, Clock
from mapper.placement.component_packing import Area
from mapper.placement.force import sum_hops
from mapper.placement.legalise import legalise, ranked, split_cells
from mapper.placement.placer import Placed, Placer, Places, Problem
from mapper.placement.quadratic import pull_together
from mapper.placement.spectral import Search, hierarchy, place_areas, place_by_spectrum
from mapper.placement.traffic import Traffic

COARSEST = 8192  # groups that are placed by their spectrum, about
SHRINK = 3.5  # times fewer groups on the next level, at least
FIRST = 0.02  # stiffness of the springs on the way back; a tenth of it is no better
ROUNDS = 4
BYTES = 60  # for each connection, at most


class Mesh(NamedTuple):
    """The cells of a level. Its coordinates c are low + (c + 1/2) * scale - 1/2 of the finest."""

    cells: NDArray[np.int64]
    low: NDArray[np.float64]
    scale: NDArray[np.float64]


def coarse_mesh(cells: NDArray[np.int64], count: int) -> Mesh:
    """`count` cells of a coarser mesh, those that cover most of the given, shape (n, 2)."""
    low = cells.min(axis=0)
    span = np.ptp(cells, axis=0) + 1
    sides = np.clip(np.ceil(span / np.sqrt(len(cells) / count)).astype(np.int64), 1, span)
    while True:
        column, row = ((cells - low) * sides // span).T
        held = np.bincount(column * sides[1] + row, minlength=int(sides.prod()))
        if np.count_nonzero(held) >= count:
            break
        sides = np.minimum(span, sides + np.maximum(1, sides // 20))  # narrow, or full of holes
    every = np.column_stack(np.divmod(np.arange(held.size), sides[1]))
    far = np.abs(every - (sides - 1) / 2).sum(axis=1)
    kept = np.sort(np.lexsort((far, -held))[:count])
    return Mesh(every[kept], low.astype(np.float64), span / sides)


def _coarsened(
    traffic: Traffic, rng: np.random.Generator, clock: Clock
) -> tuple[list[Traffic], list[NDArray[np.int64]]]:
    """Traffic of every level from fine to coarse, and the maps from each onto the next."""
    found = hierarchy(traffic, rng, COARSEST, clock)
    levels, maps = [traffic], []
    onto = np.arange(traffic.size)
    for k, (_, coarse) in enumerate(found[:-1]):
        onto = coarse[onto]
        matrix = found[k + 1][0]
        if SHRINK * matrix.shape[0] <= levels[-1].size or k == len(found) - 2:
            levels.append(_without_loops(matrix))
            maps.append(onto)
            onto = np.arange(matrix.shape[0])
    return levels, maps


def _without_loops(matrix: Any) -> Traffic:
    entries = matrix.tocoo()
    apart = entries.row != entries.col
    ends = entries.row[apart], entries.col[apart]
    matrix = csr_array((entries.data[apart], ends), shape=matrix.shape)
    weights = np.rint(matrix.data).astype(np.int64)  # sums of integers
    csr = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), weights
    return Traffic(*csr, np.zeros(matrix.shape[0]))


def renumbered(traffic: Traffic, order: NDArray[np.int64]) -> Traffic:
    """The same with group order[i] as number i."""
    n = traffic.size
    matrix = csr_array((traffic.weights, traffic.ids, traffic.indptr), (n, n))
    matrix = matrix[order][:, order]
    csr = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
    return Traffic(*csr, traffic.mass[order])


def place_by_levels(
    traffic: Traffic,
    cells: NDArray[np.int64],
    effort: Search,
    rng: np.random.Generator,
    threads: int = 1,
    clock: Clock = ENDLESS,
) -> Places:
    """Columns and rows of connected groups, one of the cells, shape (groups, 2), for each."""
    levels, maps = _coarsened(traffic, rng, clock)
    meshes = [coarse_mesh(cells, level.size) for level in levels[1:]]
    meshes.insert(0, Mesh(cells, np.full(2, 0.0), np.full(2, 1.0)))
    splits = split_cells(meshes[-1].cells)
    tried = place_by_spectrum(levels[-1], splits, effort, rng, threads, clock)
    x, y = min(tried, key=lambda places: int(sum_hops(*levels[-1].csr, *places)))
    while maps:
        levels.pop()
        coarse = meshes.pop()
        place = coarse.low + (np.column_stack([x, y]) + 0.5) * coarse.scale - 0.5
        fine = meshes[-1]
        position = ((place + 0.5 - fine.low) / fine.scale - 0.5)[maps.pop()]
        splits = split_cells(fine.cells)
        order = ranked(splits, position)
        near, start = renumbered(levels[-1], order), position[order]
        found = legalise(splits, start)
        found = pull_together(near, splits, *found, ROUNDS, clock, FIRST, start)
        x, y = np.empty(order.size, np.int32), np.empty(order.size, np.int32)
        x[order], y[order] = found
    return x, y


@dataclass(frozen=True, slots=True)
class MultilevelPlacer(Placer):
    """Levels for every area that is connected and large; others go by their spectrum alone.

    effort : of the search where few groups are left: what it finds decides the shape of the whole
    """

    effort: Search

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        if BYTES * problem.traffic.ids.size > problem.memory:
            return

        def connected(area: Area) -> list[Places]:
            rest = rng, problem.threads, problem.clock
            if area.members.size <= COARSEST:
                return place_by_spectrum(area.traffic, split_cells(area.cells), self.effort, *rest)
            return [place_by_levels(area.traffic, area.cells, self.effort, *rest)]

        yield from place_areas(problem, connected, rng)
