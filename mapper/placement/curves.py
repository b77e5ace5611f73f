"""Placement along curves: the groups, in some order, along a walk of the mesh.

In bands of width b, m consecutive groups cover about b columns and m/b rows: for layers of m fully
connected groups the cost of a connection is about b/3 + m/b, least at b = sqrt(3m). The best width
is not known in general, so several are tried, in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chipsim.chip.machine import Axes
from mapper.graph.search import search_from
from mapper.placement.force import hops_of
from mapper.placement.legalise import Places, on_cells
from mapper.placement.placer import Placed, Placer, Problem
from mapper.placement.traffic import Traffic, sampled
from storage.arrays import Int64
from storage.parallel import map_ordered

SAMPLE = 1_000_000  # connections used to select the best walk
WIDTHS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 512, 1024)


def band_walk(cells: Int64, width: int, along: int) -> Int64:
    """Return the order of cells in bands of `width` columns (`along` 0) or rows (1).

    cells : shape (n, 2), columns and rows
    Bands are traversed alternately forwards and backwards, and so are the rows of each band.
    """
    across, forth = cells[:, along], cells[:, 1 - along]
    band = (across - across.min()) // width
    forth = np.where(band % 2 == 0, forth, -forth)
    within = np.where(forth % 2 == 0, across, -across)
    return np.lexsort((within, forth, band))


def walks(cells: Int64) -> Iterator[Int64]:
    """Yield orders of the cells: bands of several widths, of columns and of rows."""
    spans = np.ptp(cells, axis=0) + 1
    for along in (0, 1):
        widths = [w for w in WIDTHS if w < spans[along]]
        for width in [*widths, int(spans[along])]:
            if width == 1 and spans[along] > 1 and spans[1 - along] == 1:
                continue  # same walk as in the other direction
            yield band_walk(cells, width, along)


def breadth_first(traffic: Traffic) -> Int64:
    """Return connected groups by distance from a peripheral group.

    It is found by three searches, each from the last group of the previous one.
    """
    n = traffic.size
    order = np.array([int(np.argmin(np.diff(traffic.indptr)))])
    for _ in range(3):
        order = search_from(traffic.indptr, traffic.ids, int(order[-1]))
    rest = np.ones(n, np.bool_)
    rest[order] = False
    return np.append(order, np.flatnonzero(rest)).astype(np.int64)


def walk_best(traffic: Traffic, cells: Int64, order: Int64, axes: Axes, threads: int = 1) -> Places:
    """Return columns and rows of the groups, in the given order along the cheapest walk of cells.

    axes : coordinates of columns and rows
    """

    def cost(walk: Int64) -> int:
        return hops_of(traffic.csr, *on_cells(order, cells[walk]), axes)

    if traffic.ids.size == 0:
        return on_cells(order, cells)
    candidates = list(walks(cells))
    costs = list(map_ordered(cost, candidates, threads))
    return on_cells(order, cells[candidates[int(np.argmin(costs))]])


@dataclass(frozen=True, slots=True)
class CurvePlacer(Placer):
    """Walks each area with its groups in order of number, or of distance from one of them."""

    by_distance: bool

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        x, y = np.empty(problem.size, np.int32), np.empty(problem.size, np.int32)
        for area in problem.areas:
            sample = sampled(area.traffic, SAMPLE, rng)
            order = (
                breadth_first(area.traffic)
                if self.by_distance
                else np.argsort(area.members, kind="stable")
            )
            x[area.members], y[area.members] = walk_best(
                sample, area.cells, order, problem.region.axes, problem.threads
            )
        yield problem.placed(x, y)
