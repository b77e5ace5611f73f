"""Reference implementation of the kernels of the streamed method: clusters, samples, k-way moves.

As in ``tests.reference.partitioning``, ``adjacency[v]`` lists (other, weight) for the connections
of v.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import islice

from tests.reference.partitioning import Adjacency, Connections, pulls

WORD = 2**64
SWAPS_TRIED = 16
BY_FIRST, BY_SECOND = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F


def finalised(x: int) -> int:
    """Return the finaliser of splitmix64."""
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 % WORD
    x ^= x >> 27
    x = x * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def mix(a: int, b: int, seed: int) -> int:
    return finalised(a * BY_FIRST % WORD ^ b * BY_SECOND % WORD ^ seed)


def positive_pulls(links: Connections, part: Sequence[int]) -> dict[int, int]:
    """Return the weight into each part, in order of the first weight above 0."""
    return pulls([(u, w) for u, w in links if w > 0], part)


# ---------------------------------------------------------------- rows


def narrow(links: Connections, shift: int, limit: int) -> list[tuple[int, int]]:
    most = limit // max(1, len(links))
    return [(u, min(max(w >> shift, 1), most) if w else 0) for u, w in links]


# ---------------------------------------------------------------- clusters


def propose(
    v: int,
    links: Connections,
    sizes: Sequence[int],
    cluster: Sequence[int],
    held: Sequence[int],
    limit: int,
    seed: int,
) -> tuple[int, int]:
    """Return target and favourite of one vertex."""
    own, pull = cluster[v], positive_pulls(links, cluster)
    here = pull.pop(own, 0)
    favourite = max(pull, key=lambda c: pull[c], default=-1)
    better = [c for c in pull if pull[c] > here and held[c] + sizes[v] <= limit]
    return max(better, key=lambda c: (pull[c], mix(v, c, seed)), default=own), favourite


def join(
    vertices: Sequence[int],
    sizes: Sequence[int],
    cluster: list[int],
    held: list[int],
    limit: int,
    target: Sequence[int],
    joined: set[int],
) -> int:
    """Move vertices to their targets; joined : clusters that a vertex has joined in this round"""
    moved = 0
    for v in vertices:
        own, to = cluster[v], target[v]
        gone, full = held[to] == 0, held[to] + sizes[v] > limit
        company = own in joined and held[own] > sizes[v]
        if to == own or gone or full or company:
            continue
        held[own] -= sizes[v]
        held[to] += sizes[v]
        cluster[v] = to
        joined.add(to)
        moved += 1
    return moved


def join_together(
    proposals: dict[int, int],
    sizes: Sequence[int],
    cluster: list[int],
    held: list[int],
    limit: int,
    salt: int,
) -> int:
    """Grant moves by label, each from the state before the step; proposals : vertex to label"""
    granted: dict[int, int] = {}
    for label in set(proposals.values()):
        left = limit - held[label] if held[label] else -1
        for v in sorted(v for v, to in proposals.items() if to == label):
            if sizes[v] <= left:
                left -= sizes[v]
                granted[v] = label
    gave, before = set(granted.values()), list(cluster)
    rank = {label: mix(label, 0, salt) for label in range(len(held))}
    moves = {
        v: to for v, to in granted.items() if before[v] not in gave or rank[before[v]] <= rank[to]
    }
    for v, to in moves.items():
        held[before[v]] -= sizes[v]
        held[to] += sizes[v]
        cluster[v] = to
    return len(moves)


def match_two_hop(
    sizes: Sequence[int],
    cluster: list[int],
    held: list[int],
    limit: int,
    favourite: Sequence[int],
) -> None:
    """Pair single vertices with the same favourite; vertices without one gather in groups."""
    waiting: dict[int, int] = {}
    for v, size in enumerate(sizes):
        own, at = cluster[v], favourite[v]
        if held[own] != size:
            continue
        other = waiting.get(at, own)
        if other == own or held[other] + size > limit:
            waiting[at] = own
            continue
        held[other] += size
        held[own] -= size
        cluster[v] = other
        if at >= 0:
            del waiting[at]


# ---------------------------------------------------------------- samples


def kept(u: int, v: int, weight: int, threshold: int, seed: int) -> bool:
    low, high = min(u, v), max(u, v)
    x = finalised(low * BY_FIRST % WORD ^ (high + seed) * BY_SECOND % WORD)
    return weight >= threshold or (x >> 32) * threshold < weight << 32


def sampled(
    adjacency: Adjacency, cluster: Sequence[int], threshold: int, seed: int
) -> list[list[tuple[int, int]]]:
    """Return for each vertex the clusters at the other end of sampled connections, with weights."""
    return [
        [
            (cluster[u], max(w, threshold))
            for u, w in links
            if cluster[u] != cluster[v] and kept(v, u, w, threshold, seed)
        ]
        for v, links in enumerate(adjacency)
    ]


def added_up(links: Connections) -> list[tuple[int, int]]:
    total: dict[int, int] = defaultdict(int)
    for u, w in links:
        total[u] += w
    return [(u, min(w, 2**31 - 1)) for u, w in total.items()]


def least_threshold(counts: Sequence[int], entries: int) -> int:
    """Return the least threshold, trying each one."""
    threshold = 1
    while sum(min(1.0, w / threshold) * c for w, c in enumerate(counts)) > entries:
        threshold += 1
    return threshold


# ---------------------------------------------------------------- k-way refinement


def best_moves(
    first: int,
    block: Adjacency,
    part: Sequence[int],
    load: Sequence[int],
    room: Sequence[int] | None = None,
) -> tuple[list[tuple[int, int, int, int]], int, int]:
    """Return the proposed moves, the weight to other parts, and all weight.

    A move is (vertex, target, gain, heaviest connection to the target).

    room : room of each part; outliers, with four times the weight to another part, look for some
    """
    moves, outside, everything = [], 0, 0
    for v, links in enumerate(block, first):
        pull = positive_pulls(links, part)
        here = pull.pop(part[v], 0)
        outside += sum(pull.values())
        everything += sum(pull.values()) + here
        best = max(pull, key=lambda k: (pull[k], -load[k]), default=-1)
        if best >= 0 and pull[best] > here:
            if room is not None and pull[best] >= 4 * here and load[best] >= room[best]:
                roomy = [k for k in pull if load[k] < room[k] and pull[k] > here]
                best = max(roomy, key=lambda k: pull[k], default=best)
            heaviest = max(w for u, w in links if part[u] == best)
            moves.append((v, best, pull[best] - here, heaviest))
    return moves, outside, everything


def move_in_order(
    moves: Sequence[tuple[int, int, int, int]],
    sizes: Sequence[int],
    part: list[int],
    load: list[int],
    room: Sequence[int],
    floor: Sequence[int],
) -> int:
    """Execute moves (vertex, target, gain, heaviest connection to it) in order.

    Moves into full parts wait, first come first served.

    At the end a vertex that has not moved, for lack of room or because of the floor, swaps places
    with the first vertex of the same size that waits for room in its part and comes from its target
    part. Only the first `SWAPS_TRIED` waiting vertices are tried, and both must gain even if their
    heaviest connections are to each other.
    """
    waiting: dict[int, deque[tuple[int, int, int, int]]] = defaultdict(deque)
    moved = 0

    def attempt(v: int, to: int, gain: int, heaviest: int) -> None:
        nonlocal moved
        own, size = part[v], sizes[v]
        if load[own] - size < floor[own]:
            return
        if load[to] + size > room[to]:
            waiting[to].append((v, to, gain, heaviest))
            return
        load[own] -= size
        load[to] += size
        part[v] = to
        moved += 1
        if waiting[own] and load[own] + sizes[waiting[own][0][0]] <= room[own]:
            attempt(*waiting[own].popleft())

    for move in moves:
        attempt(*move)
    for v, to, gain, heaviest in moves:
        own = part[v]
        if own == to or not waiting[to]:
            continue
        for u, _, other_gain, other_heaviest in islice(waiting[own], SWAPS_TRIED):
            better = gain + other_gain > 2 * min(heaviest, other_heaviest)
            if part[u] == to and sizes[u] == sizes[v] and better:
                part[u], part[v] = own, to
                moved += 2
                break
    return moved


# ---------------------------------------------------------------- splitting and groups


def inner(
    links: Connections, part: Sequence[int], rank: Sequence[int], own: int
) -> list[tuple[int, int]]:
    """Return the connections within a part, with other ends by their rank in it."""
    return [(rank[u], w) for u, w in links if part[u] == own]


def group_traffic(adjacency: Adjacency, part: Sequence[int], groups: int) -> list[list[int]]:
    """Return a dense matrix of traffic between groups, without traffic within a group."""
    dense = [[0] * groups for _ in range(groups)]
    for v, links in enumerate(adjacency):
        for u, w in links:
            if part[u] != part[v]:
                dense[part[v]][part[u]] += w
    return dense
