"""Pairs of parts that exchange vertices if only the cut counts: the most strongly connected pairs.

On a mesh these are adjacent cores; without positions, the pairs with most of the cut between them
(the quotient graph of Sanders and Schulz, ESA 2011), ordered into matchings.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam, WorkspacePool
from mapper.graph.affinity import favourites
from mapper.graph.by_label import sums_by_label
from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import ADJACENT, CUT, DIAGONAL, CoreMesh
from storage.arrays import Int32, Int64

PARTNERS = 10  # partners of a part, at most, unless it is a top partner of another


def pairs_of(
    rows: Rows, core: Int32, mesh: CoreMesh, corners: bool, team: ThreadTeam
) -> list[Int64]:
    """Return the sets of pairs of cores for exchanges; see `partners`.

    corners : on a mesh, include pairs across a corner
    """
    if mesh.most == CUT:
        return partners(rows, core, mesh.capacities.size, team)
    return list(mesh.pairs((*ADJACENT, *DIAGONAL) if corners else ADJACENT))


def partners(rows: Rows, part: Int32, parts: int, team: ThreadTeam) -> list[Int64]:
    """Return sets of pairs of parts, each of shape (pairs, 2), most strongly connected first.

    The pairs of a set are disjoint.
    """
    workspaces = WorkspacePool(lambda: (np.zeros(parts, np.int64), np.empty(parts, np.int64)))

    def look(index: int) -> tuple[Int64, Int64]:
        chunk = rows.read(index)
        favourite, strength = np.empty((2, chunk.vertices), np.int64)
        with workspaces.borrow() as (affinity, connected):
            favourites(chunk, part, affinity, connected, favourite, strength)
        own = part[chunk.first : chunk.first + chunk.vertices].astype(np.int64)
        low, high = np.minimum(own, favourite), np.maximum(own, favourite)
        return _added((low * parts + high)[favourite >= 0], strength[favourite >= 0])

    found = list(team.stream(look, range(rows.chunks)))
    keys, sums = _added(*(np.concatenate(some) for some in zip(*found, strict=True)))
    order = np.argsort(-sums, kind="stable")
    first, second = keys[order] // parts, keys[order] % parts
    colour = np.empty(order.size, np.int64)
    _colour(first, second, np.zeros(parts, np.int64), PARTNERS, colour)
    chosen = [colour == c for c in range(int(colour.max(initial=-1)) + 1)]
    return [np.column_stack([first[mine], second[mine]]) for mine in chosen]


def _added(keys: Int64, sums: Int64) -> tuple[Int64, Int64]:
    """Merge equal keys; return the keys and their sums."""
    once, place = np.unique(keys, return_inverse=True)
    return once, sums_by_label(place, sums, once.size)


@njit(cache=True, nogil=True)
def _colour(first, second, count, most, colour):
    """Colour pairs greedily, in their order; pairs of a colour share no part.

    count : scratch per part, zero on entry
    most : pairs per part, unless the other part has fewer
    colour : filled, -1 for pairs left out: no part is in more than 4 * most
    """
    taken = np.zeros((count.size, 4 * most), np.bool_)
    for p in range(first.size):
        a, b = first[p], second[p]
        colour[p] = -1
        if count[a] >= most and count[b] >= most:
            continue
        for c in range(taken.shape[1]):
            if not taken[a, c] and not taken[b, c]:
                taken[a, c] = True
                taken[b, c] = True
                colour[p] = c
                count[a] += 1
                count[b] += 1
                break
