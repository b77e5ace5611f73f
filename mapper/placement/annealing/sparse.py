"""Annealing of one tile of the mesh where groups have few connections.

Without tables of costs a swap is priced from the connections of the two groups, which for a few of
them costs as much as look-ups in a table, and a swap that is made costs nothing more. On 4,096
groups of a sheared grid both ways end alike in the same time; this one needs no memory for tables.
The groups of a tile and the cells of those that they talk to are copied into lists of their own,
which fit the cache. The moves are those of `mapper.placement.annealing.dense`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mapper.runtime.random import draw


@njit(cache=True, nogil=True)
def _gather(indptr, ids, weights, start, members, box, at, local_indptr, near, pull):
    """Lists of a tile's groups, numbered by their place in `members`, and of those around.

    start : ndarray[int32], shape (groups, 2), column and row; box : first and end column, row
    at : ndarray[int32], shape (rows, columns) of the box, number of the group on each cell or -1;
        filled
    near, pull : number of the other end and weight of each connection, filled; ends outside the
        tile get numbers of their own behind the members

    Returns the places of all numbered groups, shape (count, 2).
    """
    left, right, top, bottom = box[0], box[1], box[2], box[3]
    for y in range(at.shape[0]):  # not by slices: numba's would compile messages of errors
        for x in range(at.shape[1]):
            at[y, x] = -1
    for i in range(members.size):
        u = members[i]
        at[start[u, 1] - top, start[u, 0] - left] = i
    count = members.size
    used = 0
    place = np.empty((members.size + near.size, 2), np.int32)
    for i in range(members.size):
        u = members[i]
        place[i, 0], place[i, 1] = start[u, 0], start[u, 1]
        local_indptr[i] = used
        for e in range(indptr[u], indptr[u + 1]):
            t = ids[e]
            tx, ty = start[t, 0], start[t, 1]
            if left <= tx < right and top <= ty < bottom:
                near[used] = at[ty - top, tx - left]
            else:
                near[used] = count
                place[count, 0], place[count, 1] = tx, ty
                count += 1
            pull[used] = weights[e]
            used += 1
    local_indptr[members.size] = used
    return place[:count]


@njit(cache=True, nogil=True)
def _anneal_sparse(
    indptr, near, pull, mass, pull_x, pull_y, place, at, movers, box, window, share, heat, moves,
    state,
):  # fmt: skip
    """Propose `moves` swaps within a tile; returns those made and the change of cost.

    indptr, near, pull, place, at : as by `_gather`; places and cells change
    mass : of each member in the background; pull_x, pull_y : as in `annealing`
    movers : numbers of the groups that look for partners
    share : of 1024 partners, those next to a neighbour; the others are at most `window` away
    """
    left, right, top, bottom = box[0], box[1], box[2], box[3]
    made = 0
    total = 0.0
    for _ in range(moves):
        u = movers[draw(state, movers.size)]
        ux, uy = np.int64(place[u, 0]), np.int64(place[u, 1])
        cx, cy, reach = ux, uy, window
        if draw(state, np.int64(1024)) < share:
            t = near[indptr[u] + draw(state, indptr[u + 1] - indptr[u])]
            cx, cy, reach = np.int64(place[t, 0]), np.int64(place[t, 1]), 1
            cx, cy = min(max(cx, left), right - 1), min(max(cy, top), bottom - 1)
        low, high = max(left, cx - reach), min(right - 1, cx + reach)
        tx = low + draw(state, high - low + 1)
        low, high = max(top, cy - reach), min(bottom - 1, cy + reach)
        ty = low + draw(state, high - low + 1)
        v = at[ty - top, tx - left]
        if v < 0 or v == u:
            continue
        change = np.float64(0)
        for e in range(indptr[u], indptr[u + 1]):
            t = near[e]
            x, y = np.int64(place[t, 0]), np.int64(place[t, 1])
            if t != v:
                d = abs(x - tx) + abs(y - ty) - abs(x - ux) - abs(y - uy)
                change += pull[e] * d
        for e in range(indptr[v], indptr[v + 1]):
            t = near[e]
            x, y = np.int64(place[t, 0]), np.int64(place[t, 1])
            if t != u:
                d = abs(x - ux) + abs(y - uy) - abs(x - tx) - abs(y - ty)
                change += pull[e] * d
        change += (mass[u] - mass[v]) * (pull_x[tx] - pull_x[ux] + pull_y[ty] - pull_y[uy])
        if heat > 0.0 and change > 0.0:
            if change > 16.0 * heat:
                continue
            if change >= -heat * math.log((1 + draw(state, np.int64(1 << 30))) / (1 << 30)):
                continue
        elif heat == 0.0 and change >= 0.0:
            continue
        place[u, 0], place[u, 1] = tx, ty
        place[v, 0], place[v, 1] = ux, uy
        at[uy - top, ux - left] = v
        at[ty - top, tx - left] = u
        made += 1
        total += change
    return made, total
