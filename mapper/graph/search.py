"""Breadth-first search and connected components.

Implemented here because importing `scipy.sparse.csgraph` takes a tenth of the run of a small
network.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from storage.arrays import Int32, Int64


@njit(cache=True, nogil=True)
def _search(indptr, ids, start, number, label, order):
    """Fill `order` with the vertices reachable from `start`, by distance; return their number.

    label : -1 for unreached vertices, else the number of the search; updated
    """
    label[start] = number
    order[0] = start
    at, end = 0, 1
    while at < end:
        u = order[at]
        at += 1
        for e in range(indptr[u], indptr[u + 1]):
            v = ids[e]
            if label[v] < 0:
                label[v] = number
                order[end] = v
                end += 1
    return end


@njit(cache=True, nogil=True)
def _components(indptr, ids, label, order):
    count = np.int64(0)
    for v in range(label.size):
        if label[v] < 0:
            _search(indptr, ids, v, count, label, order)
            count += 1
    return count


def search_from(indptr: Int64, ids: Int32, start: int) -> Int64:
    """Return the vertices reachable from `start`, by distance."""
    order = np.empty(indptr.size - 1, np.int64)
    end = _search(indptr, ids, start, 0, np.full(order.size, -1, np.int32), order)
    return order[:end]


def components(indptr: Int64, ids: Int32) -> tuple[int, Int32]:
    """Return the number of components and the component of each vertex; the lists are symmetric."""
    label = np.full(indptr.size - 1, -1, np.int32)
    return int(_components(indptr, ids, label, np.empty(label.size, np.int64))), label
