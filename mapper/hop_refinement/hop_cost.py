"""Exact hops of a mapping."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import CoreMesh, _apart
from mapper.monitoring.threads import ThreadTeam


@njit(cache=True, nogil=True)
def _hop_cost(chunk, core, grid):
    """Sum the hops of the connections of a chunk, from the side of its vertices."""
    first, indptr, ids, weights = chunk
    total = np.int64(0)
    for i in range(indptr.size - 1):
        own = core[first + i]
        for e in range(indptr[i], indptr[i + 1]):
            apart = _apart(core[np.uint32(ids[e])], own, grid)
            total += np.int64(weights[e]) * apart
    return total


def hop_cost(rows: Rows, core: NDArray[np.int32], mesh: CoreMesh, team: ThreadTeam) -> int:
    """Return the hops of all connections, each counted at both of its ends.

    core : ndarray[int32], shape (vertices,); on a flat mesh hops are the cut weight, on a machine
        the costs of distances
    """
    grid = mesh.grid

    def look(index: int) -> int:
        return int(_hop_cost(rows.read(index), core, grid))

    return sum(team.stream(look, range(rows.chunks)))
