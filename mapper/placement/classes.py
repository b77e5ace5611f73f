"""Classes: groups with the same neighbours, such as the members of a dense layer.

They are found by hashes of the neighbour sets, in one pass over the connections. No two members of
a class are connected: otherwise a group would be its own neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from mapper.graph.csr import Subgraph
from mapper.random_numbers import hashed
from storage.arrays import Float64, Int64

MEMBERS = 6  # mean members per class, at least: fewer gain little


@dataclass(frozen=True, slots=True)
class Classes:
    """The class of each group, and the mean weights between members.

    label : ndarray[int64], shape (groups,)
    count : number of classes
    indptr, ids, weights : symmetric lists of classes; ndarray[float64] weight of a connection
        between two members, in strengths (the traffic of a mean group)
    """

    label: Int64
    count: int
    indptr: Int64
    ids: Int64
    weights: Float64

    def members(self) -> list[Int64]:
        order = np.argsort(self.label, kind="stable")
        ends = np.cumsum(np.bincount(self.label, minlength=self.count))
        return np.split(order, ends[:-1])

    def coloured(self) -> list[list[int]]:
        """Return sets of classes without connections within a set."""
        colour = np.full(self.count, -1)
        for a in range(self.count):
            taken = set(colour[self.ids[self.indptr[a] : self.indptr[a + 1]]].tolist())
            colour[a] = next(c for c in range(len(taken) + 1) if c not in taken)
        return [np.flatnonzero(colour == c).tolist() for c in range(int(colour.max()) + 1)]


@njit(cache=True, nogil=True)
def _hash_sets(indptr, ids, hashes):
    """Sum hashes of each group's neighbour ids, by splitmix64 (Steele et al., 2014)."""
    for u in range(indptr.size - 1):
        total = np.uint64(0)
        for e in range(indptr[u], indptr[u + 1]):
            total += hashed(ids[e])
        hashes[u] = total


@njit(cache=True, nogil=True)
def _join(indptr, ids, weights, label, order, begin, class_indptr, class_ids, sums):
    """Build the lists of the classes, with the total weight between their members.

    order : groups by class
    begin : start of each class in `order`, shape (classes + 1,)
    class_indptr, class_ids, sums : filled; returns the number of entries
    """
    count = begin.size - 1
    slot = np.full(count, -1, np.int64)
    used = 0
    class_indptr[0] = 0
    for a in range(count):
        first = used
        for i in range(begin[a], begin[a + 1]):
            u = order[i]
            for e in range(indptr[u], indptr[u + 1]):
                d = label[ids[e]]
                if slot[d] < first:
                    slot[d] = used
                    class_ids[used] = d
                    sums[used] = 0.0
                    used += 1
                sums[slot[d]] += weights[e]
        class_indptr[a + 1] = used
    return used


def find_classes(groups: Subgraph) -> Classes | None:
    """Return the classes of a graph, or None if its groups differ too much for classes to help."""
    n = groups.members.size
    if groups.ids.size < MEMBERS * n:
        return None
    hashes = np.empty(n, np.uint64)
    with np.errstate(over="ignore"):  # modulo 2^64, also with the JIT off
        _hash_sets(groups.indptr, groups.ids, hashes)
    _, first, label, size = np.unique(
        hashes, return_index=True, return_inverse=True, return_counts=True
    )
    count = size.size
    degree = np.diff(groups.indptr)  # idle groups do not count as a layer
    if np.count_nonzero(degree[first]) * MEMBERS > np.count_nonzero(degree):
        return None
    label = label.astype(np.int64)
    room = int(degree[first].sum())
    indptr = np.empty(count + 1, np.int64)
    ids, sums = np.empty(room, np.int64), np.empty(room)
    order = np.argsort(label, kind="stable")
    begin = np.append(0, np.cumsum(size))
    used = _join(groups.indptr, groups.ids, groups.weights, label, order, begin, indptr, ids, sums)
    ids, sums = ids[:used], sums[:used]
    owner = np.repeat(np.arange(count), np.diff(indptr))
    strength = float(groups.weights.sum()) / n
    return Classes(label, count, indptr, ids, sums / (size[owner] * size[ids]) / strength)
