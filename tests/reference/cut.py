"""Reference for partitions: graphs as lists of edges, cut and weights by plain loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

Edge = tuple[int, int, int]


def cut(edges: Iterable[Edge], part: Sequence[int]) -> int:
    """Return the weight of the edges between parts; each edge is given once."""
    total = 0
    for u, v, weight in edges:
        if part[u] != part[v]:
            total += weight
    return total


def part_weights(sizes: Sequence[int], part: Sequence[int], parts: int) -> list[int]:
    """Return the weight of each part."""
    found = [0] * parts
    for size, one in zip(sizes, part, strict=True):
        found[one] += size
    return found


def capacity(sizes: Sequence[int], parts: int, imbalance: str) -> int:
    """Return the largest weight of a part; imbalance : decimal text."""
    mean = sum(sizes) // parts + (sum(sizes) % parts > 0)
    return int((1 + Fraction(imbalance)) * mean)


def metis_lines(vertices: int, edges: Iterable[Edge], sizes: Sequence[int]) -> str:
    """Return the METIS file of a graph with weights of vertices and edges; no self-loops."""
    merged: dict[tuple[int, int], int] = {}
    for u, v, weight in edges:
        pair = min(u, v), max(u, v)
        merged[pair] = merged.get(pair, 0) + weight
    lists: list[list[int]] = [[size] for size in sizes]
    for (u, v), weight in merged.items():
        lists[u] += [v + 1, weight]
        lists[v] += [u + 1, weight]
    body = [" ".join(map(str, one)) for one in lists]
    return "\n".join([f"{vertices} {len(merged)} 011", *body]) + "\n"
