"""Reference implementation of the kernels that refine a mapping for hops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.reference.bisection import Xorshift
from tests.reference.machine import FLAT, Line, Plane

Links = list[tuple[int, int]]


def distance(a: int, b: int, width: int, plane: Plane = FLAT) -> int:
    """Return the distance of two cores; without a width all other cores are one hop away."""
    if not width:
        return int(a != b)
    return plane.far((a % width, a // width), (b % width, b // width))


def hops_of(links: Links, at: int, core: Sequence[int], width: int, plane: Plane = FLAT) -> int:
    """Return the hops of a vertex with these neighbours on core `at`."""
    return sum(w * distance(at, core[u], width, plane) for u, w in links)


def all_hops(
    adjacency: Sequence[Links], core: Sequence[int], width: int, plane: Plane = FLAT
) -> int:
    """Return the hops of all connections, each counted once."""
    return (
        sum(hops_of(links, core[v], core, width, plane) for v, links in enumerate(adjacency)) // 2
    )


def walk(weight: Sequence[int], at: int, line: Line) -> list[tuple[int, int]]:
    """Return positions up to the nearest best one, and the gain of each; lowest first.

    Later positions at the same place belong to it. On a torus it is the lowest of the best ones,
    and the way may wrap round: then it starts before the end.
    """

    def cost(p: int) -> int:
        return sum(w * line.far(p, q) for q, w in enumerate(weight))

    length = len(weight)
    if line.torus:
        best = min(range(length), key=lambda p: (cost(p), p != at, p))
        up, down = (best - at) % length, (at - best) % length
        first, count = (at, up + 1) if up <= down else (best, down + 1)
        way = [(first + i) % length for i in range(count)]
    else:
        best = min(range(length), key=lambda p: (cost(p), abs(p - at)))
        step = 1 if best > at else -1
        while best != at and 0 <= best + step < length and not line.far(best, best + step):
            best += step
        way = list(range(min(at, best), max(at, best) + 1))
    return [(p, cost(at) - cost(p)) for p in way]


def best_hops(
    first: int,
    adjacency: Sequence[Links],
    core: Sequence[int],
    sizes: Sequence[int],
    width: int,
    height: int,
    load: Sequence[int],
    room: Sequence[int],
    much_better: int,
    plane: Plane,
) -> tuple[list[tuple[int, ...]], int, int]:
    moves, paid, everything = [], 0, 0
    for i, links in enumerate(adjacency):
        v, own = first + i, core[first + i]
        now = hops_of(links, own, core, width, plane)
        paid += now
        everything += sum(w for _, w in links)
        in_column, in_row = [0] * width, [0] * height
        for u, w in links:
            in_column[core[u] % width] += w
            in_row[core[u] // width] += w
        columns = walk(in_column, own % width, plane.x)
        rows = walk(in_row, own // width, plane.y)
        cores = [y * width + x for y, _ in rows for x, _ in columns]
        gains = {
            c: now - hops_of(links, c, core, width, plane) for c in cores if room[c] and c != own
        }
        better = {c: g for c, g in gains.items() if g > 0}
        if not better:
            continue
        best = max(better, key=lambda c: better[c])
        free = {c: g for c, g in better.items() if load[c] + sizes[v] <= room[c]}
        if free and much_better * max(free.values()) >= better[best]:
            best = max(free, key=lambda c: free[c])
        between = max([w for u, w in links if core[u] == best], default=0)
        moves.append((v, best, better[best], between * distance(own, best, width, plane)))
    return moves, paid, everything


def pair_graph(
    a: int,
    b: int,
    adjacency: Sequence[Links],
    core: Sequence[int],
    width: int,
    fixed: Sequence[bool],
    plane: Plane,
) -> tuple[list[Links], list[int]]:
    """Return links inside two cores, vertices of a first; and each vertex's extra cost on b."""
    members = [v for c in (a, b) for v in range(len(core)) if core[v] == c and not fixed[v]]
    apart = distance(a, b, width, plane)
    inner = [
        [(members.index(u), w * apart) for u, w in adjacency[v] if u in members] for v in members
    ]
    outer = [[(u, w) for u, w in adjacency[v] if u not in members] for v in members]
    bias = [hops_of(o, b, core, width, plane) - hops_of(o, a, core, width, plane) for o in outer]
    return inner, bias


def annealed(
    adjacency: Sequence[Links],
    sizes: Sequence[int],
    core: Sequence[int],
    width: int,
    height: int,
    room: Sequence[int],
    members: list[list[int]],
    places: int,
    proposals: int,
    heat: float,
    near: int,
    random: Xorshift,
    plane: Plane,
    least: Sequence[int],
) -> tuple[list[int], int, int]:
    """Return the cores after some proposals, the number of accepted moves, and the hops added.

    least : size that moves must leave on each core
    width : 0 if cores have no places; then only cores of neighbours are tried
    members : movable vertices of each core, in drawing order
    places : number of cores
    """
    core, members = list(core), [list(some) for some in members]
    made = 0

    def total() -> int:
        return all_hops(adjacency, core, width, plane)

    start = total()

    def accepted(change: int) -> bool:
        if change <= 0:
            return True
        return heat > 0 and math.exp(-change / heat) * 2.0**31 > random.next()

    for _ in range(proposals):
        v = random.next() % len(core)
        a = core[v]
        if not adjacency[v] or v not in members[a]:
            continue
        if not width or random.next() % 1024 < near:
            b = core[adjacency[v][random.next() % len(adjacency[v])][0]]
        else:
            turn = random.next() % 8
            turn += turn >= 4
            x, y = a % width + turn % 3 - 1, a // width + turn // 3 - 1
            x, y = x % width if plane.x.torus else x, y % height if plane.y.torus else y
            if not (0 <= x < width and 0 <= y < height):
                continue
            b = y * width + x
        if a == b or not room[b]:
            continue
        held = [sum(sizes[u] for u in some) for some in members]
        before = total()
        if held[b] + sizes[v] <= room[b] and len(members[b]) < places:
            core[v] = b
            if held[a] - sizes[v] < least[a] or not accepted(total() - before):
                core[v] = a
                continue
            last = members[a].pop()
            if last != v:
                members[a][members[a].index(v)] = last
            members[b].append(v)
        else:
            if not members[b]:
                continue
            u = members[b][random.next() % len(members[b])]
            more = sizes[v] - sizes[u]
            if held[b] + more > room[b] or held[a] - more > room[a]:
                continue
            if held[b] + more < least[b] or held[a] - more < least[a]:
                continue
            core[v], core[u] = b, a
            if not accepted(total() - before):
                core[v], core[u] = a, b
                continue
            members[a][members[a].index(v)], members[b][members[b].index(u)] = u, v
        made += 1
    return core, made, total() - start


def pulls(first: int, adjacency: Sequence[Links], part: Sequence[int]) -> list[dict[int, int]]:
    """Return the weight of each vertex to every other part that it is connected to."""
    found = []
    for i, links in enumerate(adjacency):
        pull: dict[int, int] = {}
        for u, w in links:
            if part[u] != part[first + i] and w:
                pull[part[u]] = pull.get(part[u], 0) + w
        found.append(pull)
    return found


def region_graph(
    members: list[int],
    adjacency: Sequence[Links],
    places: Sequence[tuple[int, int]],
    first: tuple[int, int],
    second: tuple[int, int],
    rounds: tuple[int, int],
) -> tuple[list[Links], list[int]]:
    """Return the links inside a region, and each vertex's extra cost in its second half."""

    def apart(a: tuple[int, int], b: tuple[int, int]) -> int:
        straight = abs(a[0] - b[0]), abs(a[1] - b[1])
        return sum(min(d, around - d) for d, around in zip(straight, rounds, strict=True))

    inner, bias = [], []
    for v in members:
        inside = [(members.index(u), w) for u, w in adjacency[v] if u in members]
        inner.append([(i, w * apart(first, second)) for i, w in inside])
        outside = [(places[u], w) for u, w in adjacency[v] if u not in members]
        bias.append(sum(w * (apart(p, second) - apart(p, first)) for p, w in outside))
    return inner, bias
