"""Graphs of many kinds for the contract of partitions, as lists of edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.reference.cut import Edge


class Sample(NamedTuple):
    """A graph: its edges as given, possibly with self-loops and repetitions, and vertex weights."""

    name: str
    sizes: list[int]
    edges: list[Edge]

    @property
    def vertices(self) -> int:
        return len(self.sizes)


def _random(name: str, n: int, m: int, *, most: int = 1, heavy: int = 1, seed: int = 0) -> Sample:
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, (m, 2)).tolist()
    edges = [(u, v, int(w)) for (u, v), w in zip(ends, rng.integers(1, most + 1, m), strict=True)]
    return Sample(name, rng.integers(1, heavy + 1, n).tolist(), edges)


def _grid(side: int) -> Sample:
    at = [(x, y) for y in range(side) for x in range(side)]
    edges = [(y * side + x, y * side + x + 1, 1) for x, y in at if x + 1 < side]
    edges += [(y * side + x, y * side + x + side, 1) for x, y in at if y + 1 < side]
    return Sample("grid", [1] * side * side, edges)


def _cliques() -> Sample:
    edges = [(8 * c + i, 8 * c + j, 1) for c in range(6) for i in range(8) for j in range(i)]
    return Sample("disconnected", [1] * 48, edges)


SAMPLES = (
    _grid(12),
    _random("random", 90, 300, most=9, seed=1),
    _random("heavy vertices", 80, 240, most=3, heavy=7, seed=2),
    _random("many edges repeated, self-loops", 12, 200, most=4, seed=3),
    _random("isolated vertices", 100, 40, seed=4),
    Sample("no edges", [1] * 20, []),
    Sample("star", [1] * 50, [(0, v, 1) for v in range(1, 50)]),
    Sample("path", [1] * 33, [(v, v + 1, 2) for v in range(32)]),
    Sample("pair", [1, 1], [(0, 1, 5)]),
    Sample("weightless vertices", [0] * 10 + [1] * 20, [(v, v + 1, 1) for v in range(29)]),
    _cliques(),
)
