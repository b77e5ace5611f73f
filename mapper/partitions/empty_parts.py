"""Vertices for parts that were left empty: users expect as many parts as they ask for."""

from __future__ import annotations

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import Rows
from storage.arrays import Int32, Int64


def fill_empty_parts(rows: Rows, part: Int32, parts: int, team: ThreadTeam) -> Int32:
    """Return the partition with a vertex in each part that was empty.

    The vertices with the least weight to their own part move; each part keeps one vertex. There
    must be at least as many vertices as parts.

    part : ndarray[int32], shape (vertices,), 0 .. parts - 1
    """
    counts = np.bincount(part, minlength=parts)
    empty = np.flatnonzero(counts == 0).astype(np.int32)
    if not empty.size:
        return part
    loss = _own_weights(rows, part, team)
    order = np.lexsort((-loss, part))  # by part, heaviest bond first: that vertex stays
    stays = np.zeros(part.size, np.bool_)
    stays[order[np.append(0, np.cumsum(counts[counts > 0])[:-1])]] = True
    free = np.flatnonzero(~stays)
    moved = free[np.argsort(loss[free], kind="stable")[: empty.size]]
    found = part.copy()
    found[moved] = empty
    return found


def _own_weights(rows: Rows, part: Int32, team: ThreadTeam) -> Int64:
    """Return the weight of the connections of each vertex to its own part."""
    found = np.zeros(part.size, np.int64)

    def look(index: int) -> None:
        chunk = rows.read(index)
        low, high = int(chunk.indptr[0]), int(chunk.indptr[-1])
        own = np.arange(chunk.first, chunk.first + chunk.vertices)
        of = np.repeat(own, np.diff(chunk.indptr))
        inside = part[of] == part[chunk.ids[low:high]]
        weights = np.where(inside, chunk.weights[low:high], 0)
        np.add.at(found, of, weights)

    team.map(look, range(rows.chunks))
    return found
