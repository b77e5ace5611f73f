"""Reference implementation of refinement by expected reach."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.hypergraph import Nets


def cost_of(
    v: int, k: int, nets: Nets, part: Sequence[int], place: Sequence[int],
    weights: Sequence[Sequence[int]], kept: Sequence[Sequence[int]],
) -> int:  # fmt: skip
    """Return the cost of a vertex in a part, given the parts of all others.

    weights : weights of each net, for parts and for places
    kept : fixed-point (1 - q)^c, for both
    """
    cost = 0
    for e, (_, pins) in enumerate(nets):
        if v in pins:
            others = [u for u in pins if u != v]
            in_part = sum(part[u] == k for u in others)
            in_place = sum(place[part[u]] == place[k] for u in others)
            cost += (weights[0][e] * kept[0][in_part]) >> 16
            cost += (weights[1][e] * kept[1][in_place]) >> 16
    return cost


def refined(
    order: Sequence[int], nets: Nets, sizes: Sequence[int], part: list[int],
    capacities: Sequence[int], place: Sequence[int], weights: Sequence[Sequence[int]],
    kept: Sequence[Sequence[int]],
) -> int:  # fmt: skip
    """Run one pass that changes `part`; return the number of moved vertices."""
    moved = 0
    waiting: dict[tuple[int, int], int] = {}

    def load(k: int) -> int:
        return sum(size for size, own in zip(sizes, part, strict=True) if own == k)

    for v in order:
        own = part[v]
        costs = [cost_of(v, k, nets, part, place, weights, kept) for k in range(len(capacities))]
        others = [k for k in range(len(capacities)) if k != own and costs[k] < costs[own]]
        room = [k for k in others if load(k) + sizes[v] <= capacities[k]]
        best = min(room, key=lambda k: costs[k], default=own)
        # Full parts that are better than all earlier parts with room.
        full = own
        least, lower = costs[own], costs[own]
        for k in range(len(capacities)):
            if k == own or costs[k] >= least:
                continue
            if k in room:
                least = costs[k]
            elif costs[k] < lower:
                full, lower = k, costs[k]
        if full != own and lower < least:
            u = waiting.get((full, own), -1)
            if u >= 0 and part[u] == full:
                more = sizes[v] - sizes[u]
                if load(full) + more <= capacities[full] and load(own) - more <= capacities[own]:
                    waiting[full, own] = -1
                    part[v], part[u] = full, own
                    moved += 2
                    continue
            if best == own:
                waiting[own, full] = v
        if best != own:
            part[v] = best
            moved += 1
    return moved
