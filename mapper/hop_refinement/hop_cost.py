"""What a mapping costs, exactly."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.graph.rows import Rows
from mapper.hop_refinement.mesh import Mesh, _apart
from mapper.runtime.threads import Team


@njit(cache=True, nogil=True)
def _price(first, indptr, ids, weights, core, column, row, most):
    """Hops of the connections of a chunk, as every vertex sees them."""
    total = np.int64(0)
    for i in range(indptr.size - 1):
        own = core[first + i]
        for e in range(indptr[i], indptr[i + 1]):
            apart = _apart(core[np.uint32(ids[e])], own, column, row, most)
            total += np.int64(weights[e]) * apart
    return total


def price(rows: Rows, core: NDArray[np.int32], mesh: Mesh, team: Team) -> int:
    """Hops of all connections, each counted at both of its ends.

    core : ndarray[int32], shape (vertices,); on a flat mesh the hops are the cut
    """
    column, row = mesh.column, mesh.row

    def look(index: int) -> int:
        chunk = rows.read(index)
        links = chunk.indptr, chunk.ids, chunk.weights
        return int(_price(chunk.first, *links, core, column, row, mesh.most))

    return sum(team.stream(look, range(rows.chunks)))
