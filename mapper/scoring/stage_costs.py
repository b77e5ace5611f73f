"""What the mapping costs after each stage: the cut and, once there are places, the hops.

The report tells these numbers; the method has no need of them, so they must cost next to nothing.
Rows in memory are looked at whole. Of rows on disk it is one chunk in `SPARED`, always the same
ones, so that a difference is one of the mapping. Such estimates, and those from rows of rounded
weights or of a sample of the connections, are multiplied by what the finished mapping costs over
what the same look says of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.machine import Axes, flat_axes
from chipsim.traffic.arrays import Traffic
from mapper.graph.csr import Subgraph
from mapper.graph.rows import HeldRows, Rows
from mapper.runtime.monitor import Monitor, Observer
from mapper.runtime.threads import ThreadTeam

SPARED = 16  # of so many chunks on disk one is looked at
LEAST_CHUNKS = 16  # that are, if there are as many

Int32 = NDArray[np.int32]
Places = tuple[NDArray[Any], NDArray[Any]]


@njit(cache=True, nogil=True)
def _cut(first, indptr, ids, weights, part):
    """Weight to other parts of the rows of a chunk."""
    cut = np.int64(0)
    for i in range(indptr.size - 1):
        row = ids[indptr[i] : indptr[i + 1]]
        row_weights = weights[indptr[i] : indptr[i + 1]]
        own = part[first + i]
        for e in range(row.size):
            cut += row_weights[e] if part[np.uint32(row[e])] != own else 0
    return cut


@njit(cache=True, nogil=True)
def _cut_and_hops(first, indptr, ids, weights, part, x, y):
    """The same, and weight times distance; x, y : ndarray[int32], place of every part."""
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

    whole : all rows were looked at; certain : the numbers are not from rows, and exact
    """

    cut: float
    hops: float
    whole: bool
    certain: bool = False


def estimate(
    rows: Rows, part: Int32, team: ThreadTeam, places: Places | None = None
) -> CostEstimate:
    """Cut and hops of a partition.

    part : ndarray[int32], shape (vertices,); places : column and row of every part
    """
    step = 1
    if not isinstance(rows, HeldRows):
        step = max(1, min(SPARED, rows.chunks // LEAST_CHUNKS))

    axes = None if places is None else [np.asarray(axis, np.int32) for axis in places]

    def count(index: int) -> tuple[int, int, int]:
        chunk = rows.read(index)
        links = chunk.first, chunk.indptr, chunk.ids, chunk.weights
        if axes is None:
            return int(_cut(*links, part)), 0, chunk.vertices
        cut, hops = _cut_and_hops(*links, part, *axes)
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
    """Puts cut and hops beside the stages and levels of a monitor.

    What is taken down belongs to the stage at work, or else to the last one.
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
    ) -> None:
        """rows : of the network, or of what stays together in it
        faithful : they hold every connection, its weight as it is
        nets : the objective if what nets cost is it, "core" or "multicast"
        axes : by which groups are so many hops apart; None for their columns and rows
        """
        self._axes = axes
        self._objective = nets
        self._monitor, self._team, self._rows, self._faithful = monitor, team, rows, faithful
        monitor.observer = self
        self._taken: list[tuple[dict[str, Any], CostEstimate, bool]] = []
        self._placed: dict[str, Any] | None = None
        self._nets: dict[str, int] = {}
        self._looked = False  # at rows, which may be but a sample
        self._finished: tuple[dict[str, Any] | None, CostEstimate | None] = None, None

    def on_partition(self, part: Int32, rows: Rows | None = None) -> None:
        """Take down the cut of a partition; rows : whose vertices it is of."""
        self._take(self._monitor.at_work, self._look(part, rows), placed=False)

    def on_placement(
        self, part: Int32, x: NDArray[Any], y: NDArray[Any], rows: Rows | None = None
    ) -> None:
        """Take down cut and hops of parts with places; x, y : column and row of every part."""
        self._take(self._monitor.at_work, self._look(part, rows, (x, y)))

    def on_placed_groups(self, groups: Subgraph, x: NDArray[Any], y: NDArray[Any]) -> None:
        """The same from the traffic between all groups."""
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
        """Take down cut and hops of a level."""
        self._take(level, CostEstimate(cut, hops, True), placed)

    def _take(self, entry: dict[str, Any], seen: CostEstimate, placed: bool = True) -> None:
        """Take down what was seen after a stage or on a level."""
        self._taken.append((entry, seen, placed))
        if placed and entry is self._monitor.at_work:
            self._placed = entry

    def on_nets(self, **costs: int) -> None:
        """Take down what nets cost: `connectivity`, or `hops_total` of what was placed."""
        entry = self._monitor.at_work if "connectivity" in costs else self._placed
        self._nets |= costs
        if entry is not None:
            entry[self._objective] = dict(self._nets)

    def finish(self, core: Int32, width: int, stage: dict[str, Any] | None) -> None:
        """Look at the finished mapping, by which estimates are corrected; lets go of the rows.

        core : of every vertex of the rows; stage : that ended with it, None if it did not run
        """
        seen = None
        if self._looked:
            cells = np.arange(int(core.max(initial=-1)) + 1)
            seen = estimate(self._rows, core, self._team, (cells % width, cells // width))
        self._finished = stage, seen
        del self._rows

    def settle(self, traffic: Traffic) -> None:
        """Write the numbers, now that those of the finished mapping are known."""
        stage, seen = self._finished
        final: dict[str, Any] = {"cut_weight": traffic.totals.cut}
        final["hops_total"] = traffic.totals.hops
        exact = self._faithful
        by_cut = by_hops = 1.0
        if seen is not None:
            exact = exact and (seen.cut, seen.hops) == tuple(final.values())
            by_cut = final["cut_weight"] / seen.cut if seen.cut else 1.0
            by_hops = final["hops_total"] / seen.hops if seen.hops else 1.0
        for entry, one, placed in self._taken:
            plain = one.certain or (one.whole and exact)
            entry["cut_weight"] = int(one.cut) if plain else round(one.cut * by_cut)
            if placed:
                entry["hops_total"] = int(one.hops) if plain else round(one.hops * by_hops)
            if not plain:
                entry["estimated"] = True
        for entry in self._monitor.levels[:1]:  # the finest one is that of the finished mapping
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
