"""Annealing of tree hops: single vertices move or swap between cores.

A spike follows the union of the XY routes to its target cores: along the row of its source to the
farthest columns, and in each column with a target from that row to the farthest rows. Hops are
distances by the coordinates of the chip. A move is priced exactly, from the cores that each net
reaches; nets whose set of cores does not change need no pricing. Simulated annealing from a good
start, as in `mapper.hop_refinement.annealing`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.concurrency.stop_flag import StopFlag, slices
from mapper.graph.distance import along, towards
from mapper.graph.members import members_of, relocate, swap
from mapper.hop_refinement.annealing import movable_lists
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hypergraph.hypergraph import Hypergraph
from mapper.limits.domains import Domains
from mapper.random_numbers import accepted, next_random
from storage.arrays import Float64, Int32, Int64

TO_REACHED = 600  # of 1024 proposals: to a core that a net of the vertex reaches; else adjacent
SPARE = 16  # slots per core beyond the vertices of the fullest core


class Trees(NamedTuple):
    """A mapping and the trees of its nets.

    core, block_weights, capacities : core of every vertex; size on each core; capacity of each
        core, 0 if it must not be used
    least : shape (cores,), size that moves must leave on each core
    column, row : of every core; columns at the same position count as one
    slot_start, slot_part, slot_count, used : cores of the targets of each net, without the source,
        with the number of targets there
    tree_cost : shape (nets,), of each tree
    low, high, mark : scratch per column, extent up and down from the source
    stamp : shape (1,), the last value in `mark`
    per_core_penalty : shape (1,), cost of each core that a net reaches, in addition to the links
    branches : shape (1,), 1 if packets branch on their way, 0 if each core gets its own packet
    x, y : coordinates of every core
    round_x, round_y : circumference of a torus
    """

    start: Int64
    pins: Int32
    weights: Int64
    vertex_start: Int64
    nets: Int32
    sizes: Int64
    core: Int32
    block_weights: Int64
    capacities: Int64
    least: Int64
    column: Int32
    row: Int32
    slot_start: Int64
    slot_part: Int32
    slot_count: Int32
    used: Int32
    tree_cost: Int64
    low: Int64
    high: Int64
    mark: Int64
    stamp: Int64
    per_core_penalty: Int64
    branches: Int64
    x: Int32
    y: Int32
    round_x: int
    round_y: int


@njit(cache=True, nogil=True)
def _cost(t, e, source, without, extra):
    """Return the price of a net's packets, less a target and plus another (-1: none)."""
    if t.branches[0]:
        return _tree(t, e, source, without, extra)
    cost = _packet(t, source, extra) if extra >= 0 else np.int64(0)
    first = t.slot_start[e]
    for at in range(first, first + t.used[e]):
        if t.slot_part[at] != without:
            cost += _packet(t, source, t.slot_part[at])
    return cost


@njit(cache=True, nogil=True, inline="always")
def _packet(t, source, c):
    """Return the price of a packet from a core to another; 0 within a core."""
    if c == source:
        return np.int64(0)
    far = along(t.x[c], t.x[source], t.round_x) + along(t.y[c], t.y[source], t.round_y)
    return np.int64(t.per_core_penalty[0] + far)


@njit(cache=True, nogil=True)
def _tree(t, e, source, without, extra):
    """Return the price of a net's tree from a core, less a target and plus another (-1: none)."""
    t.stamp[0] += 1
    stamp = t.stamp[0]
    x0, y0 = np.int64(t.x[source]), np.int64(t.y[source])
    west = np.int64(0)
    east = np.int64(0)
    hops = np.int64(0)
    first = t.slot_start[e]
    for at in range(first, first + t.used[e] + 1):
        c = np.int64(extra) if at == first + t.used[e] else np.int64(t.slot_part[at])
        if c < 0 or c == np.int64(source) or c == np.int64(without):
            continue
        hops += t.per_core_penalty[0]
        x, y = t.column[c], towards(y0, np.int64(t.y[c]), t.round_y)
        if t.mark[x] != stamp:
            t.mark[x] = stamp
            t.low[x] = 0
            t.high[x] = 0
            across = towards(x0, np.int64(t.x[c]), t.round_x)
            west = min(west, across)
            east = max(east, across)
        if y < t.low[x]:
            hops += t.low[x] - y
            t.low[x] = y
        elif y > t.high[x]:
            hops += y - t.high[x]
            t.high[x] = y
    return hops + east - west


@njit(cache=True, nogil=True)
def _count_targets(t):
    """Fill slots and costs of trees from the cores; return the sum of weight * cost."""
    t.block_weights[:] = 0
    for v in range(t.sizes.size):
        t.block_weights[t.core[v]] += t.sizes[v]
    total = np.int64(0)
    for e in range(t.weights.size):
        t.used[e] = 0
        first = t.slot_start[e]
        for p in range(t.start[e] + 1, t.start[e + 1]):
            at = first
            c = t.core[t.pins[p]]
            while at < first + t.used[e] and t.slot_part[at] != c:
                at += 1
            if at == first + t.used[e]:
                t.slot_part[at] = c
                t.slot_count[at] = 0
                t.used[e] += 1
            t.slot_count[at] += 1
        t.tree_cost[e] = _cost(t, e, t.core[t.pins[t.start[e]]], -1, -1)
        total += t.weights[e] * t.tree_cost[e]
    return total


@njit(cache=True, nogil=True)
def _find(t, e, c):
    """Return the slot of a core in a net, -1 if it is not reached."""
    for at in range(t.slot_start[e], t.slot_start[e] + t.used[e]):
        if t.slot_part[at] == c:
            return at
    return -1


@njit(cache=True, nogil=True)
def _change(t, v, b):
    """Return the increase in cost if v moves to core b."""
    a = t.core[v]
    change = np.int64(0)
    for i in range(t.vertex_start[v], t.vertex_start[v + 1]):
        e = t.nets[i]
        source = t.pins[t.start[e]]
        if source == v:
            change += t.weights[e] * (_cost(t, e, b, -1, -1) - t.tree_cost[e])
            continue
        leaves = t.slot_count[_find(t, e, a)] == 1
        comes = _find(t, e, b) < 0
        if not t.branches[0]:
            home = t.core[source]
            more = _packet(t, home, b) if comes else np.int64(0)
            less = _packet(t, home, a) if leaves else np.int64(0)
            change += t.weights[e] * (more - less)
        elif leaves or comes:
            tree_cost = _tree(t, e, t.core[source], a if leaves else -1, b if comes else -1)
            change += t.weights[e] * (tree_cost - t.tree_cost[e])
    return change


@njit(cache=True, nogil=True)
def leave(t, e, a):
    """Remove a target of a net from a core; return whether the core is no longer reached."""
    at = _find(t, e, a)
    t.slot_count[at] -= 1
    if t.slot_count[at] > 0:
        return False
    t.used[e] -= 1
    last = t.slot_start[e] + t.used[e]
    t.slot_part[at] = t.slot_part[last]
    t.slot_count[at] = t.slot_count[last]
    return True


@njit(cache=True, nogil=True)
def arrive(t, e, b):
    """Add a target of a net to a core; return whether the core was not reached before."""
    at = _find(t, e, b)
    if at >= 0:
        t.slot_count[at] += 1
        return False
    at = t.slot_start[e] + t.used[e]
    t.slot_part[at] = b
    t.slot_count[at] = 1
    t.used[e] += 1
    return True


@njit(cache=True, nogil=True)
def _put(t, v, b):
    """Move v to core b, and update slots and costs."""
    a = t.core[v]
    t.core[v] = b
    t.block_weights[a] -= t.sizes[v]
    t.block_weights[b] += t.sizes[v]
    for i in range(t.vertex_start[v], t.vertex_start[v + 1]):
        e = t.nets[i]
        source = t.pins[t.start[e]]
        changed = source == v
        if source != v:
            left = leave(t, e, a)
            changed = arrive(t, e, b) or left
        if changed:
            t.tree_cost[e] = _cost(t, e, t.core[source], -1, -1)


@njit(cache=True, nogil=True)
def propose(t, v, width, height, state):
    """Return a proposed core for v, possibly its own or an unusable one; -1 for none."""
    a = t.core[v]
    if next_random(state) % 1024 < TO_REACHED:
        degree = t.vertex_start[v + 1] - t.vertex_start[v]
        e = t.nets[t.vertex_start[v] + next_random(state) % degree]
        pick = next_random(state) % np.int64(t.used[e] + 1)
        if pick == t.used[e]:
            return t.core[t.pins[t.start[e]]]
        return t.slot_part[t.slot_start[e] + pick]
    turn = next_random(state) % 8
    turn += turn >= 4  # eight neighbours: skip the middle of 3x3
    x, y = a % width + turn % 3 - 1, a // width + turn // 3 - 1
    if x < 0 or y < 0 or x >= width or y >= height:
        return -1
    return y * width + x


@njit(cache=True, nogil=True)
def _anneal(t, members, count, place, width, height, proposals, temperature, state):
    """Propose moves at one temperature; return the change of the tree hops.

    members, count, place : vertices of each core (rows with free places at the end), their number,
        and the position of each vertex in its row; changed in place
    """
    total = np.int64(0)
    for _ in range(proposals):
        v = next_random(state) % np.int64(t.core.size)
        if t.vertex_start[v] == t.vertex_start[v + 1] or place[v] < 0:
            continue
        a = t.core[v]
        b = propose(t, v, width, height, state)
        if b < 0 or b == a or t.capacities[b] == 0:
            continue
        change = _change(t, v, b)
        if t.block_weights[b] + t.sizes[v] <= t.capacities[b] and count[b] < members.shape[1]:
            few = t.block_weights[a] - t.sizes[v] < t.least[a]
            if few or not accepted(change, temperature, state):
                continue
            _put(t, v, b)
            relocate(members, count, place, v, a, b)
        else:
            if count[b] == 0:
                continue
            u = members[b, next_random(state) % count[b]]
            more = t.sizes[v] - t.sizes[u]
            if (
                t.block_weights[b] + more > t.capacities[b]
                or t.block_weights[a] - more > t.capacities[a]
                or t.block_weights[b] + more < t.least[b]
                or t.block_weights[a] - more < t.least[a]
            ):
                continue
            _put(t, v, b)  # prices nets of both correctly
            change += _change(t, u, a)
            if not accepted(change, temperature, state):
                _put(t, v, a)
                continue
            _put(t, u, a)
            swap(members, place, v, a, u, b)
        total += change
    return total


def new_trees(
    graph: Hypergraph, core: Int32, mesh: CoreMesh, per_core_penalty: int = 0, branches: bool = True
) -> tuple[Trees, int]:
    """Return the trees of a mapping, which share its array of cores, and their total cost."""
    capacities, width, axes = mesh.capacities, mesh.width, mesh.axes
    column, row = mesh.column, mesh.row
    merged = np.unique(axes.x, return_inverse=True)[1].astype(np.int32)
    slots = np.minimum(np.diff(graph.start) - 1, capacities.size)
    slot_start = np.append(0, np.cumsum(slots))
    total = int(slot_start[-1])
    trees = Trees(
        graph.start, graph.pins, graph.weights, graph.vertex_start, graph.nets, graph.sizes, core,
        np.empty(capacities.size, np.int64), capacities, mesh.least, merged[column], row,
        slot_start,
        np.empty(total, np.int32), np.empty(total, np.int32),
        np.empty(graph.net_count, np.int32), np.empty(graph.net_count, np.int64),
        np.empty(width, np.int64), np.empty(width, np.int64), np.zeros(width, np.int64),
        np.zeros(1, np.int64), np.array([per_core_penalty]), np.array([int(branches)]),
        axes.x[column], axes.y[row], axes.round_x, axes.round_y,
    )  # fmt: skip
    return trees, int(_count_targets(trees))


def total_hops(graph: Hypergraph, core: Int32, mesh: CoreMesh, branches: bool) -> int:
    """Return the hops of the packets of a mapping."""
    return new_trees(graph, core.copy(), mesh, 0, branches)[1]


class TreePrices(NamedTuple):
    """Prices of packets.

    per_core_penalty : hops that count for each core that a net reaches
    branches : packets branch on their way (trees); otherwise each core gets its own packet
    """

    per_core_penalty: int = 0
    branches: bool = True


def anneal_trees(
    graph: Hypergraph,
    core: Int32,
    mesh: CoreMesh,
    prices: TreePrices,
    temperatures: Float64,
    proposals: int,
    seed: int,
    stop: StopFlag | None = None,
    domains: Domains | None = None,
) -> Int32:
    """Return the core of every vertex, in the best state at the end of a temperature.

    temperatures : in hops per spike
    proposals : proposals at each temperature
    stop : checked between slices of work
    domains : of the vertices
    No core that is within its capacity is filled beyond it, and none gets below its least size.
    """
    if graph.net_count == 0 or proposals == 0:
        return core.copy()
    cores, width = mesh.capacities.size, mesh.width
    trees, now = new_trees(graph, core.copy(), mesh, *prices)
    held = members_of(core, cores, SPARE, None if domains is None else domains.fixed)
    state = np.random.default_rng([seed, core.size]).integers(1, 1 << 62, 1).astype(np.uint64)
    best, best_core = now, core.copy()
    for temperature in temperatures:
        for movable, own in movable_lists(held, trees.core, mesh, domains):
            here = trees._replace(capacities=own.capacities)
            for some in slices(proposals, stop):
                now += int(_anneal(here, *movable, width, cores // width, some, temperature, state))
        if now < best:
            best, best_core = now, trees.core.copy()
    return best_core
