"""Reference implementation of the hypergraph kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mapper.hypergraph.hypergraph import Hypergraph, make_hypergraph
from tests.reference.machine import FLAT, Plane

Nets = list[tuple[int, list[int]]]  # weight, pins; the first pin is the source


def as_graph(nets: Nets, sizes: Sequence[int]) -> Hypergraph:
    start = np.cumsum([0, *(len(pins) for _, pins in nets)])
    pins = np.array([pin for _, pins in nets for pin in pins], np.int32)
    weights = np.array([weight for weight, _ in nets], np.int64)
    return make_hypergraph(start, pins, weights, np.array(sizes, np.int64))


def as_nets(graph: Hypergraph) -> Nets:
    rows = [graph.pins[low:high].tolist() for low, high in pairwise(graph.start.tolist())]
    return list(zip(graph.weights.tolist(), rows, strict=True))


def random_nets(rng: np.random.Generator, n: int, m: int, widest: int = 6) -> Nets:
    """Return nets of two pins or more, without repeated pins."""
    return [
        (int(rng.integers(1, 9)), rng.permutation(n)[: int(rng.integers(2, widest + 1))].tolist())
        for _ in range(m)
    ]


def cost(nets: Nets, part: Sequence[int]) -> int:
    """Return the connectivity."""
    return sum(w * (len({part[v] for v in pins}) - 1) for w, pins in nets)


def contracted(nets: Nets, cluster: Sequence[int], directed: bool) -> Counter[tuple[int, ...]]:
    """Return weights by (source or -1, sorted pins)."""
    found: Counter[tuple[int, ...]] = Counter()
    for w, pins in nets:
        inside = [cluster[v] for v in pins if cluster[v] >= 0]
        if len(set(inside)) > 1:
            found[(inside[0] if directed else -1, *sorted(set(inside)))] += w
    return found


def gains(nets: Nets, part: Sequence[int], parts: int, v: int) -> list[int]:
    """Return the decrease of the connectivity if a vertex moves to each of the parts."""
    now = cost(nets, part)
    found = []
    for k in range(parts):
        there = list(part)
        there[v] = k
        found.append(now - cost(nets, there))
    return found


def tree(
    source: int, targets: set[int], width: int, plane: Plane = FLAT
) -> dict[tuple[tuple[int, ...], int], int]:
    """Return the links of the union of XY routes, x first, and the cost of each.

    A link is its start, by coordinates, and its direction: cores of a tile share a place.
    """
    links = {}
    lines = plane.x, plane.y
    for target in targets:
        at, end = [source % width, source // width], (target % width, target // width)
        for axis, line in enumerate(lines):
            way = line.towards(at[axis], end[axis])
            while way and at[axis] != end[axis]:
                before = at[axis]
                at[axis] += 1 if way > 0 else -1
                if line.steps:
                    at[axis] %= len(line.steps)
                here = [before if k == axis else at[k] for k in (0, 1)]
                place = tuple(
                    one.walk(0, k) if one.steps else k for one, k in zip(lines, here, strict=True)
                )
                if cost := line.step(before, way > 0):
                    links[place, 2 * axis + (way > 0)] = cost
            at[axis] = end[axis]
    return links


def tree_cost(
    nets: Nets,
    core: Sequence[int],
    width: int,
    per_core_penalty: int,
    branches: bool = True,
    plane: Plane = FLAT,
) -> int:
    """Return the links of all trees, or of one packet per core, plus a penalty per core."""
    total = 0
    for w, pins in nets:
        home = core[pins[0]]
        targets = {core[v] for v in pins[1:]} - {home}
        links = sum(tree(home, targets, width, plane).values())
        if not branches:
            alone = [tree(home, {target}, width, plane) for target in targets]
            links = sum(sum(one.values()) for one in alone)
        total += w * (links + per_core_penalty * len(targets))
    return total


def ratings(
    v: int, nets: Nets, cluster: Sequence[int], held: Sequence[int], large: int
) -> dict[int, float]:
    """Return the rating of each cluster for a vertex; each net counts once per cluster."""
    found: dict[int, float] = {}
    for w, pins in nets:
        if v in pins and len(pins) <= large and w > 0:
            for c in dict.fromkeys(cluster[u] for u in pins):
                found[c] = found.get(c, 0.0) + w / (len(pins) - 1)
    return {c: r / max(held[c], 1) for c, r in found.items()}


def clusters(
    order: Sequence[int],
    nets: Nets,
    sizes: Sequence[int],
    part: Sequence[int],
    limit: int,
    large: int,
    least: int,
) -> list[int]:
    cluster, held = list(range(len(sizes))), list(sizes)
    for v in order:
        if len(set(cluster)) <= least:
            break
        if cluster.count(cluster[v]) > 1:
            continue
        best, best_rating = v, 0.0
        for c, r in ratings(v, nets, cluster, held, large).items():
            if c == v or part[c] != part[v] or held[c] + held[v] > limit:
                continue
            if r > best_rating or (r == best_rating and held[c] < held[best]):
                best, best_rating = c, r
        if best != v:
            cluster[v] = best
            held[best] += held[v]
    return cluster


def views(nets: Nets, n: int) -> list[tuple[frozenset[int], tuple[frozenset[int], ...]]]:
    """Return the nets that reach each vertex, and the pins of its own nets."""
    return [
        (
            frozenset(e for e, (_, pins) in enumerate(nets) if v in pins[1:]),
            tuple(frozenset(pins[1:]) for _, pins in nets if pins[0] == v),
        )
        for v in range(n)
    ]


def block_nets(first: int, rows: list[list[tuple[int, int]]], rates: Sequence[int] | None) -> Nets:
    found = []
    for i, row in enumerate(rows):
        rate = rates[first + i] if rates is not None else max((w for _, w in row), default=0)
        if row and rate:
            found.append((rate, [first + i, *(u for u, _ in row)]))
    return found


def group_traffic(nets: Nets, part: Sequence[int]) -> Counter[tuple[int, int]]:
    """Return rates by (group, group), both ways."""
    found: Counter[tuple[int, int]] = Counter()
    for w, pins in nets:
        for k in {part[v] for v in pins[1:]} - {part[pins[0]]}:
            found[part[pins[0]], k] += w
            found[k, part[pins[0]]] += w
    return found


def shared(nets: Nets, part: Sequence[int]) -> Counter[tuple[int, int]]:
    """Return the weight of the nets shared by two parts, by ordered pair."""
    found: Counter[tuple[int, int]] = Counter()
    for w, pins in nets:
        reached = {part[v] for v in pins}
        found.update({(a, b): w for a in reached for b in reached if a != b})
    return found


def pulls(row: list[tuple[int, int]], part: Sequence[int], own: int) -> dict[int, int]:
    """Return a vertex's weight into each other part, in order of first occurrence."""
    found: dict[int, int] = {}
    for u, w in row:
        if w > 0 and part[u] != own:
            found[part[u]] = found.get(part[u], 0) + w
    return found


def tick_bounds(
    nets: Nets, core: Sequence[int], width: int, cores: int, delivery: str, costs: dict[str, float]
) -> dict[tuple[str, int], float]:
    """Return the cycles of every core and link, by kind (links: direction) and (source) core.

    costs : `neuron`, `packet_out`, `packet_in`, `event`, `link`, and the offsets `barrier`, `begin`
    """
    found = {("neurons", c): costs["barrier"] for c in range(cores)}
    for kind in ("out", "in", "east", "west", "south", "north"):
        found |= {(kind, c): costs["begin"] for c in range(cores)}
    for c in core:
        found["neurons", c] += costs["neuron"]
    for w, pins in nets:
        home, targets = core[pins[0]], [core[v] for v in pins[1:]]
        packets = targets if delivery == "synapse" else sorted(set(targets))
        sent = 1 if delivery == "tree" else len(packets)
        found["out", home] += w * sent * costs["packet_out"]
        for c in targets:
            found["in", c] += w * costs["event"]
        for c in packets:
            found["in", c] += w * costs["packet_in"]
            for (x, y), direction in tree(home, {c}, width):
                way = ("west", "east", "north", "south")[direction]
                found[way, y * width + x] += w * costs["link"]
    return found
