"""Multilevel placement: few merged groups on a coarse mesh, interpolated level by level.

As in multilevel placers of circuits (Chan, Cong and Sze, ISPD 2005) and drawings of large graphs
(Walshaw, J. Graph Algorithms Appl. 7, 2003): groups are paired along heavy connections until few
are left, these are placed by their spectrum on a mesh of as many cells, and when uncoarsening,
every group starts at the position of its pair. The springs of `mapper.placement.quadratic` then
correct errors of the size of a pair only, so that few stiff rounds suffice; on a million groups,
slack springs from the eigenvectors alone had reached 1.5 times the cost in twice the time.
Departures: each level has its own mesh of usable cells; and its groups are renumbered by position,
so that sums over neighbours find them in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from chipsim.chip.machine import STRAIGHT, Axes
from mapper.placement.clock import ENDLESS, Clock
from mapper.placement.component_packing import ComponentArea
from mapper.placement.force import hops_of
from mapper.placement.legalise import Places, Splits, legalise, ranked, split_cells
from mapper.placement.placer import Placed, Placer, Problem
from mapper.placement.quadratic import pull_together
from mapper.placement.spectral import RotationSearch, hierarchy, place_areas, place_by_spectrum
from mapper.placement.traffic import Traffic, traffic_of
from storage.arrays import Float64, Int32, Int64

COARSEST = 8192  # groups placed by their spectrum, approximately
SHRINK = 3.5  # ratio of groups between levels, at least
FIRST = 0.02  # stiffness of the springs when uncoarsening; a tenth of it is no better
ROUNDS = 4
BYTES = 60  # maximum bytes per connection


class LevelMesh(NamedTuple):
    """The cells of a level. Its column c is low + (c + 0.5) * scale - 0.5 of the finest; so rows.

    axes : coordinates of its columns and rows, in its own steps
    """

    cells: Int64
    low: Float64
    scale: Float64
    axes: Axes


def coarse_mesh(cells: Int64, count: int, axes: Axes) -> LevelMesh:
    """Return the `count` cells of a coarser mesh that cover most of the given cells, shape (n, 2).

    axes : coordinates of the columns and rows of the given cells
    """
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
    scale = span / sides
    own = []
    for axis, at in enumerate((axes.x, axes.y)):
        fine = low[axis] + (np.arange(sides[axis]) + 0.5) * scale[axis] - 0.5
        place = _interpolated(at, fine)
        own.append(np.rint((place - place[0]) / scale[axis]).astype(np.int32))
    rounds = (
        STRAIGHT if around == STRAIGHT else max(1, int(at[-1]), round(around / float(each)))
        for around, each, at in zip((axes.round_x, axes.round_y), scale, own, strict=True)
    )
    return LevelMesh(every[kept], low.astype(np.float64), scale, Axes(own[0], own[1], *rounds))


def _interpolated(at: Int32, place: Float64) -> Float64:
    """Interpolate the coordinates of positions between columns; extrapolates near the ends."""
    if at.size == 1:
        return place
    left = np.clip(np.floor(place), 0, at.size - 2).astype(np.int64)
    step = (at[left + 1] - at[left]).astype(np.float64)
    return at[left] + (place - left) * step


def _coarsened(
    traffic: Traffic, rng: np.random.Generator, clock: Clock
) -> tuple[list[Traffic], list[Int64]]:
    """Return traffic of every level from fine to coarse, and the maps from each to the next."""
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
    return traffic_of(csr_array((entries.data[apart], ends), shape=matrix.shape))


def renumbered(traffic: Traffic, order: Int64) -> Traffic:
    """Return the traffic with group order[i] as number i."""
    n = traffic.size
    matrix = csr_array((traffic.weights, traffic.ids, traffic.indptr), (n, n))
    return traffic_of(matrix[order][:, order])._replace(mass=traffic.mass[order])


def place_by_levels(
    traffic: Traffic,
    splits: Splits,
    effort: RotationSearch,
    rng: np.random.Generator,
    threads: int = 1,
    clock: Clock = ENDLESS,
) -> Places:
    """Return columns and rows of connected groups, each a different cell of the splits."""
    levels, maps = _coarsened(traffic, rng, clock)
    cells, axes = splits.cells, splits.axes
    meshes = [coarse_mesh(cells, level.size, axes) for level in levels[1:]]
    meshes.insert(0, LevelMesh(cells, np.full(2, 0.0), np.full(2, 1.0), axes))
    splits = split_cells(meshes[-1].cells, meshes[-1].axes)
    tried = place_by_spectrum(levels[-1], splits, effort, rng, threads, clock)
    coarsest, on = levels[-1].csr, splits.axes
    x, y = min(tried, key=lambda places: hops_of(coarsest, places[0], places[1], on))
    while maps:
        levels.pop()
        coarse = meshes.pop()
        place = coarse.low + (np.column_stack([x, y]) + 0.5) * coarse.scale - 0.5
        fine = meshes[-1]
        position = ((place + 0.5 - fine.low) / fine.scale - 0.5)[maps.pop()]
        splits = split_cells(fine.cells, fine.axes)
        columns, rows = position.T
        on_axes = _interpolated(fine.axes.x, columns), _interpolated(fine.axes.y, rows)
        position = np.column_stack(on_axes)
        order = ranked(splits, position)
        near, start = renumbered(levels[-1], order), position[order]
        found = legalise(splits, start)
        found = pull_together(near, splits, *found, ROUNDS, clock, FIRST, start)
        x, y = np.empty(order.size, np.int32), np.empty(order.size, np.int32)
        x[order], y[order] = found
    return x, y


@dataclass(frozen=True, slots=True)
class MultilevelPlacer(Placer):
    """Places large connected areas by levels, and others by their spectrum only.

    effort : of the search on the coarsest level, which determines the overall shape
    """

    effort: RotationSearch

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        if BYTES * problem.traffic.ids.size > problem.memory:
            return

        def connected(area: ComponentArea) -> list[Places]:
            rest = rng, problem.threads, problem.clock
            splits = split_cells(area.cells, problem.region.axes)
            if area.members.size <= COARSEST:
                return place_by_spectrum(area.traffic, splits, self.effort, *rest)
            return [place_by_levels(area.traffic, splits, self.effort, *rest)]

        yield from place_areas(problem, connected, rng)
