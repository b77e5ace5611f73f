"""Reference implementation of link traffic for each kind of packet that a chip may send.

Every route is walked link by link, every tree is a set of links.

Edges are (source, target, weight) triples, one per synapse; an undirected edge is given both ways,
as in blocks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from chipsim.chip.model import Chip
from tests.reference.detours import faults_of
from tests.reference.mesh_routes import Link, Router, paths, place, route, size, walk, ways

Edge = tuple[int, int, int]


@dataclass
class Block:
    """A block of vertices ``first`` to ``last - 1`` of an edge list."""

    first: int
    last: int
    edges: Sequence[Edge]
    calls: int = 0

    def outgoing(self) -> tuple[Any, Any, Any]:
        self.calls += 1
        mine = sorted(edge for edge in self.edges if self.first <= edge[0] < self.last)
        degree = Counter(edge[0] for edge in mine)
        indptr = [0]
        for v in range(self.first, self.last):
            indptr.append(indptr[-1] + degree[v])
        return (
            np.array(indptr, dtype=np.int64),
            np.array([edge[1] for edge in mine], dtype=np.int32),
            np.array([edge[2] for edge in mine], dtype=np.int64),
        )


@dataclass
class Source:
    """Blocks that can be read by index."""

    blocks: Sequence[Any]

    @property
    def block_count(self) -> int:
        return len(self.blocks)

    def read_block(self, index: int) -> Any:
        return self.blocks[index]


def blocks_of(edges: Sequence[Edge], neurons: int, cuts: Sequence[int] = ()) -> list[Block]:
    """Return the network cut into blocks before each vertex of ``cuts``."""
    ends = [0, *sorted(cuts), neurons]
    return [Block(a, b, edges) for a, b in pairwise(ends)]


def flows(edges: Sequence[Edge], undirected: bool) -> list[Edge]:
    """Return the edges that count in the unicast sums."""
    return [edge for edge in edges if edge[2] > 0 and (not undirected or edge[1] > edge[0])]


def unicast_loads(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], undirected: bool = False
) -> Counter[Link]:
    loads: Counter[Link] = Counter()
    for s, t, w in flows(edges, undirected):
        for link in route(chip, core[s], core[t]):
            loads[link] += w
    return loads


def congestion(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], undirected: bool = False
) -> list[list[float]]:
    columns, rows = size(chip)
    load = [[0.0] * columns for _ in range(rows)]
    for s, t, w in flows(edges, undirected):
        if core[s] != core[t] and faults_of(chip):
            for (x, y), _, _ in walk(chip, core[s], core[t]):
                load[y][x] += w
        elif core[s] != core[t]:
            (x0, y0), (dx, dy) = place(chip, core[s]), ways(chip, core[s], core[t])
            for path, chance in paths((x0, y0), (x0 + dx, y0 + dy)):
                for x, y in path:
                    load[y % rows][x % columns] += w * chance
    return load


def rates_of(
    edges: Sequence[Edge], rates: Sequence[int] | None
) -> Mapping[int, int] | Sequence[int]:
    """Return the rate of each source: given, or the largest weight of its synapses."""
    if rates is not None:
        return rates
    largest: Counter[int] = Counter()
    for s, _, w in edges:
        largest[s] = max(largest[s], w)
    return largest


def multicast(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], rates: Sequence[int] | None
) -> tuple[int, Counter[Link]]:
    """Return the connectivity, and the loads of the trees."""
    reached: dict[int, set[int]] = defaultdict(set)
    for s, t, _ in edges:
        reached[s].add(core[t])
    rate_of = rates_of(edges, rates)
    connectivity = 0
    loads: Counter[Link] = Counter()
    for s, targets in reached.items():
        rate = rate_of[s]
        connectivity += rate * len(targets - {core[s]})
        tree = {link for c in targets for link in route(chip, core[s], c)}
        for link in tree:
            loads[link] += rate
    return connectivity, loads


def core_casts(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], rates: Sequence[int] | None
) -> tuple[Counter[Link], dict[str, list[int]]]:
    """Return loads with one packet per spike and other core, and the activity of every core."""
    reached: dict[int, list[int]] = defaultdict(list)
    for s, t, _ in edges:
        reached[s].append(core[t])
    rate_of = rates_of(edges, rates)
    loads: Counter[Link] = Counter()
    names = ("spikes", "sent", "received", "local", "events")
    active = {name: [0] * chip.cores for name in names}
    for s, targets in reached.items():
        rate = rate_of[s]
        others = set(targets) - {core[s]}
        active["spikes"][core[s]] += rate * bool(others)
        active["sent"][core[s]] += rate * len(others)
        active["local"][core[s]] += rate * (core[s] in targets)
        for c in others:
            active["received"][c] += rate
            for link in route(chip, core[s], c):
                loads[link] += rate
        for c in targets:
            active["events"][c] += rate
    return loads, active


def unicast_hops(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], rates: Sequence[int] | None
) -> int:
    """Return hops at the rates of the multicast trees, with one packet per synapse."""
    rate = rates_of(edges, rates)
    return sum(rate[s] * len(route(chip, core[s], core[t])) for s, t, _ in edges)


Packet = tuple[int, int, list[int]]
"""Rate, core of the source, and the other destination cores."""


def packets_of(
    chip: Chip, core: Sequence[int], edges: Sequence[Edge], rates: Sequence[int] | None,
    undirected: bool,
) -> dict[str, list[Packet]]:  # fmt: skip
    """Return the packets between cores, by kind of delivery."""
    reached: dict[int, set[int]] = defaultdict(set)
    for s, t, _ in edges:
        if core[t] != core[s]:
            reached[s].add(core[t])
    rate = rates_of(edges, rates)
    return {
        "synapse": [
            (w, core[s], [core[t]]) for s, t, w in flows(edges, undirected) if core[s] != core[t]
        ],
        "core": [(rate[s], core[s], [c]) for s, ends in reached.items() for c in ends],
        "tree": [(rate[s], core[s], sorted(ends)) for s, ends in reached.items()],
    }


def started_by(chip: Chip, packets: list[Packet]) -> Counter[Router]:
    """Return the packets by the router where they enter the mesh."""
    found: Counter[Router] = Counter()
    for rate, source, _ in packets:
        found[place(chip, source)] += rate
    return found
