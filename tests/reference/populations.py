"""Reference implementation of the traffic of populations: every packet is walked link by link.

Edges are (source, target, weight) triples, one per synapse; an undirected edge is given both ways.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from chipsim.chip.model import Chip
from tests.reference.link_traffic import Edge, flows, rates_of
from tests.reference.mesh_routes import Link, distance, route

Pair = tuple[int, int]


@dataclass
class Expected:
    """Sums by population, by pair of populations, and by link and pair."""

    sent: Counter[int] = field(default_factory=Counter)
    received: Counter[int] = field(default_factory=Counter)
    within: Counter[int] = field(default_factory=Counter)
    hops: Counter[int] = field(default_factory=Counter)
    traffic: Counter[Pair] = field(default_factory=Counter)
    pair_hops: Counter[Pair] = field(default_factory=Counter)
    links: defaultdict[Link, Counter[Pair]] = field(default_factory=lambda: defaultdict(Counter))


def packets(
    chip: Chip, core: Sequence[int], population: Sequence[int], edges: Sequence[Edge],
    undirected: bool, rates: Sequence[int] | None,
) -> list[tuple[int, int, int, int, int]]:  # fmt: skip
    """Return source core, target core, source population, target population and amount."""
    if chip.delivery == "synapse":
        return [
            (core[s], core[t], population[s], population[t], w)
            for s, t, w in flows(edges, undirected)
        ]
    rate = rates_of(edges, rates)
    weight: defaultdict[Pair, Counter[int]] = defaultdict(Counter)
    for s, t, w in edges:
        weight[s, core[t]][population[t]] += w
    found = []
    for (s, c), by_population in weight.items():
        most = max(by_population.values())
        q = min(q for q, w in by_population.items() if w == most)
        found.append((core[s], c, population[s], q, rate[s]))
    return found


def expected(
    chip: Chip, core: Sequence[int], population: Sequence[int], edges: Sequence[Edge],
    undirected: bool = False, rates: Sequence[int] | None = None,
) -> Expected:  # fmt: skip
    found = Expected()
    for a, b, p, q, amount in packets(chip, core, population, edges, undirected, rates):
        if amount == 0:
            continue
        hops = distance(chip, a, b) * amount
        if a == b:
            found.within[p] += amount
        else:
            found.sent[p] += amount
            found.received[q] += amount
        found.hops[p] += hops
        found.traffic[p, q] += amount
        found.pair_hops[p, q] += hops
        for link in route(chip, a, b):
            found.links[link][p, q] += amount
    return found
