"""Refinement of connectivity for networks whose nets do not fit in memory: O(neurons) memory.

The candidate part of a neuron is the part, other than its own, to which it has most connections.
The gain in connectivity of the move is exact and a sum over nets: with the pins of a net counted by
part, each pin that is alone in its part gains the weight, and each pin whose candidate part has no
pin of the net loses it. So one pass over the neighbour lists and one over the nets price all moves.
A third of the neurons moves at a time, so that few moves interfere.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam, WorkspacePool
from mapper.graph.affinity import favourites
from mapper.graph.by_label import sums_by_label
from mapper.graph.csr import Subgraph
from mapper.graph.groups import group_traffic
from mapper.graph.rows import Rows
from mapper.hypergraph.net_rows import NetReader, _add_nets, traffic_of
from mapper.monitoring.callbacks import Advance, ignore
from mapper.partitioning.kway_refinement import move_in_order
from storage.arrays import Int32, Int64

TURNS = 3  # groups of neurons that move one group at a time
INT32_MOST = 2**31 - 1


@njit(cache=True, nogil=True)
def _add_gains(start, pins, weights, part, target, count, gain):
    """Add the gain of each vertex from some nets if it moves to its target; negative target: none.

    count : scratch per part, zero on entry and exit. Returns the connectivity of these nets.
    """
    cost = np.int64(0)
    for e in range(start.size - 1):
        reached = 0
        for p in range(start[e], start[e + 1]):
            k = part[pins[p]]
            reached += count[k] == 0
            count[k] += 1
        cost += weights[e] * max(reached - 1, 0)
        for p in range(start[e], start[e + 1]):
            v = pins[p]
            if target[v] < 0:
                continue
            if count[part[v]] == 1:
                gain[v] += weights[e]
            if count[target[v]] == 0:
                gain[v] -= weights[e]
        for p in range(start[e], start[e + 1]):
            count[part[pins[p]]] = 0
    return cost


def refine_streamed(
    rows: Rows,
    nets: NetReader,
    part: Int32,
    capacities: Int64,
    seed: int,
    index: int,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> tuple[int, int]:
    """Run one pass; `part` is changed in place.

    Returns the number of moves, and the connectivity before the last group moved. No part that is
    within its capacity is filled beyond it.
    """
    workspaces = WorkspacePool(
        lambda: (np.zeros(capacities.size, np.int64), np.empty(capacities.size, np.int64))
    )
    target = np.empty(rows.vertices, np.int32)

    def look(number: int) -> int:
        chunk = rows.read(number)
        with workspaces.borrow() as (affinity, connected):
            best, strength = np.empty((2, chunk.vertices), np.int64)
            favourites(chunk, part, affinity, connected, best, strength)
        target[chunk.first : chunk.first + chunk.vertices] = best
        return int(chunk.indptr[-1] - chunk.indptr[0])

    for entries in team.stream(look, range(rows.chunks)):
        advance(entries)
    turn = np.random.default_rng([seed, index]).integers(0, TURNS, rows.vertices)
    block_weights = sums_by_label(part, rows.sizes, capacities.size)
    moved = cost = 0
    for k in range(TURNS):
        now = np.where((turn == k) & (target != part), target, -1).astype(np.int32)
        gain, count = np.zeros(rows.vertices, np.int64), np.zeros(capacities.size, np.int64)
        cost = 0
        for start, pins, weights in nets.stream(team):
            cost += int(_add_gains(start, pins, weights, part, now, count, gain))
        better = np.flatnonzero(gain > 0)
        gains = np.minimum(gain[better], INT32_MOST).astype(np.int32)
        # the connection between two vertices that would swap is unknown, so none swap
        apart = np.full_like(gains, INT32_MOST)
        table = np.stack([better.astype(np.int32), now[better], gains, apart])
        order = np.argsort(-gains, kind="stable")
        floor = np.zeros_like(capacities)
        moved += int(
            move_in_order(order, table, rows.sizes, part, block_weights, capacities, floor)
        )
    return moved, cost


def streamed_traffic(
    rows: Rows,
    nets: NetReader,
    part: Int32,
    parts: int,
    memory: int,
    scratch: Path,
    team: ThreadTeam,
) -> Subgraph:
    """Return the traffic between groups by nets, or by connections if the matrix does not fit."""
    if 8 * parts * parts > memory:
        return group_traffic(rows, part, parts, memory, scratch, team)
    matrix, marks = np.zeros((parts, parts), np.int64), np.empty(parts, np.int64)
    for start, pins, weights in nets.stream(team):
        marks[:] = -1
        _add_nets(start, pins, weights, part, marks, matrix)
    return traffic_of(matrix, np.bincount(part, rows.sizes, parts).astype(np.int64))
