"""Which vertices are on which core, kept up to date while annealing moves them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.graph.by_label import by_label
from mapper.hypergraph.hypergraph import Int32, Int64


class Members(NamedTuple):
    """Vertices of each core (in rows that may have free places behind them), their number, and
    where each vertex is in its row."""

    members: Int32
    held: Int64
    place: Int64


def members_of(core: Int32, cores: int, spare: int) -> Members:
    """Those of a mapping; a core has places for so many vertices more than the fullest has."""
    by_core = by_label(core, cores)
    count, place = np.diff(by_core.start), by_core.place.astype(np.int64)
    members = np.full((cores, int(count.max()) + spare), -1, np.int32)
    members[core, place] = np.arange(core.size)
    return Members(members, count, place)


@njit(cache=True, nogil=True)
def relocate(members, count, place, v, a, b):
    """Vertex v leaves core a for a free place of b."""
    last = members[a, count[a] - 1]
    members[a, place[v]] = last
    place[last] = place[v]
    count[a] -= 1
    members[b, count[b]] = v
    place[v] = count[b]
    count[b] += 1


@njit(cache=True, nogil=True)
def swap(members, place, v, a, u, b):
    """Vertex v of core a and u of core b change places."""
    members[a, place[v]] = u
    members[b, place[u]] = v
    place[v], place[u] = place[u], place[v]
