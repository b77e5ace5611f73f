"""Reference implementation of `mapper.limits`: use of parts, and bounds, from the definitions."""

from __future__ import annotations

Edges = list[tuple[int, int]]


def use(
    edges: Edges,
    part: list[int],
    parts: int,
    sizes: list[int],
    copies: bool = False,
    bits: tuple[int, int] = (0, 0),
) -> list[list[int]]:
    """Return neurons, synapses, axons_in, axons_out and bits of memory of every part.

    With copies, axons_out counts the neurons themselves plus one copy per further part. Memory
    holds `bits` per unit of neuron size, and per synapse.
    """
    table = [[0] * parts for _ in range(5)]
    for v, k in enumerate(part):
        table[0][k] += sizes[v]
        table[4][k] += bits[0] * sizes[v]
    for _, target in edges:
        table[1][part[target]] += 1
        table[4][part[target]] += bits[1]
    for source, k in {(source, part[target]) for source, target in edges}:
        table[2][k] += 1
        if part[source] != k and not copies:
            table[3][part[source]] += 1
    if copies:
        for v, parts_of_it in enumerate(reach(edges, part)):
            table[3][part[v]] += max(1, parts_of_it)
    return table


def reach(edges: Edges, part: list[int]) -> list[int]:
    """Return the number of parts that each neuron has synapses in."""
    return [len({part[t] for s, t in edges if s == v}) for v in range(len(part))]


def excess(table: list[list[int]], limits: list[int], weight: list[int]) -> int:
    return sum(
        w * max(0, used - limit)
        for row, limit, w in zip(table, limits, weight, strict=True)
        for used in row
    )


def partitions(n: int, parts: int) -> list[list[int]]:
    """Return all partitions of n vertices into parts, up to renaming parts."""
    found: list[list[int]] = [[]]
    for _ in range(n):
        found = [[*part, k] for part in found for k in range(min(parts, max(part, default=-1) + 2))]
    return found


def least_axons(edges: Edges, n: int, parts: int, cap: int, synapses: int) -> tuple[int, int]:
    """Return the smallest sums of axons_in and axons_out over all partitions within two limits."""
    best_in = best_out = 1 << 60
    for part in partitions(n, parts):
        table = use(edges, part, parts, [1] * n)
        if max(table[0]) <= cap and max(table[1]) <= synapses:
            best_in, best_out = min(best_in, sum(table[2])), min(best_out, sum(table[3]))
    return best_in, best_out
