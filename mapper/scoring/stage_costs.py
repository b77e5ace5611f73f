"""Cost of the mapping after each stage: the cut and, after placement, the hops.

Only the report uses these numbers, so they must be cheap. Rows in memory are scanned completely; of
rows on disk, one chunk in `SPARED`, always the same ones, so that differences come from the
mapping. Such estimates, and estimates from rounded weights or a sample of the connections, are
scaled by the exact cost of the finished mapping over its estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.machine import Axes, flat_axes
from chipsim.traffic.arrays import Traffic
from mapper.concurrency.threads import ThreadTeam
from mapper.graph.affinity import cut_of
from mapper.graph.csr import Subgraph
from mapper.graph.rows import HeldRows, Rows
from mapper.monitoring.monitor import Monitor, Observer
from storage.arrays import Int32

SPARED = 16  # one chunk on disk in SPARED is scanned
LEAST_CHUNKS = 16  # chunks that are scanned, at least

Places = tuple[NDArray[Any], NDArray[Any]]


@njit(cache=True, nogil=True)
def _cut_and_hops(chunk, part, x, y):
    """Sum weights, and weights times distance; x, y : ndarray[int32], position of every part."""
    first, indptr, ids, weights = chunk
    cut = np.int64(0)
    hops = np.int64(0)
    for i in range(indptr.size - 1):
        row = ids[indptr[i] : indptr[i + 1]]
        row_weights = weights[indptr[i] : indptr[i + 1]]
        own = np.uint32(part[first + i])
        x0, y0 = x[own], y[own]
        for e in range(row.size):
            other = np.uint32(part[np.uint32(row[e])])
            if other != own:
                cut += row_weights[e]
                hops += np.int64(row_weights[e]) * (abs(x[other] - x0) + abs(y[other] - y0))
    return cut, hops


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Cut and hops of a partition, each connection counted once.

    whole : all rows were scanned
    certain : the numbers are exact and not from rows
    """

    cut: float
    hops: float
    whole: bool
    certain: bool = False


def estimate(
    rows: Rows, part: Int32, team: ThreadTeam, places: Places | None = None
) -> CostEstimate:
    """Return cut and hops of a partition.

    part : ndarray[int32], shape (vertices,)
    places : column and row of every part
    """
    step = 1
    if not isinstance(rows, HeldRows):
        step = max(1, min(SPARED, rows.chunks // LEAST_CHUNKS))

    axes = None if places is None else [np.asarray(axis, np.int32) for axis in places]

    def count(index: int) -> tuple[int, int, int]:
        chunk = rows.read(index)
        if axes is None:
            return int(cut_of(chunk, part)), 0, chunk.vertices
        cut, hops = _cut_and_hops(chunk, part, *axes)
        return int(cut), int(hops), chunk.vertices

    sums = [0, 0, 0]
    for found in team.stream(count, range(step // 2, rows.chunks, step)):
        sums = [total + one for total, one in zip(sums, found, strict=True)]
    cut, hops, vertices = sums
    if vertices == rows.vertices:
        return CostEstimate(cut // 2, hops // 2, True)
    by = rows.vertices / max(1, vertices) / 2
    return CostEstimate(cut * by, hops * by, False)


class StageCosts(Observer):
    """Adds cut and hops to the stages and levels of a monitor.

    Costs belong to the current stage, or else to the last one.
    """

    def __init__(
        self,
        monitor: Monitor,
        team: ThreadTeam,
        rows: Rows,
        *,
        faithful: bool = True,
        nets: str = "",
        axes: Axes | None = None,
        detoured: bool = False,
    ) -> None:
        """rows : rows of the network, or of its items
        faithful : the rows have every connection with its exact weight
        detoured : links are broken, so that hops are estimated from distances
        nets : "core" or "multicast" if the objective is the cost of nets
        axes : coordinates for distances of groups; None for columns and rows
        """
        self._axes, self._detoured = axes, detoured
        self._objective = nets
        self._monitor, self._team, self._rows, self._faithful = monitor, team, rows, faithful
        monitor.observer = self
        self._taken: list[tuple[dict[str, Any], CostEstimate, bool]] = []
        self._placed: dict[str, Any] | None = None
        self._nets: dict[str, int] = {}
        self._looked = False  # whether rows, possibly a sample, were scanned
        self._finished: tuple[dict[str, Any] | None, CostEstimate | None] = None, None

    def on_partition(self, part: Int32, rows: Rows | None = None) -> None:
        """Record the cut of a partition; rows : rows of its vertices."""
        self._take(self._monitor.at_work, self._look(part, rows), placed=False)

    def on_placement(
        self, part: Int32, x: NDArray[Any], y: NDArray[Any], rows: Rows | None = None
    ) -> None:
        """Record cut and hops of placed parts; x, y : column and row of every part."""
        self._take(self._monitor.at_work, self._look(part, rows, (x, y)))

    def on_placed_groups(self, groups: Subgraph, x: NDArray[Any], y: NDArray[Any]) -> None:
        """Record cut and hops from the traffic between all groups."""
        own = np.repeat(np.arange(x.size), np.diff(groups.indptr))
        axes = self._axes or flat_axes(int(x.max(initial=0)) + 1, int(y.max(initial=0)) + 1)
        apart = np.zeros(own.size, np.int64)
        for at, around in ((axes.x[x], axes.round_x), (axes.y[y], axes.round_y)):
            straight = np.abs(at[own].astype(np.int64) - at[groups.ids])
            apart += np.minimum(straight, around - straight)
        cut, hops = int(groups.weights.sum()), int(groups.weights @ apart)
        self._take(self._monitor.at_work, CostEstimate(cut // 2, hops // 2, True, certain=True))

    def _look(self, part: Int32, rows: Rows | None, places: Places | None = None) -> CostEstimate:
        self._looked = True
        return estimate(rows or self._rows, part, self._team, places)

    def on_level(self, level: dict[str, Any], cut: int, hops: int, placed: bool) -> None:
        """Record cut and hops of a level."""
        self._take(level, CostEstimate(cut, hops, True), placed)

    def _take(self, entry: dict[str, Any], seen: CostEstimate, placed: bool = True) -> None:
        """Record an estimate for a stage or a level."""
        self._taken.append((entry, seen, placed))
        if placed and entry is self._monitor.at_work:
            self._placed = entry

    def on_nets(self, **costs: int) -> None:
        """Record the cost of nets: `connectivity`, or `hops_total` of the last placement."""
        entry = self._monitor.at_work if "connectivity" in costs else self._placed
        self._nets |= costs
        if entry is not None:
            entry[self._objective] = dict(self._nets)

    def finish(self, core: Int32, width: int, stage: dict[str, Any] | None) -> None:
        """Estimate the cost of the finished mapping, to correct estimates; release the rows.

        core : of every vertex of the rows
        stage : the stage that produced it, None if it did not run
        """
        seen = None
        if self._looked:
            cells = np.arange(int(core.max(initial=-1)) + 1)
            seen = estimate(self._rows, core, self._team, (cells % width, cells // width))
        self._finished = stage, seen
        del self._rows

    def settle(self, traffic: Traffic) -> None:
        """Write the costs, given the exact traffic of the finished mapping."""
        stage, seen = self._finished
        final: dict[str, Any] = {"cut_weight": traffic.totals.cut}
        final["hops_total"] = traffic.totals.hops
        exact = self._faithful and not self._detoured
        by_cut = by_hops = 1.0
        if seen is not None:
            exact = exact and (seen.cut, seen.hops) == tuple(final.values())
            by_cut = final["cut_weight"] / seen.cut if seen.cut else 1.0
            by_hops = final["hops_total"] / seen.hops if seen.hops else 1.0
        for entry, one, placed in self._taken:
            plain = (one.certain and not self._detoured) or (one.whole and exact)
            entry["cut_weight"] = int(one.cut) if plain else round(one.cut * by_cut)
            if placed:
                entry["hops_total"] = int(one.hops) if plain else round(one.hops * by_hops)
            if not plain:
                entry["estimated"] = True
        for entry in self._monitor.levels[:1]:  # the finest level has the finished mapping
            entry.pop("estimated", None)
            entry |= final
        if stage is not None:
            stage.pop("estimated", None)
            stage |= final
            links = {"core": traffic.core_links, "multicast": traffic.multicast_links}
            if self._objective:
                stage[self._objective] = {
                    "connectivity": traffic.connectivity,
                    "hops_total": int(links[self._objective].sum()),
                }
