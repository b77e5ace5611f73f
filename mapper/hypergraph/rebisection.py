"""Rebisection: merge pairs of parts and bisect them again.

With all other parts fixed, a net costs its weight if it has pins in both parts of a pair, so the
best distribution of the pair's vertices is a bisection of their induced hypergraph (pairwise
refinement as in Sanders and Schulz, ESA 2011, with multilevel bisection instead of FM). Disjoint
pairs do not affect each other and are processed in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.by_label import by_label
from mapper.hypergraph.bisection import BisectionEffort, bisect
from mapper.hypergraph.hypergraph import Hypergraph, connectivity, make_hypergraph
from storage.arrays import Int32, Int64


@njit(cache=True, nogil=True)
def _induced(graph, members, number, out_start, out_pins, out_weights):
    """Write the nets with at least two pins among some vertices, restricted to these pins.

    number : index of every vertex among the members, -1 for others. Returns the number of nets.
    """
    start, pins, weights, vertex_start, nets, _ = graph
    seen = np.zeros(weights.size, np.uint8)
    at = 0
    found = 0
    out_start[0] = 0
    for v in members:
        for i in range(vertex_start[v], vertex_start[v + 1]):
            e = nets[i]
            if seen[e]:
                continue
            seen[e] = 1
            first = at
            for p in range(start[e], start[e + 1]):
                u = number[pins[p]]
                if u >= 0:
                    out_pins[at] = u
                    at += 1
            if at - first < 2:
                at = first
                continue
            out_weights[found] = weights[e]
            found += 1
            out_start[found] = at
    return found


def induced(graph: Hypergraph, members: Int64) -> Hypergraph:
    """Return the hypergraph induced by some vertices."""
    number = np.full(graph.vertices, -1, np.int32)
    number[members] = np.arange(members.size)
    degrees = graph.vertex_start[members + 1] - graph.vertex_start[members]
    most = int(degrees.sum())
    start, weights = np.empty(most + 1, np.int64), np.empty(most, np.int64)
    pins = np.empty(most, np.int32)
    found = _induced(graph, members, number, start, pins, weights)
    used = int(start[found])
    return make_hypergraph(
        start[: found + 1].copy(), pins[:used].copy(), weights[:found].copy(), graph.sizes[members]
    )


@njit(cache=True, nogil=True)
def _shared(start, pins, weights, part, marks, reached, table):
    """Add the weight of each net to all pairs of parts that it reaches; symmetric.

    marks : scratch per part, -1 on entry
    reached : scratch per part
    """
    for e in range(start.size - 1):
        count = 0
        for p in range(start[e], start[e + 1]):
            k = part[pins[p]]
            if marks[k] != e:
                marks[k] = e
                reached[count] = k
                count += 1
        for i in range(count):
            for j in range(i):
                table[reached[i], reached[j]] += weights[e]
                table[reached[j], reached[i]] += weights[e]


@dataclass(frozen=True, slots=True)
class PairEffort:
    """Parameters of rebisection.

    rounds : number of rounds, with each part in at most one pair
    bisection : bisection of each pair
    """

    rounds: int
    bisection: BisectionEffort


def rebisect_pairs(
    graph: Hypergraph,
    part: Int32,
    capacities: Int64,
    effort: PairEffort,
    seed: int,
    team: ThreadTeam,
) -> int:
    """Bisect pairs of parts that share nets again; `part` is changed in place.

    Returns the decrease of the connectivity. The result is the same for any number of threads.
    """
    parts = capacities.size
    tried = np.zeros((parts, parts), np.bool_)  # pairs tried since either part last changed
    won = 0
    for index in range(effort.rounds):
        shared = np.zeros((parts, parts), np.int64)
        marks, reached = np.full(parts, -1, np.int64), np.empty(parts, np.int64)
        _shared(graph.start, graph.pins, graph.weights, part, marks, reached, shared)
        rng = np.random.default_rng([seed, index])
        pairs = _matching(np.where(tried, 0, shared), rng)
        if not pairs:
            break
        order, begin, _ = by_label(part, parts)

        def work(
            pair: tuple[int, int], order: Int32 = order, begin: Int64 = begin, index: int = index
        ) -> tuple[int, Int64]:
            members = np.concatenate([order[begin[k] : begin[k + 1]] for k in pair]).astype(
                np.int64
            )
            return _cut(
                graph, members, part, pair, capacities, effort.bisection, [seed, index, *pair]
            )

        for (a, b), (gained, moved) in zip(pairs, team.map(work, pairs), strict=True):
            if gained:
                tried[[a, b]] = tried[:, [a, b]] = False
                part[moved] = a + b - part[moved]
                won += gained
            tried[a, b] = tried[b, a] = True
    return won


def _matching(shared: Int64, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return disjoint pairs of parts that share much weight."""
    low, high = np.nonzero(np.triu(shared, 1))
    score = shared[low, high] * rng.random(low.size)
    free = np.ones(shared.shape[0], np.bool_)
    pairs = []
    for i in np.argsort(-score, kind="stable"):
        a, b = int(low[i]), int(high[i])
        if free[a] and free[b]:
            free[a] = free[b] = False
            pairs.append((a, b))
    return pairs


def _cut(
    graph: Hypergraph,
    members: Int64,
    part: Int32,
    pair: tuple[int, int],
    capacities: Int64,
    effort: BisectionEffort,
    seed: list[int],
) -> tuple[int, Int64]:
    """Bisect two parts again; return the gain, and the vertices that change sides."""
    some = induced(graph, members)
    now = (part[members] == pair[1]).astype(np.int32)
    before = connectivity(some, now, 2)
    limits = capacities[list(pair)]
    wanted = int(some.sizes[now == 0].sum())
    side = bisect(some, wanted, limits, effort, np.random.default_rng(seed))
    block_weights = np.bincount(side, weights=some.sizes, minlength=2)
    gained = before - connectivity(some, side, 2)
    if gained <= 0 or np.any(block_weights > np.maximum(limits, 0)):
        return 0, members[:0]
    if (
        np.all(block_weights[::-1] <= limits)
        and 2 * int(some.sizes[side != now].sum()) > some.sizes.sum()
    ):
        side = 1 - side  # swapped sides move fewer vertices
    return gained, members[side != now]
