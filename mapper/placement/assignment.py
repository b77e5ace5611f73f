"""Optimal reassignment of the cells of groups that are not connected to each other.

With the rest fixed, such groups do not affect each other: the assignment of their cells is a linear
assignment problem (the independent sets of Doll, Johannes and Antreich, IEEE TCAD 13, 1994). It is
solved by Jonker and Volgenant's method (Computing 38, 1987): column reduction, augmenting row
reduction, then shortest augmenting paths. The members of a class of a dense layer are such a set.
Costs are integers, so that the result is exact and equal on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.chip.machine import STRAIGHT
from mapper.graph.distance import along

UNREACHED = np.int64(1) << np.int64(62)


@njit(cache=True, nogil=True)
def _reduce(cost, row_of, column_of, price, free):
    """Column reduction, then augmenting row reduction, twice.

    Returns the number of unassigned rows, which are the first in `free`.
    """
    n = cost.shape[0]
    for i in range(column_of.size):
        column_of[i] = -1
    for j in range(n - 1, -1, -1):
        best = 0
        for i in range(1, n):
            if cost[i, j] < cost[best, j]:
                best = i
        price[j] = cost[best, j]
        row_of[j] = -1
        if column_of[best] < 0:
            column_of[best] = j
            row_of[j] = best
    left = 0
    for i in range(n):
        if column_of[i] < 0:
            free[left] = i
            left += 1
    for _ in range(2):
        todo = left
        left = 0
        k = 0
        bids = 0
        while k < todo:
            i = free[k]
            k += 1
            bids += 1
            first = second = UNREACHED
            j1 = j2 = -1
            for j in range(n):
                reduced = cost[i, j] - price[j]
                if reduced < first:
                    second, j2 = first, j1
                    first, j1 = reduced, j
                elif reduced < second:
                    second, j2 = reduced, j
            outbid = first < second and j2 >= 0
            holder = row_of[j1]
            if outbid:
                price[j1] -= second - first
            elif holder >= 0 and j2 >= 0:
                j1 = j2
                holder = row_of[j1]
            column_of[i] = j1
            row_of[j1] = i
            if holder >= 0:
                column_of[holder] = -1
                if outbid and bids < 4 * n:  # limits bids: a path is cheaper than many
                    k -= 1
                    free[k] = holder
                else:
                    free[left] = holder
                    left += 1
    return left


@njit(cache=True, nogil=True)
def _assign(cost, row_of, column_of):
    """Solve the assignment problem: column_of[i] and row_of[j], both shape (n,), are filled.

    cost : ndarray[int64], shape (n, n)
    """
    n = cost.shape[0]
    price = np.empty(n, np.int64)
    free = np.empty(n, np.int64)
    left = _reduce(cost, row_of, column_of, price, free)
    distance = np.empty(n, np.int64)
    before = np.empty(n, np.int64)
    done = np.empty(n, np.int64)
    open_ = np.empty(n, np.int64)
    for k in range(left):
        start = free[k]
        for j in range(n):
            distance[j] = cost[start, j] - price[j]
            before[j] = start
            open_[j] = j
        waiting = n
        settled = 0
        while True:
            at = 0
            for q in range(1, waiting):
                if distance[open_[q]] < distance[open_[at]]:
                    at = q
            end = open_[at]
            nearest = distance[end]
            if row_of[end] < 0:
                break
            waiting -= 1
            open_[at] = open_[waiting]
            done[settled] = end
            settled += 1
            i = row_of[end]
            slack = cost[i, end] - price[end] - nearest
            for q in range(waiting):
                j = open_[q]
                reached = cost[i, j] - price[j] - slack
                if reached < distance[j]:
                    distance[j] = reached
                    before[j] = i
        for q in range(settled):
            price[done[q]] += distance[done[q]] - nearest
        while True:  # flip the path
            i = before[end]
            row_of[end] = i
            column_of[i], end = end, column_of[i]
            if i == start:
                break


@njit(cache=True, nogil=True)
def _price_round(csr, members, spot, axis, at, around, cost):
    """Add the cost of each member on the cells of all members, on one axis of a torus."""
    indptr, ids, weights = csr
    for i in range(members.size):
        u = members[i]
        for e in range(indptr[u], indptr[u + 1]):
            p = np.int64(at[spot[ids[e], axis]])
            for j in range(members.size):
                cost[i, j] += weights[e] * along(p, at[spot[members[j], axis]], around)


@njit(cache=True, nogil=True)
def exchange_members(indptr, ids, weights, members, spot, axes):
    """Reassign the cells of `members`, which are not connected to each other, at least cost.

    spot : ndarray[int32], shape (groups, 2), column and row; changed for the members
    axes : coordinates of columns and rows
    """
    n = members.size
    cost = np.zeros((n, n), np.int64)
    for axis in range(2):
        at, around = (axes.x, axes.round_x) if axis == 0 else (axes.y, axes.round_y)
        if around != STRAIGHT:
            _price_round((indptr, ids, weights), members, spot, axis, at, around, cost)
            continue
        low = high = np.int64(spot[members[0], axis])
        for u in members:
            low = min(low, np.int64(spot[u, axis]))
            high = max(high, np.int64(spot[u, axis]))
        held = np.empty(high - low + 1, np.int64)
        for i in range(n):
            u = members[i]
            for c in range(held.size):
                held[c] = 0
            total = np.int64(0)
            for e in range(indptr[u], indptr[u + 1]):
                p = min(max(np.int64(spot[ids[e], axis]), low), high)
                held[p - low] += weights[e]
                total += weights[e]
            here = np.int64(0)
            passed = np.int64(0)
            for c in range(held.size):
                passed += held[c]
                step = np.int64(at[low + c + 1] - at[low + c]) if c + 1 < held.size else 0
                held[c], here = here, here + (2 * passed - total) * step
            for j in range(n):
                cost[i, j] += held[np.int64(spot[members[j], axis]) - low]
    row_of = np.empty(n, np.int64)
    column_of = np.empty(n, np.int64)
    _assign(cost, row_of, column_of)
    to = np.empty((n, 2), spot.dtype)
    for i in range(n):
        u = members[column_of[i]]
        to[i, 0], to[i, 1] = spot[u, 0], spot[u, 1]
    for i in range(n):
        u = members[i]
        spot[u, 0], spot[u, 1] = to[i, 0], to[i, 1]
