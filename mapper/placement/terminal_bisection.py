"""Placement by recursive bisection with terminal propagation.

The cells and the groups on them are bisected together, so that little traffic crosses between the
sides. Groups outside attract groups inside: they count at the middle of the piece of the mesh that
they are assigned to (Dunlop and Kernighan, IEEE Trans. CAD 4, 1985). Departures: the attraction is
proportional to the change of distance between the sides, instead of to one side or none; the
bisections of a size are repeated in several rounds, because the first ones have less information
than the last; and each bisection is multilevel with FM (`mapper.partitioning`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from chipsim.chip.machine import Axes
from mapper.graph.csr import Csr
from mapper.partitioning.multilevel_bisection import BisectionEffort, bisect_graph
from mapper.placement.clock import ENDLESS, Clock
from mapper.placement.legalise import Places, on_cells, split_cells
from mapper.placement.placer import Placed, Placer, Problem
from mapper.placement.traffic import Traffic
from storage.arrays import Float64, Int64

MOST_WEIGHT = 1 << 20  # weights are scaled down to this, to avoid overflow of sums
PIECES = 64  # pieces cut between two checks of the clock
ROUNDS = 2  # rounds over all cuts of a stage
EFFORT = BisectionEffort(tries=4, passes=3, smoothing=12)  # of each cut
SMALL = 64  # pieces of up to this many groups are cut without smoothing


@njit(cache=True, nogil=True)
def _piece(traffic, members, near, far, axis, centre, local, piece):
    """Fill the lists of a piece's groups, and the bias from groups outside.

    near, far : middles of the two sides on `axis`
    centre : ndarray[float64], shape (groups, 2), the middle of the piece of each group
    local : ndarray[int64], shape (groups,), -1 for all, on entry and exit
    piece : `Csr`; its lists are filled, groups numbered as in `members`, and its bias: the extra
        cost of each group's external connections on the far side, in distances of the sides

    Returns the number of entries.
    """
    indptr, ids, weights = traffic.indptr, traffic.ids, traffic.weights
    sub_indptr, sub_ids, sub_weights = piece.indptr, piece.ids, piece.weights
    for i in range(members.size):
        local[members[i]] = i
    used = 0
    sub_indptr[0] = 0
    for i in range(members.size):
        u = members[i]
        outside = 0.0
        for e in range(indptr[u], indptr[u + 1]):
            t = ids[e]
            if local[t] >= 0:
                sub_ids[used] = local[t]
                sub_weights[used] = weights[e]
                used += 1
            else:
                c = centre[t, axis]
                outside += weights[e] * (abs(far - c) - abs(near - c))
        if far != near:  # within a tile the distance is 0
            piece.bias[i] = np.int64(np.rint(outside / (far - near)))
        else:
            piece.bias[i] = 0
        sub_indptr[i + 1] = used
    for i in range(members.size):
        local[members[i]] = -1
    return used


@njit(cache=True, nogil=True)
def _cut(traffic, cuts, middles, order, centre, local, effort, state):
    """Cut pieces sequentially, and update the middles of groups' pieces.

    cuts : begin, middle, end and axis of each
    middles : shape (cuts, 4), column and row of the middle of each side
    order : groups by piece, changed within each
    centre : as in `_piece`, changed
    effort : `BisectionEffort` of each; small pieces are not smoothed
    """
    indptr = traffic.indptr
    for k in range(cuts.shape[0]):
        begin, middle, end, axis = cuts[k, 0], cuts[k, 1], cuts[k, 2], cuts[k, 3]
        members = order[begin:end].copy()
        n = members.size
        entries = np.int64(0)
        for u in members:
            entries += indptr[u + 1] - indptr[u]
        sub_ids = np.empty(entries, np.int32)
        sub_weights = np.empty(entries, np.int32)
        bias = np.empty(n, np.int64)
        piece = Csr(np.empty(n + 1, np.int64), sub_ids, sub_weights, np.ones(n, np.int64), bias)
        used = _piece(
            traffic, members, middles[k, axis], middles[k, 2 + axis], axis, centre, local, piece
        )
        side = np.zeros(n, np.uint8)
        room = middle - begin
        if n == 2:
            side[0] = 1 if bias[0] < bias[1] else 0
            side[1] = 1 - side[0]
        else:
            graph = Csr(piece.indptr, sub_ids[:used], sub_weights[:used], piece.sizes, bias)
            smoothing = effort.smoothing if n > SMALL else 0
            each = BisectionEffort(effort.tries, effort.passes, smoothing)
            bisect_graph(graph, room, room, n - room, each, state, side)
        first, second = begin, middle
        for i in range(n):
            at = 0
            # an inexact cut would leave a cell without a group
            if (side[i] == 0 and first < middle) or second == end:
                order[first] = members[i]
                first += 1
            else:
                order[second] = members[i]
                second += 1
                at = 2
            centre[members[i], 0] = middles[k, at]
            centre[members[i], 1] = middles[k, at + 1]


def _middles(places: Int64, cuts: Int64) -> Float64:
    """Return mean coordinates of the cells of both sides of each cut, shape (cuts, 4)."""
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum(places, axis=0)])
    found = []
    for low, high in ((cuts[:, 0], cuts[:, 1]), (cuts[:, 1], cuts[:, 2])):
        found.append((sums[high] - sums[low]) / (high - low)[:, None])
    return np.concatenate(found, axis=1)


def _stages(cuts: Int64) -> Iterator[Int64]:
    """Yield sets of independent cuts: the whole, its sides, their sides and so on."""
    # pieces of a stage are in order; the next stage begins within one of them
    yield from np.split(cuts, 1 + np.flatnonzero(cuts[1:, 0] < cuts[:-1, 2]))


def place_by_cuts(
    traffic: Traffic, cells: Int64, axes: Axes, rng: np.random.Generator, clock: Clock = ENDLESS
) -> Places:
    """Return columns and rows, one of the cells, shape (groups, 2), for each group.

    axes : coordinates of columns and rows
    """
    n = traffic.size
    splits = split_cells(cells, axes)
    places = axes.places(splits.cells)
    scale = max(1.0, float(traffic.weights.max(initial=0)) / MOST_WEIGHT)
    scaled = traffic._replace(weights=np.rint(traffic.weights / scale).astype(np.int64))
    order = rng.permutation(n)
    centre = np.tile(places.mean(axis=0), (n, 1))
    local = np.full(n, -1, np.int64)
    state = rng.integers(1, 1 << 62, 1).astype(np.uint64)
    for stage in _stages(splits.cuts):
        middles = _middles(places, stage)
        for _ in range(ROUNDS if len(stage) > 1 else 1):
            for k in range(0, len(stage), PIECES):
                clock.check()
                some = slice(k, k + PIECES)
                _cut(scaled, stage[some], middles[some], order, centre, local, EFFORT, state)
    return on_cells(order, splits.cells)


@dataclass(frozen=True, slots=True)
class BisectionPlacer(Placer):
    """Cuts the whole region, connected or not: unconnected groups do not attract each other."""

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        cells = np.argwhere(problem.region.usable.T)
        axes = problem.region.axes
        yield problem.placed(*place_by_cuts(problem.traffic, cells, axes, rng, problem.clock))
