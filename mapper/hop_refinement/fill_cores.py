"""Move neurons between cores until each core in use is within its bounds of size.

The excess of a core above its capacity flows to the nearest cores with room, and the deficit of a
core below its least size is met by the nearest cores with spare size, over the cores between. Then
the two cores of each step of these flows exchange vertices by FM with the sizes that the flow
leaves on them as limits, so that the vertices that lose fewest hops move. Sizes above 1 may not
divide the flows evenly: a few rounds follow each other, and other modules repair the rest
(`mapper.limits.least_fill`, `mapper.limits.enforce`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.by_label import sums_by_label
from mapper.graph.rows import Rows, StreamedRows, hold
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hop_refinement.tiles import ROW_BYTES, exchange_in_tiles, tiles_of
from mapper.limits.domains import Domains
from mapper.monitoring.callbacks import ignore
from storage.arrays import Int32, Int64, Mask

ROUNDS = 6  # flows that follow each other, at most
PASSES = 2  # FM passes per step of a flow

Flows = dict[tuple[int, int], int]
"""Size that moves from a core to another, by pair of cores."""


class CoreBounds(NamedTuple):
    """Least and most size of each core, ndarray[int64], shape (cores,); 0 for unused cores."""

    least: Int64
    most: Int64

    def outside(self, held: Int64) -> int:
        """Return the sum of all deficits and excesses of cores."""
        lack, over = self.least - held, held - self.most
        return int(np.maximum(lack, 0).sum() + np.maximum(over, 0).sum())


def fill_cores(
    rows: Rows,
    core: Int32,
    mesh: CoreMesh,
    bounds: CoreBounds,
    memory: int,
    seed: int,
    team: ThreadTeam,
    domains: Domains | None = None,
) -> Int32:
    """Return the core of every vertex, with fewer cores outside their bounds, or none.

    core : ndarray[int32], shape (vertices,)
    mesh : positions of the cores
    memory : bytes for rows that are not held in memory
    domains : of the vertices; fixed vertices have size 0
    """
    best, least = core, bounds.outside(sums_by_label(core, rows.sizes, bounds.most.size))
    if least == 0:
        return core
    if isinstance(rows, StreamedRows) and ROW_BYTES * rows.entries <= memory:
        rows = hold(rows, team, ignore)
    core = core.copy()
    for index in range(ROUNDS):
        held = sums_by_label(core, rows.sizes, bounds.most.size)
        if bounds.outside(held) == 0:
            break
        flows = flows_within(held, bounds, mesh)
        if not flows:
            break
        rng = np.random.default_rng([seed, index])
        for pairs in _in_steps(flows, held):
            sizes = sums_by_label(core, rows.sizes, bounds.most.size)
            for a, b in pairs:
                sizes[a] -= flows[a, b]
                sizes[b] += flows[a, b]
            forced = replace(mesh, capacities=np.maximum(sizes, 0), bounds=None)
            some = tiles_of(rows, core, mesh, memory, index % 2 == 1, team)
            sets = [np.array(pairs, np.int64)]
            exchange_in_tiles(some, forced, core, rows.sizes, sets, PASSES, rng, team, domains)
        left = bounds.outside(sums_by_label(core, rows.sizes, bounds.most.size))
        if left < least:
            best, least = core.copy(), left
        if left == 0:
            break
    return best


def flows_within(held: Int64, bounds: CoreBounds, mesh: CoreMesh) -> Flows:
    """Return flows between consecutive cores that bring all cores within their bounds, or nearer.

    held : ndarray[int64], shape (cores,), present size of each core

    First cores above their most size give to the nearest cores that have room, then cores below
    their least size receive from the nearest cores that can spare something; the worst core first.
    """
    x, y = mesh.column.astype(np.int64), mesh.row.astype(np.int64)
    held, usable = held.copy(), bounds.most > 0
    flows: Flows = {}
    for giving in (True, False):
        need = held - bounds.most if giving else bounds.least - held
        for core in np.argsort(-need, kind="stable").tolist():
            left = int(need[core])
            if left <= 0:
                break
            free = bounds.most - held if giving else np.where(usable, held - bounds.least, 0)
            others = np.flatnonzero(free > 0)
            far = np.abs(x[others] - x[core]) + np.abs(y[others] - y[core])
            for other in others[np.argsort(far, kind="stable")].tolist():
                amount = min(left, int(free[other]))
                ends = (core, other) if giving else (other, core)
                _add(flows, _path(*ends, mesh.width, usable), amount)
                held[ends[0]] -= amount
                held[ends[1]] += amount
                left -= amount
                if left == 0:
                    break
    return {pair: amount for pair, amount in flows.items() if amount > 0}


def _path(first: int, last: int, width: int, usable: Mask) -> list[int]:
    """Return the usable cores on a way between two cores, along the row, then along the column."""
    (y0, x0), (y1, x1) = divmod(first, width), divmod(last, width)
    step_x, step_y = 1 if x1 >= x0 else -1, 1 if y1 >= y0 else -1
    way = [y0 * width + x for x in range(x0, x1, step_x)]
    way += [y * width + x1 for y in range(y0, y1, step_y)]
    return [first, *(core for core in way[1:] if usable[core] and core != first), last]


def _add(flows: Flows, path: list[int], amount: int) -> None:
    """Add an amount to the flow along a path; opposite flows cancel out."""
    for a, b in pairwise(path):
        back = flows.get((b, a), 0)
        flows[b, a] = max(0, back - amount)
        flows[a, b] = flows.get((a, b), 0) + max(0, amount - back)


def _in_steps(flows: Flows, held: Int64) -> list[list[tuple[int, int]]]:
    """Return the pairs of the flows in steps of disjoint pairs.

    A core receives before it gives, as far as that is possible, so that it never holds too little.
    """
    waiting = sorted(flows, key=lambda pair: (-int(held[pair[0]]), pair))
    steps = []
    while waiting:
        receiving = {b for _, b in waiting}
        busy: set[int] = set()
        step = []
        ready = [pair for pair in waiting if pair[0] not in receiving] or waiting
        for a, b in ready:
            if a not in busy and b not in busy:
                busy |= {a, b}
                step.append((a, b))
        done = set(step)
        waiting = [pair for pair in waiting if pair not in done]
        steps.append(step)
    return steps
