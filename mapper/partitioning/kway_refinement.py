"""K-way refinement: every vertex may move to its best part.

Size-constrained label propagation on parts, with one addition: a vertex whose best part is full
waits for slack there, and takes it as soon as another vertex leaves. In a partition with little
slack most of the gain comes from such chains of moves. All threads process the chunks of a step
against the same frozen parts; then the moves are applied together, best gain first. If rows are not
in memory, moves are applied one step late: the moves of step s + 1 are computed from the parts
after step s - 1, so that workers can continue while step s is settled.

A `Seeker` finds the best part of a vertex: the one here minimises the cut, the one in
`mapper.hop_refinement.gains` the distance to its neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from functools import partial

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam, WorkspacePool
from mapper.executors.shard import Shard, State, by_label
from mapper.graph.affinity import sum_by_part
from mapper.graph.by_label import sums_by_label
from mapper.graph.csr import Chunk
from mapper.graph.rows import Rows, executor_of
from mapper.monitoring.callbacks import Advance, ignore
from mapper.partitioning.pass_steps import steps_of
from storage.arrays import Int32, Int64

BEHIND = 1  # steps computed ahead of the applied moves, if rows are not in memory
OUTLIER = 4  # ratio of the weight to another part and to its own that makes a vertex an outlier
SWAPS_TRIED = 16  # waiting vertices that are tried as a partner for an exchange


@njit(cache=True, nogil=True)
def _best_moves(chunk, part, block_weights, room, affinity, connected, table):
    """Find the vertices of a chunk that are connected more to another part than to their own.

    An outlier, connected to another part `OUTLIER` times as much, moves to the best part with room
    if that is better than its own: its best part stays full as long as its other vertices belong
    there, and waiting costs more than moving to a nearby part.

    room : weight up to which a part accepts outliers, shape (parts,); -1 for none
    affinity : scratch per part, zero on entry and exit; connected : scratch
    table : filled, see `Moves`; heaviest is the weight of the heaviest connection to the target

    Returns the number of moves, the weight to other parts, and the total weight.
    """
    first, indptr, ids, weights = chunk
    vertices, target, gain, heaviest = table[0], table[1], table[2], table[3]
    found = 0
    outside = np.int64(0)
    everything = np.int64(0)
    for i in range(indptr.size - 1):
        row = ids[indptr[i] : indptr[i + 1]]
        row_weights = weights[indptr[i] : indptr[i + 1]]
        count = sum_by_part(row, row_weights, part, affinity, connected)
        v = first + i
        own = np.uint32(part[v])
        here = np.int64(affinity[own])
        affinity[own] = 0
        elsewhere = np.int64(0)
        best = own
        most = np.int64(0)
        for t in range(count):
            k = np.uint32(connected[t])
            p = np.int64(affinity[k])
            affinity[k] = 0
            elsewhere += p
            if p > most or (p == most and p > 0 and block_weights[k] < block_weights[best]):
                best = k
                most = p
        outside += elsewhere
        everything += elsewhere + here
        if most > here:
            if most >= OUTLIER * here and block_weights[best] >= room[best] >= 0:
                count = sum_by_part(row, row_weights, part, affinity, connected)
                affinity[own] = 0
                most_there = here
                for t in range(count):
                    k = np.uint32(connected[t])
                    p = np.int64(affinity[k])
                    affinity[k] = 0
                    if p > most_there and block_weights[k] < room[k]:
                        best = k
                        most_there = p
                if most_there > here:
                    most = most_there
            vertices[found] = v
            target[found] = best
            gain[found] = most - here
            heaviest[found] = 0
            for e in range(row.size):
                if part[np.uint32(row[e])] == best:
                    heaviest[found] = max(heaviest[found], row_weights[e])
            found += 1
    return found, outside, everything


@njit(cache=True, nogil=True)
def move_in_order(order, table, sizes, part, block_weights, capacities, floor):
    """Apply moves in the given order; moves into full parts wait until there is slack.

    table : see `Moves`; capacities, floor : upper and lower size limits of each part

    Returns the number of moves applied.
    """
    vertices, target, gain, heaviest = table[0], table[1], table[2], table[3]
    head = np.full(block_weights.size, -1, np.int64)  # first and last waiting move of each part
    tail = np.full(block_weights.size, -1, np.int64)
    following = np.empty(order.size, np.int64)
    stack = np.empty(order.size + 1, np.int64)
    moved = 0
    for first in order:
        depth = 1
        stack[0] = first
        while depth > 0:
            depth -= 1
            m = stack[depth]
            v, to = vertices[m], target[m]
            own = part[v]
            if block_weights[own] - sizes[v] < floor[own]:
                continue
            if block_weights[to] + sizes[v] > capacities[to]:
                following[m] = -1
                if tail[to] >= 0:
                    following[tail[to]] = m
                else:
                    head[to] = m
                tail[to] = m
                continue
            block_weights[to] += sizes[v]
            block_weights[own] -= sizes[v]
            part[v] = to
            moved += 1
            m = head[own]
            if m >= 0 and block_weights[own] + sizes[vertices[m]] <= capacities[own]:
                head[own] = following[m]
                if head[own] < 0:
                    tail[own] = -1
                stack[depth] = m
                depth += 1
    # A vertex that still waits may change places with one that waits in the opposite direction. A
    # connection between the two stays cut, though both gains count it: its weight is at most their
    # heaviest.
    for m in order:
        v, to = vertices[m], target[m]
        own = part[v]
        if head[to] < 0 or own == to:
            continue
        other = head[own]
        for _ in range(SWAPS_TRIED):
            if other < 0:
                break
            u = vertices[other]
            between = min(heaviest[m], heaviest[other])
            better = np.int64(gain[m]) + gain[other] > 2 * np.int64(between)
            if part[u] == to and sizes[u] == sizes[v] and better:
                part[u], part[v] = own, to
                moved += 2
                break
            other = following[other]
    return moved


@dataclass(frozen=True, slots=True)
class Moves:
    """Proposed moves of the vertices of a chunk.

    table : ndarray[int32], shape (4, moves): vertex, target, gain, and heaviest: by how much each
        of two vertices that change places may overestimate a connection between them
    outside, everything : present cost of all vertices of the chunk, and its upper bound
    """

    table: Int32
    outside: int
    everything: int


class Seeker(ABC):
    """Finds the best part of vertices; sent to other processes as part of a state."""

    @abstractmethod
    def seek(self, chunk: Chunk, state: State) -> Moves:
        """Return the moves that pay individually; called by several threads concurrently.

        state : the parts, their sizes, and the sizes of the vertices
        """


class SeekCut(Seeker):
    """Seeker that minimises the cut: the part that a vertex is connected to most."""

    def __init__(self, parts: int, room: Int64 | None = None) -> None:
        """room : weight limit per part for outliers, see `_best_moves`; None: outliers wait"""
        self._room = np.full(parts, -1) if room is None else room
        self._workspaces = WorkspacePool(partial(by_label, parts, np.int32))

    def seek(self, chunk: Chunk, state: State) -> Moves:
        table = np.empty((4, chunk.vertices), np.int32)
        with self._workspaces.borrow() as (affinity, connected):
            found, outside, everything = _best_moves(
                chunk, state.part, state.loads, self._room, affinity, connected, table
            )
        return Moves(table[:, :found], outside, everything)


@dataclass(frozen=True, slots=True)
class Round:
    """Result of a round: number of moves, and costs before the moves (see `Moves`)."""

    moves: int
    outside: int
    everything: int


def seek(shard: Shard, chunk: Chunk) -> Moves:
    """Return the moves of a chunk, found by the seeker of the state."""
    (seeker,) = shard.state.constants
    found: Moves = seeker.seek(chunk, shard.state)
    return found


def refine_round(
    rows: Rows,
    part: Int32,
    capacities: Int64,
    floor: Int64,
    seed: int,
    index: int,
    team: ThreadTeam,
    advance: Advance = ignore,
    seeker: Seeker | None = None,
) -> Round:
    """Visit all vertices once; `part` changes in place.

    Equal gains are applied in the order of the visit; if rows are not in memory, lowest vertex of a
    step first. No part within its capacity is filled beyond it.

    part : ndarray[int32], shape (vertices,); capacities, floor : ndarray[int64], shape (parts,),
        upper limit of each part, and lower limit for moves out of it
    seeker : default: `SeekCut`
    """
    seeker = seeker or SeekCut(capacities.size)
    rng = np.random.default_rng([seed, index])
    block_weights = sums_by_label(part, rows.sizes, capacities.size)

    executor = executor_of(rows, team)
    executor.begin(State(part, block_weights, rows.sizes, (seeker,)))
    moved = outside = everything = 0
    stop = 0 if rows.at_hand else BEHIND
    looked: deque[list[Moves]] = deque()
    for some in [*steps_of(rows, seed, index, rng), *([[]] * stop)]:
        looked.append(list(executor.each(seek, some, advance=advance)))
        if len(looked) <= stop:
            continue
        found = looked.popleft()
        table = np.hstack([moves.table for moves in found])
        ranked = np.argsort(-table[2], kind="stable")
        moved += move_in_order(ranked, table, rows.sizes, part, block_weights, capacities, floor)
        executor.settled(table[0])
        for moves in found:
            outside += moves.outside
            everything += moves.everything
    return Round(moved, outside, everything)
