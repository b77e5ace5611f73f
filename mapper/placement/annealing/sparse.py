"""Annealing of one tile of the mesh for groups with few connections.

Without cost tables a swap is priced from the connections of the two groups, which for few
connections costs as much as table lookups, and an accepted swap costs nothing more. On 4,096 groups
of a sheared grid both methods reach equal results in the same time; this one needs no memory for
tables. The groups of a tile and the cells of their neighbours are copied into separate lists, which
fit the cache. The moves are the same as in `mapper.placement.annealing.dense`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.machine import STRAIGHT
from mapper.graph.distance import along
from mapper.placement.annealing.schedule import CHANCES, HOPELESS, allowance
from mapper.random_numbers import draw
from storage.arrays import Float64, Int32, Int64


class Local(NamedTuple):
    """The groups of a tile, numbered by their index in its members, and their external neighbours.

    indptr, ids, weights : connections of the members, weights ndarray[float64]; ends outside the
        tile have numbers after the members, one per connection
    place : ndarray[int32], shape (count, 2), column and row of all numbered groups, changed
    where : ndarray[int32], shape (count, 2), their coordinates, changed
    at : ndarray[int32], shape (rows, columns) of the box, number of the group on each cell or -1,
        changed
    """

    indptr: Int64
    ids: Int32
    weights: Float64
    place: Int32
    where: Int32
    at: Int32


@njit(cache=True, nogil=True)
def _gather(traffic, start, tile, at, local_indptr, local_ids, local_weights):
    """Fill the arrays of `Local` for a tile; return its `place` and `where`.

    start : ndarray[int32], shape (groups, 2), column and row
    """
    indptr, ids, weights = traffic.indptr, traffic.ids, traffic.weights
    members, box = tile.members, tile.box
    left, right, top, bottom = box[0], box[1], box[2], box[3]
    for y in range(at.shape[0]):  # loops: with slices numba compiles error messages
        for x in range(at.shape[1]):
            at[y, x] = -1
    for i in range(members.size):
        u = members[i]
        at[start[u, 1] - top, start[u, 0] - left] = i
    count = members.size
    used = 0
    place = np.empty((members.size + local_ids.size, 2), np.int32)
    for i in range(members.size):
        u = members[i]
        place[i, 0], place[i, 1] = start[u, 0], start[u, 1]
        local_indptr[i] = used
        for e in range(indptr[u], indptr[u + 1]):
            t = ids[e]
            tx, ty = start[t, 0], start[t, 1]
            if left <= tx < right and top <= ty < bottom:
                local_ids[used] = at[ty - top, tx - left]
            else:
                local_ids[used] = count
                place[count, 0], place[count, 1] = tx, ty
                count += 1
            local_weights[used] = weights[e]
            used += 1
    local_indptr[members.size] = used
    where = np.empty((count, 2), np.int32)
    for i in range(count):
        where[i, 0], where[i, 1] = tile.axes.x[place[i, 0]], tile.axes.y[place[i, 1]]
    return place[:count], where


@njit(cache=True, nogil=True)
def _moved_round(local, axes, u, v, before, after):
    """Return the change of the cost of u's connections, except to v, when it moves on a torus.

    before, after : coordinates of u
    """
    change = np.float64(0)
    for e in range(local.indptr[u], local.indptr[u + 1]):
        t = local.ids[e]
        x, y = np.int64(local.where[t, 0]), np.int64(local.where[t, 1])
        if t != v:
            d = along(x, after[0], axes.round_x) + along(y, after[1], axes.round_y)
            d -= along(x, before[0], axes.round_x) + along(y, before[1], axes.round_y)
            change += local.weights[e] * d
    return change


@njit(cache=True, nogil=True)
def _anneal_sparse(local, background, tile, proposals):
    """Propose swaps within a tile; return the swaps made and the change of cost.

    background : masses of the members
    tile : movers as numbers in `Local`
    """
    indptr, ids, weights = local.indptr, local.ids, local.weights
    place, where, at = local.place, local.where, local.at
    axes = tile.axes
    torus = axes.round_x != STRAIGHT or axes.round_y != STRAIGHT
    mass, by_column, by_row = background.mass, background.columns, background.rows
    box, movers, state = tile.box, tile.movers, tile.state
    window, near, temperature = proposals.window, proposals.near, proposals.temperature
    left, right, top, bottom = box[0], box[1], box[2], box[3]
    made = 0
    total = 0.0
    for _ in range(proposals.moves):
        u = movers[draw(state, movers.size)]
        ux, uy = np.int64(place[u, 0]), np.int64(place[u, 1])
        cx, cy, reach = ux, uy, window
        if draw(state, np.int64(1024)) < near:
            t = ids[indptr[u] + draw(state, indptr[u + 1] - indptr[u])]
            cx, cy, reach = np.int64(place[t, 0]), np.int64(place[t, 1]), 1
            cx, cy = min(max(cx, left), right - 1), min(max(cy, top), bottom - 1)
        low, high = max(left, cx - reach), min(right - 1, cx + reach)
        tx = low + draw(state, high - low + 1)
        low, high = max(top, cy - reach), min(bottom - 1, cy + reach)
        ty = low + draw(state, high - low + 1)
        v = at[ty - top, tx - left]
        if v < 0 or v == u:
            continue
        from_x, from_y = np.int64(where[u, 0]), np.int64(where[u, 1])
        to_x, to_y = np.int64(where[v, 0]), np.int64(where[v, 1])
        if torus:
            before, after = (from_x, from_y), (to_x, to_y)
            change = _moved_round(local, axes, u, v, before, after)
            change += _moved_round(local, axes, v, u, after, before)
        else:  # as `_moved_round`, but 1.5 times as fast
            change = np.float64(0)
            for e in range(indptr[u], indptr[u + 1]):
                t = ids[e]
                x, y = np.int64(where[t, 0]), np.int64(where[t, 1])
                if t != v:
                    d = abs(x - to_x) + abs(y - to_y) - abs(x - from_x) - abs(y - from_y)
                    change += weights[e] * d
            for e in range(indptr[v], indptr[v + 1]):
                t = ids[e]
                x, y = np.int64(where[t, 0]), np.int64(where[t, 1])
                if t != u:
                    d = abs(x - from_x) + abs(y - from_y) - abs(x - to_x) - abs(y - to_y)
                    change += weights[e] * d
        change += (mass[u] - mass[v]) * (by_column[tx] - by_column[ux] + by_row[ty] - by_row[uy])
        if temperature > 0.0 and change > 0.0:
            if change > HOPELESS * temperature:
                continue
            if change >= allowance(temperature, draw(state, np.int64(CHANCES))):
                continue
        elif temperature == 0.0 and change >= 0.0:
            continue
        place[u, 0], place[u, 1] = tx, ty
        place[v, 0], place[v, 1] = ux, uy
        where[u, 0], where[u, 1] = to_x, to_y
        where[v, 0], where[v, 1] = from_x, from_y
        at[uy - top, ux - left] = v
        at[ty - top, tx - left] = u
        made += 1
        total += change
    return made, total
