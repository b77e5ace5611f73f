"""Affinity of vertices to parts: sums of connection weights by part, and the cut."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sum_by_part(row, weights, part, affinity, connected):
    """Add up the weights of a row by the part of the neighbours; return the number of parts.

    affinity : per part, zero on entry; connected : filled with the parts, in the order of the row
    """
    count = 0
    for e in range(row.size):
        k = np.uint32(part[np.uint32(row[e])])
        before = affinity[k]
        if before == 0 and weights[e] > 0:
            connected[count] = k
            count += 1
        affinity[k] = before + weights[e]
    return count


@njit(cache=True, nogil=True)
def favourites(chunk, part, affinity, connected, favourite, strength):
    """Find for each vertex of a chunk the other part that it is connected to most, or -1.

    affinity : scratch per part, zero on entry and exit; connected : scratch per part
    favourite, strength : shape (vertices of the chunk,), filled
    """
    first, indptr, ids, weights = chunk
    for i in range(indptr.size - 1):
        low, high = indptr[i], indptr[i + 1]
        count = sum_by_part(ids[low:high], weights[low:high], part, affinity, connected)
        affinity[part[first + i]] = 0
        favourite[i] = -1
        strength[i] = 0
        for t in range(count):
            k = connected[t]
            if affinity[k] > strength[i]:
                favourite[i] = k
                strength[i] = affinity[k]
            affinity[k] = 0


@njit(cache=True, nogil=True)
def cut_of(chunk, part):
    """Sum the weights from the rows of a chunk to other parts."""
    first, indptr, ids, weights = chunk
    cut = np.int64(0)
    for i in range(indptr.size - 1):
        row = ids[indptr[i] : indptr[i + 1]]
        row_weights = weights[indptr[i] : indptr[i + 1]]
        own = part[first + i]
        for e in range(row.size):
            cut += row_weights[e] if part[np.uint32(row[e])] != own else 0
    return cut
