"""Which wishes of vertices for other clusters are granted, once those of a step are known.

`join_together` is defined without any order of the wishes: they may be settled by ranges of labels,
by whoever has them. `join_in_order` lets each vertex see where those before it went, which takes
one hand but fewer rounds; it is for graphs in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.runtime.random import mixed


class Labels(NamedTuple):
    """Clusters while they grow: label per vertex, size per label, and the last favourites.

    favourite : of all vertices, or of those of the chunk that is looked at
    """

    cluster: NDArray[np.int32]
    size: NDArray[np.int64]
    favourite: NDArray[np.int32]


@njit(cache=True, nogil=True)
def join_in_order(vertices, targets, sizes, labels, limit, joined, stamp):
    """Let vertices move to their targets, one after the other; returns how many did.

    joined : ndarray[int32], shape (labels,), the last step in which a label got a vertex
    Two single vertices often choose each other: once another vertex has joined v's cluster in this
    step (`joined` holds its stamp), v stays where it is.
    """
    cluster, cluster_sizes = labels.cluster, labels.size
    moved = 0
    for i in range(vertices.size):
        v, to = vertices[i], targets[i]
        own = cluster[v]
        if cluster_sizes[to] == 0 or cluster_sizes[to] + sizes[v] > limit:
            continue
        if joined[own] == stamp and cluster_sizes[own] > sizes[v]:
            continue
        cluster_sizes[own] -= sizes[v]
        cluster_sizes[to] += sizes[v]
        cluster[v] = to
        joined[to] = stamp
        moved += 1
    return moved


@njit(cache=True, nogil=True)
def join_together(vertices, targets, sizes, labels, limit, salt, joined):
    """Let vertices move to their targets, all at once; returns how many did.

    vertices : ascending; joined : ndarray[bool], shape (labels,), scratch, False on entry and exit

    1. A label that holds anything grants wishes in ascending order of vertex while what it held
       before the step and what it granted stays within the limit.
    2. A granted wish is withdrawn if the own label of its vertex granted one, too, and has the
       larger hash: so of two single vertices that choose each other one stays.
    3. All others take effect together.
    """
    cluster, cluster_sizes = labels.cluster, labels.size
    granted = np.zeros(vertices.size, np.bool_)
    for i in range(vertices.size):
        to, size = targets[i], sizes[vertices[i]]
        if cluster_sizes[to] > 0 and cluster_sizes[to] + size <= limit:
            cluster_sizes[to] += size
            joined[to] = granted[i] = True
    moved = 0
    for i in range(vertices.size):
        if not granted[i]:
            continue
        v, to = vertices[i], targets[i]
        own = cluster[v]
        if joined[own] and mixed(own, 0, salt) > mixed(to, 0, salt):
            cluster_sizes[to] -= sizes[v]
        else:
            cluster_sizes[own] -= sizes[v]
            cluster[v] = to
            moved += 1
    for to in targets:
        joined[to] = False
    return moved
