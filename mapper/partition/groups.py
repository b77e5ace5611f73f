"""Step 5: the traffic between neuron groups, in one pass over the network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.pairs import PairSums
from mapper.partition.growing import Subgraph
from mapper.partition.rows import Rows
from mapper.team import Spares, Team


@njit(cache=True, nogil=True)
def _sum_by_group(first, order, indptr, ids, weights, part, pull, touched, keys, sums):
    """Traffic from the groups of a chunk's vertices to other groups, by (group, group).

    order : vertices of the chunk sorted by group; pull : scratch per group, zero on entry and exit
    Returns how many sums there are; keys = group * groups + group, increasing.
    """
    groups = pull.size
    found = 0
    at = 0
    while at < order.size:
        own = np.int64(part[first + order[at]])
        count = 0
        while at < order.size and part[first + order[at]] == own:
            v = order[at]
            for e in range(indptr[v], indptr[v + 1]):
                k = part[ids[e]]
                if k == own:
                    continue
                if pull[k] == 0 and weights[e] > 0:
                    touched[count] = k
                    count += 1
                pull[k] += weights[e]
            at += 1
        touched[:count].sort()
        for t in range(count):
            k = touched[t]
            keys[found] = own * groups + k
            sums[found] = pull[k]
            pull[k] = 0
            found += 1
    return found


def group_traffic(
    rows: Rows,
    part: NDArray[np.int32],
    parts: int,
    scratch: Path,
    team: Team,
    advance: Callable[[int], None] = lambda done: None,
) -> Subgraph:
    """The graph of groups in memory; traffic within a group is left out.

    part : ndarray[int32], shape (vertices,), group of every vertex, 0 .. parts-1
    scratch : folder for sums that outgrow the memory meant for them
    """
    pairs = PairSums(parts, scratch)
    spares = Spares(lambda: (np.zeros(parts, np.int64), np.empty(parts, np.int32)))

    def add(index: int) -> int:
        chunk = rows.read(index)
        entries = int(chunk.indptr[-1] - chunk.indptr[0])
        order = np.argsort(part[chunk.first : chunk.first + chunk.vertices], kind="stable")
        keys, sums = np.empty(entries, np.int64), np.empty(entries, np.int64)
        with spares.borrow() as (pull, touched):
            found = _sum_by_group(
                chunk.first, order, chunk.indptr, chunk.ids, chunk.weights, part, pull, touched,
                keys, sums,
            )  # fmt: skip
        pairs.add(keys[:found], sums[:found])
        return entries

    for entries in team.stream(add, range(rows.chunks)):
        advance(entries)
    source, target, weight = pairs.table().arrays()
    indptr = np.zeros(parts + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=parts), out=indptr[1:])
    sizes = np.zeros(parts, np.int64)
    np.add.at(sizes, part, rows.sizes)
    return Subgraph(indptr, target, weight, sizes, np.arange(parts, dtype=np.int64))
