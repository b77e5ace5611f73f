"""A partition of a hypergraph with an up-to-date gain table: pins by part, reach of vertices.

The gain table of Gottesbueren, Heuer, Sanders and Schlag, ALENEX 2021.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.hypergraph.hypergraph import Hypergraph
from storage.arrays import Int32, Int64


class State(NamedTuple):
    """A partition and its gain table.

    part : shape (vertices,)
    block_weights, capacities : shape (parts,), size and capacity of parts
    slot_start : first slot of each net; one slot per part that it can reach
    slot_part, slot_count, used : parts that it reaches, its pins there, and their number
    reach : shape (vertices, parts), weight of the nets of a vertex that have a pin in a part
    alone : shape (vertices,), weight of its nets that have no other pin in its part
    strength : shape (vertices,), weight of all its nets
    """

    start: Int64
    pins: Int32
    weights: Int64
    vertex_start: Int64
    nets: Int32
    sizes: Int64
    part: Int32
    block_weights: Int64
    capacities: Int64
    slot_start: Int64
    slot_part: Int32
    slot_count: Int32
    used: Int32
    reach: Int64
    alone: Int64
    strength: Int64


class Queue(NamedTuple):
    """Scratch of a search: a heap of vertices by the cost of their best moves.

    heap, place, cost : see `mapper.graph.heap`
    target : part of the best move
    locked : 1 for vertices that have moved in this pass
    moves, origin : moves of a search in order, and previous parts of the vertices
    touched, marked : vertices whose gains a move has changed, and 1 for each of them
    work : shape (2,), pins visited, and 1 if vertices are updated late
    """

    heap: Int64
    place: Int64
    cost: Int64
    target: Int32
    locked: NDArray[np.uint8]
    moves: Int64
    origin: Int32
    touched: Int32
    marked: NDArray[np.uint8]
    work: Int64


@njit(cache=True, nogil=True)
def _count_pins(s):
    """Fill the slots and the table from the parts."""
    s.used[:] = 0
    s.reach[:] = 0
    s.alone[:] = 0
    s.strength[:] = 0
    s.block_weights[:] = 0
    for v in range(s.sizes.size):
        s.block_weights[s.part[v]] += s.sizes[v]
    for e in range(s.weights.size):
        first = s.slot_start[e]
        for p in range(s.start[e], s.start[e + 1]):
            k = s.part[s.pins[p]]
            at = first
            last = first + s.used[e]
            while at < last and s.slot_part[at] != k:
                at += 1
            if at == last:
                s.slot_part[at] = k
                s.slot_count[at] = 0
                s.used[e] += 1
            s.slot_count[at] += 1
        w = s.weights[e]
        for p in range(s.start[e], s.start[e + 1]):
            v = s.pins[p]
            s.strength[v] += w
            for at in range(first, first + s.used[e]):
                s.reach[v, s.slot_part[at]] += w
                if s.slot_part[at] == s.part[v] and s.slot_count[at] == 1:
                    s.alone[v] += w


def new_state(graph: Hypergraph, part: Int32, capacities: Int64) -> State:
    """Return the state of a partition, which shares its array; capacities : shape (parts,)."""
    parts = capacities.size
    degrees = np.minimum(np.diff(graph.start), parts)
    slot_start = np.append(0, np.cumsum(degrees))
    n, total = graph.vertices, int(slot_start[-1])
    state = State(
        graph.start, graph.pins, graph.weights, graph.vertex_start, graph.nets, graph.sizes, part,
        np.empty(parts, np.int64), capacities, slot_start, np.empty(total, np.int32),
        np.empty(total, np.int32), np.empty(graph.net_count, np.int32),
        np.empty((n, parts), np.int64), np.empty(n, np.int64), np.empty(n, np.int64),
    )  # fmt: skip
    _count_pins(state)
    return state


def new_queue(vertices: int, late: bool = False) -> Queue:
    """Return scratch for a hypergraph of this many vertices.

    late : a move updates each vertex once, after all its nets, and considers the two parts of the
        move only: several times faster if vertices share many nets
    """
    n = vertices
    return Queue(
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32),
        np.empty(n, np.uint8), np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int32),
        np.zeros(n, np.uint8), np.array([0, int(late)]),
    )  # fmt: skip
