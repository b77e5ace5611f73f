"""Split the traffic of groups into a sparse part and a background of rank one.

If a share of a network's connections is random, every group is weakly connected to every other, and
the group graph is dense though its structure is sparse. The background between groups u and v is
modelled as b_u*b_v / sum(b), where b_u is the traffic of u in connections that do not stand out:
the expectation when their ends are paired at random (the null model of Newman and Girvan's
modularity, Phys. Rev. E 69, 2004). A connection stands out if it is several times as heavy as that.
The cost of a background of rank one follows for every column and row from one histogram.

For large networks the traffic is a sample. Random connections then appear as pairs with a single
sampled connection, far above the background without being outstanding: on a cortex of 32 million
neurons, three of four pairs. If these count as outstanding, the eigenvectors give a poor placement,
41 hops per spike between cores in 54 s; without them it is 34 in 4 s.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.machine import STRAIGHT, Axes
from mapper.graph.csr import Subgraph
from storage.arrays import Float64, Int32, Int64

DENSE = 192  # mean connections per group above which a background is considered
OUTSTANDING = 12.0  # ratio to the background; 1 in 160,000 exponential weights exceeds it
SPARSER = 4  # the split must keep at most one in SPARSER connections
WORTH = 0.2  # and at least this share of the weight; otherwise the background matters more
SEVERAL = 2  # sampled connections of a pair that may be coincidence
WORTH_SAMPLED = 0.5  # share of the weight in pairs with more; otherwise the sample is too thin


class Traffic(NamedTuple):
    """Outstanding connections, and the background of all others.

    indptr, ids, weights : symmetric lists of the outstanding connections, weights ndarray[int64]
    mass : ndarray[float64], shape (groups,), b_u / sqrt(sum(b)); zero if nothing was split off
    """

    indptr: Int64
    ids: Int32
    weights: Int64
    mass: Float64

    @property
    def csr(self) -> tuple[Int64, Int32, Int64]:
        return self.indptr, self.ids, self.weights

    @property
    def size(self) -> int:
        return self.indptr.size - 1


def traffic_of(matrix: Any) -> Traffic:
    """Return the traffic in a sparse matrix of sums of integers, without background."""
    weights = np.rint(matrix.data).astype(np.int64)
    indptr, ids = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return Traffic(indptr, ids, weights, np.zeros(matrix.shape[0]))


class Background(NamedTuple):
    """The cost of the background.

    mass : ndarray[float64], of each group
    columns, rows : ndarray[float64], cost of a unit of mass in every column and row
    """

    mass: Float64
    columns: Float64
    rows: Float64


def background_cost(mass: Float64, position: Int32, at: Int32, around: int) -> Float64:
    """Return the cost of a unit of mass in each column (or row), shape (columns,).

    at, around : coordinates of the columns, and the circumference
    """
    weight = np.bincount(position, weights=mass, minlength=at.size)
    if around != STRAIGHT:
        straight = np.abs(at[:, None].astype(np.int64) - at)
        found: Float64 = np.minimum(straight, around - straight) @ weight
        return found
    before = np.append(0, weight.cumsum()[:-1])
    # away from the mass before, closer to the rest
    step = (2 * before[1:] - weight.sum()) * np.diff(at)
    cost: Float64 = np.append(0.0, step.cumsum())
    return cost + (weight * (at - at[0])).sum()


def background_of(mass: Float64, spot: Int32, axes: Axes) -> Background:
    """Return the background of groups at these columns and rows, shape (groups, 2)."""
    if not mass.any():  # fast path: most graphs, called hundreds of times
        return Background(mass, np.zeros(axes.x.size), np.zeros(axes.y.size))
    columns = background_cost(mass, spot[:, 0], axes.x, axes.round_x)
    return Background(mass, columns, background_cost(mass, spot[:, 1], axes.y, axes.round_y))


@njit(cache=True, nogil=True)
def _rest(indptr, ids, weights, mass, scale, least, rest, count):
    """Sum each group's traffic in connections up to `scale` times the background, or `least`.

    rest : that traffic, changed
    count : number of connections of each group above it, changed
    """
    for u in range(indptr.size - 1):
        rest[u] = 0.0
        count[u] = 0
        for e in range(indptr[u], indptr[u + 1]):
            if weights[e] > max(scale * mass[u] * mass[ids[e]], least):
                count[u] += 1
            else:
                rest[u] += weights[e]


@njit(cache=True, nogil=True)
def _outstanding(indptr, ids, weights, mass, scale, least, kept_indptr, kept_ids, kept_weights):
    """Copy the connections above `scale` times the background and `least`, less the background."""
    for u in range(indptr.size - 1):
        at = kept_indptr[u]
        for e in range(indptr[u], indptr[u + 1]):
            expected = mass[u] * mass[ids[e]]
            if weights[e] > max(scale * expected, least):
                kept_ids[at] = ids[e]
                kept_weights[at] = weights[e] - np.int64(expected)
                at += 1


def split_traffic(groups: Subgraph) -> Traffic:
    """Split off the background of a dense or sampled group graph; keep other graphs whole.

    A dense graph is also kept whole if it has too many outstanding connections or they carry
    little, and a sampled one if nearly all pairs have few sampled connections.
    """
    n = groups.indptr.size - 1
    nothing = np.zeros(n)
    is_sample = groups.grain > 1
    if groups.ids.size <= DENSE * n and not is_sample:
        return Traffic(groups.indptr, groups.ids, groups.weights, nothing)
    csr = (groups.indptr, groups.ids, groups.weights)
    rest, count = np.empty(n), np.empty(n, np.int64)
    least = float(SEVERAL * groups.grain if is_sample else 0)
    _rest(*csr, np.ones(n), np.inf, least, rest, count)  # first: all traffic
    for _ in range(4):
        mass = rest / np.sqrt(max(1.0, rest.sum()))
        _rest(*csr, mass, OUTSTANDING, least, rest, count)
    total = float(groups.weights.sum())
    outstanding = total - float(rest.sum())
    if outstanding < (WORTH_SAMPLED if is_sample else WORTH) * total:
        return Traffic(*csr, nothing)
    if count.sum() * SPARSER > groups.ids.size and not is_sample:
        return Traffic(*csr, nothing)
    indptr = np.append(0, np.cumsum(count))
    ids, weights = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int64)
    _outstanding(*csr, mass, OUTSTANDING, least, indptr, ids, weights)
    return Traffic(indptr, ids, weights, rest / np.sqrt(max(1.0, rest.sum())))


def sampled(traffic: Traffic, limit: int, rng: np.random.Generator) -> Traffic:
    """Return the connections of some groups, about `limit` connections, to compare placements.

    Lists of the other groups are empty, so that the graph is no longer symmetric.
    """
    if traffic.ids.size <= limit:
        return traffic
    degree = np.diff(traffic.indptr)
    kept = rng.random(traffic.size) < limit / traffic.ids.size
    indptr = np.append(0, np.cumsum(np.where(kept, degree, 0)))
    at = np.repeat(kept, degree)
    return Traffic(indptr, traffic.ids[at], traffic.weights[at], traffic.mass)
