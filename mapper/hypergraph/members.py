"""Lists of the vertices on each core, kept up to date during annealing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.graph.by_label import by_label
from mapper.hypergraph.hypergraph import Int32, Int64


class Members(NamedTuple):
    """Lists of the vertices on each core.

    members : a row of vertices per core, with free places at the end
    held : number of vertices of each core
    place : position of each vertex in its row
    """

    members: Int32
    held: Int64
    place: Int64


def members_of(core: Int32, cores: int, spare: int) -> Members:
    """Return the members of a mapping; each core has `spare` places beyond the fullest core."""
    by_core = by_label(core, cores)
    count, place = np.diff(by_core.start), by_core.place.astype(np.int64)
    members = np.full((cores, int(count.max()) + spare), -1, np.int32)
    members[core, place] = np.arange(core.size)
    return Members(members, count, place)


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
