"""Moves of single vertices that save hops: find the best core for a vertex.

A connection costs its weight times the distance between the cores of its ends. The cost of a vertex
is a sum of a function of its column and a function of its row, both convex, with minima at the
weighted medians of its neighbours' columns and rows (Goto, IEEE Trans. Circuits Syst. 28, 1981). So
only cores between the present position and the medians can be better. On a torus the functions are
not convex; there the cores on the way to the minima are candidates.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.machine import STRAIGHT
from mapper.concurrency.threads import WorkspacePool
from mapper.executors.shard import State
from mapper.graph.csr import Chunk
from mapper.graph.distance import along
from mapper.hop_refinement.mesh import CoreMesh, _apart
from mapper.limits.domains import Domains
from mapper.partitioning.kway_refinement import Moves, Seeker
from storage.arrays import Int64

MUCH_BETTER = 2  # gain ratio above which a full core is preferred to one with slack
INT32_MOST = np.int64(2**31 - 1)


@njit(cache=True, nogil=True)
def _walk(weight, at, before, after, place, gain):
    """Compute gains of moves along one axis to the median; return first position and count.

    weight : weight of the neighbours at every position
    before, after : sums of `weight` below and above `at`
    place : coordinate of every position
    gain : receives the gain at each position from `at` to the median
    """
    here = weight[at]
    gain[at] = 0
    if after > before + here:
        step, ahead, stop = 1, after, before + here
    elif before > after + here:
        step, ahead, stop = -1, before, after + here
    else:
        return at, 1
    total = np.int64(0)
    p = at
    while ahead > stop:
        total += (ahead - stop) * abs(np.int64(place[p + step]) - place[p])
        p += step
        gain[p] = total
        ahead -= weight[p]
        stop += weight[p]
    if total == 0:
        return at, 1
    # Cores of a tile have equal gains: one of them may have slack.
    while 0 <= p + step < place.size and place[p + step] == place[p]:
        p += step
        gain[p] = total
    return min(at, p), abs(p - at) + 1


@njit(cache=True, nogil=True)
def _walk_round(weight, at, place, around, gain):
    """Compute gains on a torus, with possibly several minima: the way to the global minimum.

    It takes the shorter way; on ties it goes up. Among equal minima, the one at the lowest position
    is used.
    """
    best = at
    gain[at] = 0
    for p in range(weight.size):
        gain[p] = 0
        for q in range(weight.size):
            if weight[q] != 0:
                farther = along(place[q], place[at], around) - along(place[q], place[p], around)
                gain[p] += weight[q] * farther
        if gain[p] > gain[best]:
            best = p
    up = (best - at) % weight.size
    down = (at - best) % weight.size
    return (at, up + 1) if up <= down else (best, down + 1)


class Sums(NamedTuple):
    """Scratch, one number per column or row; zero on entry and exit, except the gains."""

    in_column: Int64
    in_row: Int64
    gain_x: Int64
    gain_y: Int64


@njit(cache=True, nogil=True)
def _best_core(v, own, sizes, grid, block_weights, columns, rows, sums):
    """Return the best core for a vertex and its gain; (-1, 0) if none is better.

    own : its core; columns, rows : first column (row) with a gain, and their number
    Prefers the best core with slack, unless another is much better.
    """
    width, height, capacities = grid.width, grid.height, grid.capacities
    with_slack = best = -1
    gain_with_slack = best_gain = np.int64(0)
    for j in range(rows[1]):
        y = rows[0] + j if rows[0] + j < height else rows[0] + j - height
        for i in range(columns[1]):
            x = columns[0] + i if columns[0] + i < width else columns[0] + i - width
            c = y * width + x
            g = sums.gain_x[x] + sums.gain_y[y]
            if capacities[c] == 0 or c == own:
                continue
            if g > best_gain:
                best, best_gain = c, g
            if g > gain_with_slack and block_weights[c] + sizes[v] <= capacities[c]:
                with_slack, gain_with_slack = c, g
    if with_slack >= 0 and MUCH_BETTER * gain_with_slack >= best_gain:
        return with_slack, gain_with_slack
    return best, best_gain


@njit(cache=True, nogil=True)
def _best_hops(chunk, core, sizes, grid, block_weights, sums, table):
    """Find vertices of a chunk with a better core; see `mapper.partitioning.kway_refinement.Moves`.

    table : filled, as in `Moves`
    Returns the number of proposals, the present hops of all vertices, and their hops if all
    distances were 1.
    """
    first, indptr, ids, weights = chunk
    column, row, axes = grid.column, grid.row, grid.axes
    in_column, gain_x = sums.in_column, sums.gain_x
    in_row, gain_y = sums.in_row, sums.gain_y
    vertices, target, gain, heaviest = table[0], table[1], table[2], table[3]
    found = 0
    paid = np.int64(0)
    everything = np.int64(0)
    for i in range(indptr.size - 1):
        v = first + i
        links = ids[indptr[i] : indptr[i + 1]]
        link_weights = weights[indptr[i] : indptr[i + 1]]
        x0, y0 = column[core[v]], row[core[v]]
        own_x, own_y = np.int64(axes.x[x0]), np.int64(axes.y[y0])
        left = np.int64(0)
        right = np.int64(0)
        above = np.int64(0)
        below = np.int64(0)
        for e in range(links.size):
            c = np.uint32(core[np.uint32(links[e])])
            x, y, w = column[c], row[c], np.int64(link_weights[e])
            in_column[x] += w
            in_row[y] += w
            far = along(axes.x[x], own_x, axes.round_x) + along(axes.y[y], own_y, axes.round_y)
            paid += w * far
            everything += w
            left += w if x < x0 else 0
            right += w if x > x0 else 0
            above += w if y < y0 else 0
            below += w if y > y0 else 0
        if axes.round_x == STRAIGHT:
            columns = _walk(in_column, x0, left, right, axes.x, gain_x)
        else:
            columns = _walk_round(in_column, x0, axes.x, axes.round_x, gain_x)
        if axes.round_y == STRAIGHT:
            rows = _walk(in_row, y0, above, below, axes.y, gain_y)
        else:
            rows = _walk_round(in_row, y0, axes.y, axes.round_y, gain_y)
        for e in range(links.size):
            c = np.uint32(core[np.uint32(links[e])])
            in_column[column[c]] = 0
            in_row[row[c]] = 0
        if columns[1] == 1 and rows[1] == 1:
            continue
        best, best_gain = _best_core(v, core[v], sizes, grid, block_weights, columns, rows, sums)
        if best < 0:
            continue
        vertices[found] = v
        target[found] = best
        gain[found] = min(best_gain, INT32_MOST)
        between = np.int64(0)
        for e in range(links.size):
            if core[np.uint32(links[e])] == best:
                between = max(between, np.int64(link_weights[e]))
        apart = _apart(core[v], best, grid)
        heaviest[found] = min(between * apart, INT32_MOST)
        found += 1
    return found, paid, everything


def _sums(width: int, height: int) -> Sums:
    """Return scratch for a mesh."""
    return Sums(*(np.zeros(length, np.int64) for length in (width, height, width, height)))


class SeekHops(Seeker):
    """Seeks the core with the fewest hops to a vertex's neighbours; parts are core ids."""

    def __init__(self, mesh: CoreMesh, domains: Domains | None = None) -> None:
        self._domains, self._grid = domains, mesh.grid
        self._workspaces = WorkspacePool(partial(_sums, mesh.width, mesh.height))

    def seek(self, chunk: Chunk, state: State) -> Moves:
        table = np.empty((4, chunk.vertices), np.int32)
        with self._workspaces.borrow() as sums:
            found, paid, everything = _best_hops(
                chunk, state.part, state.sizes, self._grid, state.loads, sums, table
            )
        moves = table[:, :found]
        if self._domains is not None:
            moves = moves[:, self._domains.allows(moves[0], moves[1])]
        return Moves(moves, paid, everything)
