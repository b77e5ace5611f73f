"""Lists of the vertices on each core, kept up to date during annealing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.graph.by_label import by_label
from storage.arrays import Int32, Int64, Mask


class Members(NamedTuple):
    """Lists of the vertices on each core.

    members : shape (cores, places), rows of vertices with free places at the end
    held : number of vertices of each core
    place : position of each vertex in its row, -1 for excluded vertices
    """

    members: Int32
    held: Int64
    place: Int64


def members_of(core: Int32, cores: int, spare: int, without: Mask | None = None) -> Members:
    """Return the members of a mapping; each core has `spare` places beyond the fullest core.

    without : ndarray[bool], shape (vertices,), vertices to exclude
    """
    order, start, place = by_label(core, cores, without)
    count = np.diff(start)
    members = np.full((cores, int(count.max()) + spare), -1, np.int32)
    members[core[order], place[order]] = order
    return Members(members, count, place.astype(np.int64))


@njit(cache=True, nogil=True)
def relocate(members, count, place, v, a, b):
    """Move vertex v from core a to a free place of core b."""
    last = members[a, count[a] - 1]
    members[a, place[v]] = last
    place[last] = place[v]
    count[a] -= 1
    members[b, count[b]] = v
    place[v] = count[b]
    count[b] += 1


@njit(cache=True, nogil=True)
def swap(members, place, v, a, u, b):
    """Swap vertex v of core a and vertex u of core b."""
    members[a, place[v]] = u
    members[b, place[u]] = v
    place[v], place[u] = place[u], place[v]
