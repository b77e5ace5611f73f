"""Reference implementation of the kernels of step 8: costs by summing over all connections."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.machine import FLAT, Line, Plane
from tests.reference.partitioning import Adjacency, Connections


def hop_cost(adjacency: Adjacency, x: Sequence[int], y: Sequence[int], plane: Plane = FLAT) -> int:
    """Return weight times distance, each connection counted once."""
    both = sum(
        w * plane.far((x[u], y[u]), (x[v], y[v])) for u in range(len(x)) for v, w in adjacency[u]
    )
    assert both % 2 == 0
    return both // 2


def force(adjacency: Adjacency, u: int, position: Sequence[int], line: Line) -> int:
    """Return the pull on u along one axis."""
    return sum(w * line.towards(position[u], position[v]) for v, w in adjacency[u])


def axis_cost(links: Connections, position: Sequence[int], place: int, line: Line) -> int:
    """Return weight times distance on one axis of a group placed at `place`."""
    return sum(w * line.far(position[v], place) for v, w in links)


def tables(
    adjacency: Adjacency,
    x: Sequence[int],
    y: Sequence[int],
    shape: tuple[int, int],
    plane: Plane = FLAT,
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the cost of every group in every column, and in every row."""
    height, width = shape
    return (
        [[axis_cost(links, x, c, plane.x) for c in range(width)] for links in adjacency],
        [[axis_cost(links, y, r, plane.y) for r in range(height)] for links in adjacency],
    )


def cost_of_move(
    adjacency: Adjacency,
    x: Sequence[int],
    y: Sequence[int],
    v: int,
    to: tuple[int, int],
    plane: Plane = FLAT,
) -> int:
    """Return the change of the total cost when only v moves."""
    x_after, y_after = list(x), list(y)
    x_after[v], y_after[v] = to
    return hop_cost(adjacency, x_after, y_after, plane) - hop_cost(adjacency, x, y, plane)


def swap_pulled(
    adjacency: Adjacency,
    x: list[int],
    y: list[int],
    shape: tuple[int, int],
    order: Sequence[int],
    reach: int,
    plane: Plane = FLAT,
) -> tuple[int, int]:
    """Try for every group of `order` every swap in the quadrant of its force, at its full price.

    On a torus axis everything is tried.
    """
    height, width = shape
    swaps = total = 0
    for u in order:
        fx, fy = force(adjacency, u, x, plane.x), force(adjacency, u, y, plane.y)
        columns = range(width) if plane.x.torus else _towards(x[u], fx, reach, width)
        rows = range(height) if plane.y.torus else _towards(y[u], fy, reach, height)
        before = hop_cost(adjacency, x, y, plane)
        best, partner = 0, -1
        for row in rows:
            for column in columns:
                for v in range(len(x)):
                    if v == u or (x[v], y[v]) != (column, row):
                        continue
                    _swap(x, y, u, v)
                    change = hop_cost(adjacency, x, y, plane) - before
                    _swap(x, y, u, v)
                    if change < best:
                        best, partner = change, v
        if partner >= 0:
            _swap(x, y, u, partner)
            swaps += 1
            total += best
    return swaps, total


def _towards(place: int, pull: int, reach: int, end: int) -> range:
    if pull < 0:
        return range(max(0, place - reach), place + 1)
    if pull > 0:
        return range(place, min(end - 1, place + reach) + 1)
    return range(place, place + 1)


def _swap(x: list[int], y: list[int], u: int, v: int) -> None:
    x[u], x[v] = x[v], x[u]
    y[u], y[v] = y[v], y[u]
