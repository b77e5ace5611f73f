"""Annealing of a mapping: single vertices move or swap, within the capacity of the cores.

Simulated annealing (Kirkpatrick, Gelatt and Vecchi, Science 220, 1983) from a good start, hence at
a low temperature. A vertex proposes the core of one of its neighbours or a core adjacent to its
present one; if that core is full, it proposes a swap with a random vertex there. Costs are sums
over connections, which is faster than cost tables for sparse graphs. On the coarse levels of a
V-cycle this moves whole clusters and finds improvements that exchanges between pairs of cores
cannot: on twelve pairs of graph and mesh, three cycles save 4.5 % of the hops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from chipsim.chip.machine import STRAIGHT
from mapper.concurrency.stop_flag import StopFlag, slices
from mapper.graph.members import Members, members_of, relocate, swap
from mapper.graph.rows import HeldRows
from mapper.hop_refinement.mesh import CUT, CoreMesh, _apart
from mapper.limits.domains import Domains
from mapper.random_numbers import accepted, next_random
from storage.arrays import Int32

TO_NEIGHBOUR = 600  # of 1024 proposals: to the core of a neighbour; the others: to an adjacent core
MANY = 300  # proposals per vertex, at most, for the minimum of small graphs
SPARE = 16  # slots per core beyond the vertices of the fullest core


@njit(cache=True, nogil=True)
def _change(ids, weights, a, b, core, grid):
    """Return the increase in hops if the vertex with these connections moves from core a to b."""
    change = np.int64(0)
    for e in range(ids.size):
        c = core[ids[e]]
        farther = _apart(c, b, grid) - _apart(c, a, grid)
        change += np.int64(weights[e]) * farther
    return change


@njit(cache=True, nogil=True)
def _anneal_vertices(rows, sizes, core, grid, block_weights, lists, proposals, temperature, state):
    """Propose moves at one temperature; return the number accepted, and the change of the hops.

    rows : of all vertices
    core, block_weights, lists : cores of the vertices, sizes and vertices on the cores; changed in
        place
    temperature : in hops; 0 accepts no loss
    """
    _, indptr, ids, weights = rows
    capacities, width, height, most = grid.capacities, grid.width, grid.height, grid.most
    axes, least = grid.axes, grid.least
    members, count, place = lists
    made = 0
    total = np.int64(0)
    for _ in range(proposals):
        v = next_random(state) % core.size
        a = core[v]
        links = indptr[v + 1] - indptr[v]
        if links == 0 or place[v] < 0:
            continue
        if most == CUT or next_random(state) % 1024 < TO_NEIGHBOUR:
            b = core[ids[indptr[v] + next_random(state) % links]]
        else:
            turn = next_random(state) % 8
            turn += turn >= 4  # eight neighbours: skip the middle of 3x3
            x, y = a % width + turn % 3 - 1, a // width + turn // 3 - 1
            if x < 0 or x >= width:
                if axes.round_x == STRAIGHT:
                    continue
                x = x % width
            if y < 0 or y >= height:
                if axes.round_y == STRAIGHT:
                    continue
                y = y % height
            b = y * width + x
        if a == b or capacities[b] == 0:
            continue
        low, high = indptr[v], indptr[v + 1]
        change = _change(ids[low:high], weights[low:high], a, b, core, grid)
        if block_weights[b] + sizes[v] <= capacities[b] and count[b] < members.shape[1]:
            if block_weights[a] - sizes[v] < least[a] or not accepted(change, temperature, state):
                continue
            relocate(members, count, place, v, a, b)
            core[v] = b
            block_weights[a] -= sizes[v]
            block_weights[b] += sizes[v]
        else:
            if count[b] == 0:
                continue
            u = members[b, next_random(state) % count[b]]
            more = sizes[v] - sizes[u]
            if block_weights[b] + more > capacities[b] or block_weights[a] - more > capacities[a]:
                continue
            if block_weights[b] + more < least[b] or block_weights[a] - more < least[a]:
                continue
            core[v] = b  # counts a connection between the two correctly
            low, high = indptr[u], indptr[u + 1]
            change += _change(ids[low:high], weights[low:high], b, a, core, grid)
            if not accepted(change, temperature, state):
                core[v] = a
                continue
            core[u] = a
            swap(members, place, v, a, u, b)
            block_weights[a] -= more
            block_weights[b] += more
        made += 1
        total += change
    return made, total


@dataclass(frozen=True, slots=True)
class Cooling:
    """Length and temperatures of annealing.

    proposals : proposals per vertex
    least : minimum number of proposals, up to 300 per vertex
    start, end : first and last temperature, in units of the mean weight of a vertex per hop
    steps : number of temperatures
    """

    proposals: float
    least: int = 700_000
    start: float = 0.3
    end: float = 0.005
    steps: int = 30

    def count(self, vertices: int) -> int:
        """Return the number of proposals at each temperature."""
        least = min(self.least, MANY * vertices)
        return int(max(self.proposals * vertices, least) / self.steps)


def anneal_mapping(
    rows: HeldRows,
    core: Int32,
    mesh: CoreMesh,
    cooling: Cooling,
    seed: int,
    domains: Domains | None = None,
    stop: StopFlag | None = None,
) -> Int32:
    """Return the core of every vertex, in the best state at the end of a temperature.

    domains : of the vertices; fixed vertices have size 0
    stop : checked between slices of work
    No core that is within its capacity is filled beyond it, and none gets below its least size.
    """
    n, cores = rows.vertices, mesh.capacities.size
    if rows.entries == 0 or cooling.proposals <= 0:
        return core.copy()
    core = core.copy()
    block_weights = np.bincount(core, weights=rows.sizes, minlength=cores).astype(np.int64)
    lists = members_of(core, cores, SPARE, None if domains is None else domains.fixed)
    strength = float(rows.weights.sum(dtype=np.int64)) / n
    state = np.random.default_rng([seed, n]).integers(1, 1 << 62, 1).astype(np.uint64)
    each = cooling.count(n)
    best, best_core, now = 0, core.copy(), 0
    for temperature in strength * np.geomspace(cooling.start, cooling.end, cooling.steps):
        for movable, own in movable_lists(lists, core, mesh, domains):
            for some in slices(each, stop):
                _, change = _anneal_vertices(
                    rows.whole, rows.sizes, core, own.grid, block_weights, movable, some,
                    temperature, state,
                )  # fmt: skip
                now += int(change)
        if now < best:
            best, best_core = now, core.copy()
    return best_core


def movable_lists(
    lists: Members, core: Int32, mesh: CoreMesh, domains: Domains | None
) -> Iterator[tuple[Members, CoreMesh]]:
    """Yield vertices that move with each other, and the mesh with the cores that they may use.

    lists : of all vertices that move, of which all have one domain if there is only one kind
    """
    if domains is None or domains.table.all():
        yield lists, mesh
        return
    for kind, allowed in enumerate(domains.table):
        others = domains.kind != kind
        if not others.all():
            capacities = np.where(allowed, mesh.capacities, 0)
            yield (
                members_of(core, mesh.capacities.size, SPARE, others),
                replace(mesh, capacities=capacities),
            )
