"""Settling of proposals: which vertices may move to other clusters after a step.

`join_together` is independent of the order of the proposals, so threads settle ranges of labels.
`join_in_order` lets each vertex see the moves of the previous ones, which is sequential but takes
fewer rounds; it is for graphs in memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam
from mapper.random_numbers import mixed
from storage.arrays import Int32, Int64, Mask

WORTH_SHARING = 1 << 16  # least proposals, or vertices, that are worth handing over to threads


class Labels(NamedTuple):
    """Growing clusters: label per vertex, size per label, and the last favourites.

    favourite : of all vertices, or of the vertices of a chunk
    """

    cluster: Int32
    size: Int64
    favourite: Int32


@njit(cache=True, nogil=True)
def join_in_order(vertices, targets, sizes, labels, limit, joined, stamp):
    """Move vertices to their targets sequentially; return the number of moves.

    joined : ndarray[int32], shape (labels,), the last step in which a vertex joined the label

    Two single vertices often choose each other: once another vertex has joined v's cluster in this
    step (`joined` holds its stamp), v stays.
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
def _grant(vertices, targets, sizes, held, limit, labels, granted, joined):
    """Apply rule 1 to a range of labels; sets `granted` of each granted proposal to 1."""
    low, high = labels
    for i in range(vertices.size):
        to = targets[i]
        if to < low or to >= high:
            continue
        size = sizes[vertices[i]]
        if held[to] > 0 and held[to] + size <= limit:
            held[to] += size
            joined[to] = True
            granted[i] = 1


@njit(cache=True, nogil=True)
def _withdraw(vertices, targets, sizes, clusters, salt, labels, granted, joined):
    """Apply rule 2 and update the sizes; sets `granted` of a withdrawn proposal to 2."""
    low, high = labels
    cluster, held = clusters.cluster, clusters.size
    for i in range(vertices.size):
        if granted[i] == 0:
            continue
        to, own, size = targets[i], cluster[vertices[i]], sizes[vertices[i]]
        stays = joined[own] and mixed(own, 0, salt) > mixed(to, 0, salt)
        if stays and low <= to < high:
            held[to] -= size
            granted[i] = 2
        elif not stays and low <= own < high:
            held[own] -= size


def join_together(
    vertices: Int32,
    targets: Int32,
    sizes: Int64,
    labels: Labels,
    limit: int,
    salt: int,
    joined: Mask,
    team: ThreadTeam,
) -> int:
    """Move vertices to their targets simultaneously; return the number of moves.

    vertices : ascending; joined : ndarray[bool], shape (labels,), scratch, False on entry and exit

    1. A nonempty label grants proposals in ascending order of vertex, as long as its size before
    the step plus the granted sizes is within the limit.
    2. A granted proposal is withdrawn if the vertex's own label also granted one and has the larger
    hash: so if two single vertices choose each other, one stays.
    3. All others take effect together.

    Each thread settles a range of labels, and scans all proposals for the ones that concern it.
    """
    ranges = label_ranges(joined.size, vertices.size, team.threads)
    granted = np.zeros(vertices.size, np.uint8)
    team.map(
        lambda some: _grant(vertices, targets, sizes, labels.size, limit, some, granted, joined),
        ranges,
    )
    team.map(
        lambda some: _withdraw(vertices, targets, sizes, labels, salt, some, granted, joined),
        ranges,
    )
    moving = granted == 1
    labels.cluster[vertices[moving]] = targets[moving]
    joined[targets] = False
    return int(np.count_nonzero(moving))


def label_ranges(labels: int, work: int, threads: int) -> list[tuple[int, int]]:
    """Return ranges of labels, one per thread if there is enough work to share."""
    shares = threads if work >= WORTH_SHARING else 1
    edges = [labels * share // shares for share in range(shares + 1)]
    return list(pairwise(edges))
