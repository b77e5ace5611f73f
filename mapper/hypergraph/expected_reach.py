"""K-way refinement by expected reach, a smooth substitute for the connectivity of large nets.

If a net has pins in nearly every part, hardly any single move changes the connectivity, so
refinement of connectivity stops at once. The expected reach of a net is the mean number of parts
that it reaches if each of its pins is kept with probability q: a part with c pins counts
1 - (1 - q)^c, and one more pin costs q (1 - q)^c. Vertices move to the part of least cost. q rises
from pass to pass, and the objective approaches the connectivity, as in deterministic annealing
(Rose, "Deterministic annealing for clustering, compression, classification, regression, and related
optimization problems", Proc. IEEE 86, 1998).

Parts at the same position, such as the cores of a tile, also count together as one place.
A sample of the nets is enough. Nets outside the sample decide which pass was best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.concurrency.stop_flag import StopFlag
from mapper.hypergraph.hypergraph import Hypergraph, connectivity
from storage.arrays import Int32, Int64

PINS = (0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0)
"""Expected pins that a net keeps in a part that it reaches, in each pass."""
MOST_KEPT = 0.5  # maximum of q: above, refinement overfits the sample
BITS = 16  # fractional bits in tables of (1 - q)^c
STRENGTH = 1 << 29  # maximum weight of all nets of a vertex, so that sums fit 32 bits
PER_PLACE = 16  # cost of reaching a place, relative to reaching a part


class Reach(NamedTuple):
    """A partition and the costs of its moves.

    Columns 0 .. parts-1 of tables are the parts, the others places of parts.

    weights : ndarray[int64], shape (2, nets), scaled: for parts, and for places
    kept : ndarray[int64], shape (2, pins + 1), fixed-point values of (1 - q)^c, for both
    pin_count, price : ndarray[int32], shape (nets, parts + places), pins of a net, and the cost of
        one more pin
    column : ndarray[int32], shape (parts,), column of the place of each part
    loads, capacities : ndarray[int64], shape (parts,)
    waiting : ndarray[int32], shape (parts, parts), a vertex of the first part that would move to
        the second part, which was full; -1 for none
    score : scratch, one number per column
    """

    vertex_start: Int64
    nets: Int32
    sizes: Int64
    weights: Int64
    kept: Int64
    pin_count: Int32
    price: Int32
    column: Int32
    part: Int32
    loads: Int64
    capacities: Int64
    waiting: Int32
    score: Int32


@njit(cache=True, nogil=True)
def _count_pins(start, pins, part, column, count):
    """Count the pins of each net per part and place; count : zero on entry."""
    for e in range(start.size - 1):
        for p in range(start[e], start[e + 1]):
            k = part[pins[p]]
            count[e, k] += 1
            count[e, column[k]] += 1


@njit(cache=True, nogil=True)
def _price_pins(r):
    """Fill the costs of one more pin."""
    parts = r.column.size
    for e in range(r.pin_count.shape[0]):
        for k in range(r.pin_count.shape[1]):
            j = 1 if k >= parts else 0
            r.price[e, k] = (r.weights[j, e] * r.kept[j, r.pin_count[e, k]]) >> BITS


@njit(cache=True, nogil=True)
def _add(r, e, k, j, pins):
    """Add pins to a column of a net, and update the cost of the next one; j : 1 for places."""
    r.pin_count[e, k] += pins
    r.price[e, k] = (r.weights[j, e] * r.kept[j, r.pin_count[e, k]]) >> BITS


@njit(cache=True, nogil=True)
def _put(r, v, to):
    """Move a vertex to a part; update counts, costs and loads."""
    own = r.part[v]
    r.part[v] = to
    r.loads[own] -= r.sizes[v]
    r.loads[to] += r.sizes[v]
    here, there = r.column[own], r.column[to]
    for i in range(r.vertex_start[v], r.vertex_start[v + 1]):
        e = r.nets[i]
        _add(r, e, own, 0, -1)
        _add(r, e, to, 0, 1)
        if here != there:
            _add(r, e, here, 1, -1)
            _add(r, e, there, 1, 1)


@njit(cache=True, nogil=True)
def _score(r, v):
    """Fill the cost of a vertex in each part; return the cost in its present part."""
    own = r.part[v]
    parts = r.column.size
    r.score[:] = 0
    place = np.int64(0)  # cost in its place; `part`: cost in its part
    part = np.int64(0)
    for i in range(r.vertex_start[v], r.vertex_start[v + 1]):
        e = r.nets[i]
        row = r.price[e]
        for k in range(row.size):
            r.score[k] += row[k]
        place += (r.weights[1, e] * r.kept[1, r.pin_count[e, r.column[own]] - 1]) >> BITS
        part += (r.weights[0, e] * r.kept[0, r.pin_count[e, own] - 1]) >> BITS
    r.score[r.column[own]] = place
    for k in range(parts):
        r.score[k] += r.score[r.column[k]]
    return place + part


@njit(cache=True, nogil=True)
def _refine(r, order):
    """Move each vertex once, to the part of least cost with room; return the number of moves.

    If the best part is full, a vertex swaps with a vertex waiting there for its part, or waits
    itself and moves to the best part with room.
    """
    moved = 0
    for v in order:
        own = r.part[v]
        size = r.sizes[v]
        least = _score(r, v)
        best = full = own
        lower = least  # least cost of full parts
        for k in range(r.column.size):
            if k == own or r.score[k] >= least:
                continue
            if r.loads[k] + size <= r.capacities[k]:
                least = np.int64(r.score[k])
                best = k
            elif r.score[k] < lower:
                lower = np.int64(r.score[k])
                full = k
        if full != own and lower < least:
            u = r.waiting[full, own]
            if u >= 0 and r.part[u] == full:
                more = size - r.sizes[u]
                if (
                    r.loads[full] + more <= r.capacities[full]
                    and r.loads[own] - more <= r.capacities[own]
                ):
                    r.waiting[full, own] = -1
                    _put(r, v, full)
                    _put(r, u, own)
                    moved += 2
                    continue
            if best == own:
                r.waiting[own, full] = v
        if best != own:
            _put(r, v, best)
            moved += 1
    return moved


class NetSample(NamedTuple):
    """Nets to refine with, and other nets of the same vertices to select the best pass."""

    nets: Hypergraph
    checks: Hypergraph


def refine_by_reach(
    sample: NetSample,
    part: Int32,
    capacities: Int64,
    seed: int,
    stop: StopFlag,
    place: Int32 | None = None,
) -> tuple[Int32, int, int]:
    """Return the part of every vertex, and the cost of the checks before and after.

    part : ndarray[int32], shape (vertices,)
    capacities : ndarray[int64], shape (parts,)
    stop : checked before each pass; receives its number
    place : ndarray[int32], shape (parts,), place of each part: the cost is `PER_PLACE` times the
        connectivity of places plus the connectivity of parts; None for the connectivity of parts

    No part that is within its capacity is filled beyond it. The checks never get worse.
    """
    graph, checks = sample
    parts = capacities.size

    def cost(part: Int32) -> int:
        found = connectivity(checks, part, parts)
        return (
            found if place is None else found + PER_PLACE * connectivity(checks, place[part], parts)
        )

    before = least = cost(part)
    if graph.net_count == 0:
        return part, before, before
    reach = _new_reach(graph, part, capacities, place)
    by_part = reach.pin_count[:, :parts], reach.pin_count[:, parts:]
    means = [graph.pins.size / max(1, int(np.count_nonzero(count))) for count in by_part]
    rng = np.random.default_rng([seed, graph.vertices])
    best = part
    for index, pins in enumerate(PINS):
        stop.begin(f"pass {index + 1} of {len(PINS)}")
        for kept, mean in zip(reach.kept, means, strict=True):
            kept[:] = _powers(1 - min(MOST_KEPT, pins / mean), kept.size)
        _price_pins(reach)
        _refine(reach, rng.permutation(graph.vertices))
        found = cost(reach.part)
        if found < least:
            best, least = reach.part.copy(), found
    return best, before, least


def _new_reach(graph: Hypergraph, part: Int32, capacities: Int64, place: Int32 | None) -> Reach:
    """Return the tables of a partition, without costs."""
    parts = capacities.size
    column = np.full(parts, parts, np.int32) if place is None else (parts + place).astype(np.int32)
    count = np.zeros((graph.net_count, int(column.max()) + 1), np.int32)
    _count_pins(graph.start, graph.pins, part, column, count)
    strength = np.zeros(graph.vertices, np.int64)
    np.add.at(strength, graph.pins, np.repeat(graph.weights, np.diff(graph.start)))
    scale = min(STRENGTH / max(1, int(strength.max())), 1 << 16)
    if place is None:
        shares = np.array([[1.0], [0.0]])
    else:
        shares = np.array([[1 / PER_PLACE], [1.0]])
    longest = int(np.diff(graph.start).max())
    return Reach(
        graph.vertex_start, graph.nets, graph.sizes,
        np.floor(shares * scale * graph.weights).astype(np.int64),
        np.empty((2, longest + 1), np.int64), count, np.empty_like(count), column, part.copy(),
        np.bincount(part, graph.sizes, parts).astype(np.int64), capacities,
        np.full((parts, parts), -1, np.int32), np.empty(count.shape[1], np.int32),
    )  # fmt: skip


def _powers(base: float, count: int) -> Int64:
    """Return powers 0 .. count-1 of a number below 1, in units of 2^-BITS.

    Repeated multiplication rounds equally on every processor; `pow` does not.
    """
    factors = np.full(count, base)
    factors[0] = 1 << BITS
    return np.rint(np.multiply.accumulate(factors)).astype(np.int64)
