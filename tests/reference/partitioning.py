"""Reference implementation of the kernels of `mapper`, on lists of (other, weight).

``adjacency[v]`` lists the connections of vertex v, each pair of vertices at both of its ends. A
block is a slice of it, together with the id of its first vertex.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

Connections = Sequence[tuple[int, int]]
Adjacency = Sequence[Connections]


# ---------------------------------------------------------------- matching and contraction


def match_block(
    first: int,
    block: Adjacency,
    order: Sequence[int],
    sizes: Sequence[int],
    limit: int,
    mate: list[int],
) -> int:
    """Pair every vertex with the heaviest free neighbour; the list is read from a given turn."""
    inside = 0
    for step, local in enumerate(order):
        v, links = first + local, list(block[local])
        if mate[v] >= 0 or not links:
            continue
        turn = order[len(order) - 1 - step] % len(links)
        free = [
            (u, w)
            for u, w in links[turn:] + links[:turn]
            if mate[u] < 0 and sizes[u] + sizes[v] <= limit
        ]
        if free:
            u, w = max(free, key=lambda link: link[1])
            mate[v], mate[u] = u, v
            inside += w
    return inside


def number_pairs(mate: Sequence[int]) -> list[int]:
    """Return the rank of the lower end of each vertex's pair."""
    lower = [v if m < 0 else min(v, m) for v, m in enumerate(mate)]
    ranks = {low: rank for rank, low in enumerate(sorted(set(lower)))}
    return [ranks[low] for low in lower]


def relabel(first: int, block: Adjacency, cluster: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (cluster, other cluster, weight) of the connections that leave a cluster."""
    return [
        (cluster[first + v], cluster[u], w)
        for v, links in enumerate(block)
        for u, w in links
        if cluster[first + v] != cluster[u]
    ]


def merged(triples: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], int]:
    total: dict[tuple[int, int], int] = defaultdict(int)
    for a, b, w in triples:
        total[a, b] += w
    return dict(total)


# ---------------------------------------------------------------- growing


def grow(
    adjacency: Adjacency,
    sizes: Sequence[int],
    start: int,
    target: int,
    low: int,
    high: int,
) -> tuple[list[int], int]:
    """Return selected vertices (0/1 each) and the cut; every cost is recomputed for every choice.

    Vertices that are not connected to a selected one come after all others.
    """
    selected = [0] * len(adjacency)

    def cost(v: int) -> tuple[bool, int]:
        waits = not any(selected[u] for u, _ in adjacency[v])
        return waits, sum(-w if selected[u] else w for u, w in adjacency[v])

    waiting = set(range(len(adjacency)))
    held = 0
    v = start
    while held < target and waiting:
        waiting.remove(v)
        after = held + sizes[v]
        if after <= high:
            if after - target > target - held and held >= low:
                break
            held = after
            selected[v] = 1
        if waiting:
            v = min(waiting, key=cost)
    return selected, cut(adjacency, selected)


def extract(
    adjacency: Adjacency, side: Sequence[int], wanted: int
) -> tuple[list[int], list[list[tuple[int, int]]]]:
    """Return the members of a side, and their connections to each other by index in that list."""
    members = [v for v, s in enumerate(side) if s == wanted]
    return members, [
        [(members.index(u), w) for u, w in adjacency[v] if side[u] == wanted] for v in members
    ]


# ---------------------------------------------------------------- refinement and balance


def cut(adjacency: Adjacency, part: Sequence[int]) -> int:
    """Return the weight between different parts, each pair counted once."""
    return cut_of_block(0, adjacency, part) // 2


def cut_of_block(first: int, block: Adjacency, part: Sequence[int]) -> int:
    return sum(w for _, _, w in relabel(first, block, part))


def pulls(links: Connections, part: Sequence[int]) -> dict[int, int]:
    """Return the weight into each connected part, in order of first occurrence."""
    pull: dict[int, int] = {}
    for u, w in links:
        pull[part[u]] = pull.get(part[u], 0) + w
    return pull


def refine_block(
    first: int,
    block: Adjacency,
    order: Sequence[int],
    sizes: Sequence[int],
    capacity: int,
    part: list[int],
    load: list[int],
) -> tuple[int, int]:
    """Refine as in step 4: parts by increasing cost W_i - W_k while negative, first with room."""
    moves = gained = 0
    for local in order:
        v = first + local
        own, pull = part[v], pulls(block[local], part)
        costs = {k: pull.get(own, 0) - w for k, w in pull.items() if k != own}
        for k in sorted(costs, key=lambda k: costs[k]):
            if costs[k] >= 0:
                break
            if load[k] + sizes[v] <= capacity:
                load[own] -= sizes[v]
                load[k] += sizes[v]
                part[v] = k
                moves += 1
                gained -= costs[k]
                break
    return moves, gained


def best_part(
    links: Connections,
    size: int,
    own: int,
    capacity: int,
    part: Sequence[int],
    load: Sequence[int],
) -> tuple[int, int]:
    """Return the connected part with room and the strongest pull, or -1; and the pull lost."""
    pull = pulls(links, part)
    roomy = [k for k in pull if k != own and load[k] + size <= capacity]
    best = max(roomy, key=lambda k: pull[k], default=-1)
    return best, pull.get(own, 0) - (pull[best] if best >= 0 else 0)


def losses(
    first: int,
    block: Adjacency,
    sizes: Sequence[int],
    capacity: int,
    part: Sequence[int],
    load: Sequence[int],
) -> dict[int, int]:
    """Return the loss of every vertex of an overfull part."""
    return {
        v: best_part(links, sizes[v], part[v], capacity, part, load)[1]
        for v, links in enumerate(block, first)
        if load[part[v]] > capacity
    }


def leave(
    first: int,
    block: Adjacency,
    sizes: Sequence[int],
    capacity: int,
    chosen: Sequence[int],
    part: list[int],
    load: list[int],
) -> int:
    """Move chosen vertices to their best part, or the emptiest one, until their part fits."""
    moved = 0
    for v, links in enumerate(block, first):
        own = part[v]
        if not chosen[v] or load[own] <= capacity:
            continue
        k, _ = best_part(links, sizes[v], own, capacity, part, load)
        if k < 0:
            k = load.index(min(load))
        if load[k] + sizes[v] <= capacity:
            load[own] -= sizes[v]
            load[k] += sizes[v]
            part[v] = k
            moved += 1
    return moved


# ---------------------------------------------------------------- verification


def split(
    numbers: Sequence[int], first: int, vertices: int, default_size: int, default_weight: int
) -> list[tuple[int, int, int, int, int]] | None:
    """Return the rows of a block by docs/format.md; None if its numbers break the format."""
    left = list(numbers)
    rows = []
    try:
        for v in range(first, first + vertices):
            previous: int | None = None
            for _ in range(left.pop(0)):
                flag, other = left.pop(0), left.pop(0)
                if flag > 15 or (flag & 2 and previous is None):
                    return None
                other += previous if flag & 2 and previous is not None else 0
                previous = other
                size = default_size if flag & 4 else left.pop(0)
                weight = default_weight if flag & 8 else left.pop(0)
                rows.append((v, other, flag & 1, size, weight))
    except IndexError:
        return None
    return None if left else rows
