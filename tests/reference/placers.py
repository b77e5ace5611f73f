"""Reference implementation of the kernels of the placers: every cost sums over all connections."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mapper.placement import portfolio
from tests.reference.machine import FLAT, Line, Plane
from tests.reference.partitioning import Adjacency
from tests.reference.placement import axis_cost, hop_cost


def spend_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce annealing effort so that tests are short, even with the JIT off."""
    efforts = {
        name: replace(spend, work=3e5, least=1e5, repeats=4)
        for name, spend in portfolio.EFFORTS.items()
    }
    monkeypatch.setattr(portfolio, "EFFORTS", efforts)


class Xorshift:
    """Marsaglia's 64-bit generator with shifts 13, 7, 17."""

    def __init__(self, state: int) -> None:
        self.state = state

    def draw(self, below: int) -> int:
        s = self.state
        s ^= s << 13 & (1 << 64) - 1
        s ^= s >> 7
        s ^= s << 17 & (1 << 64) - 1
        self.state = s
        return (s >> 32) * below >> 32


def table_row(
    adjacency: Adjacency,
    x: Sequence[int],
    y: Sequence[int],
    u: int,
    box: Sequence[int],
    plane: Plane = FLAT,
) -> list[int]:
    """Return the cost of u in the columns and rows of a box, relative to the first of each."""
    left, right, top, bottom = box
    columns = [axis_cost(adjacency[u], x, c, plane.x) for c in range(left, right)]
    rows = [axis_cost(adjacency[u], y, r, plane.y) for r in range(top, bottom)]
    return [c - columns[0] for c in columns] + [r - rows[0] for r in rows]


def background_cost(
    mass: Sequence[float], position: Sequence[int], length: int, line: Line
) -> list[float]:
    """Return the cost of a unit of mass in each column."""
    return [
        sum(m * line.far(p, c) for m, p in zip(mass, position, strict=True)) for c in range(length)
    ]


def anneal(
    adjacency: Adjacency,
    mass: Sequence[float],
    costs: tuple[Sequence[float], Sequence[float]],
    start: tuple[Sequence[int], Sequence[int]],
    x: list[int],
    y: list[int],
    movers: Sequence[int],
    box: Sequence[int],
    window: int,
    near: int,
    temperature: float,
    moves: int,
    state: int,
    plane: Plane = FLAT,
) -> tuple[int, float]:
    """Swap two groups for every proposal, price the whole placement, and keep or undo the swap."""
    left, right, top, bottom = box
    random = Xorshift(state)
    made, total = 0, 0.0
    for _ in range(moves):
        u = movers[random.draw(len(movers))]
        centre, reach = (x[u], y[u]), window
        if random.draw(1024) < near:
            t = adjacency[u][random.draw(len(adjacency[u]))][0]
            reach = 1
            centre = (
                sorted((left, start[0][t], right - 1))[1],
                sorted((top, start[1][t], bottom - 1))[1],
            )
        columns = [c for c in range(left, right) if abs(c - centre[0]) <= reach]
        rows = [r for r in range(top, bottom) if abs(r - centre[1]) <= reach]
        cell = columns[random.draw(len(columns))], rows[random.draw(len(rows))]
        there = [v for v in range(len(x)) if (x[v], y[v]) == cell and v != u]
        if not there:
            continue
        v = there[0]
        before = hop_cost(adjacency, x, y, plane)
        distance = plane.far((x[u], y[u]), (x[v], y[v]))
        charge = (mass[u] - mass[v]) * (
            costs[0][x[v]] - costs[0][x[u]] + costs[1][y[v]] - costs[1][y[u]]
        )
        _swap(x, y, u, v)
        change = hop_cost(adjacency, x, y, plane) - before + charge
        tie = sum(w for t, w in adjacency[u] if t == v)
        apart = change - 2 * tie * distance  # as if each moved while the other stayed
        allowed = 0.0
        if temperature > 0:
            if apart > 16 * temperature:
                _swap(x, y, u, v)
                continue
            allowed = -temperature * math.log((1 + random.draw(1 << 30)) / (1 << 30))
        if change < allowed or (temperature > 0 and change <= 0):
            made += 1
            total += change
        else:
            _swap(x, y, u, v)
    return made, total


def outstanding(
    adjacency: Adjacency, mass: Sequence[float], scale: float, least: float
) -> tuple[list[float], list[list[tuple[int, int]]]]:
    """Return each group's weight in other connections, and outstanding ones minus background."""
    rest, kept = [], []
    for u, links in enumerate(adjacency):
        above = [(v, w) for v, w in links if w > scale * mass[u] * mass[v] and w > least]
        rest.append(float(sum(w for v, w in links if (v, w) not in above)))
        kept.append([(v, w - int(mass[u] * mass[v])) for v, w in above])
    return rest, kept


def pair(adjacency: Adjacency, size: Sequence[float], order: Sequence[int]) -> list[int]:
    """Pair each group, in order, with the free neighbour of largest weight per size."""
    coarse = [-1] * len(adjacency)
    count = 0
    for u in order:
        if coarse[u] >= 0:
            continue
        free = [(w / size[v], -i, v) for i, (v, w) in enumerate(adjacency[u]) if coarse[v] < 0]
        free = [option for option in free if option[2] != u]
        coarse[u] = count
        if free:
            coarse[max(free)[2]] = count
        count += 1
    return coarse


def split_ranks(
    cells: Sequence[tuple[int, int]],
    position: Sequence[tuple[float, float]],
    members: list[int],
    plane: Plane = FLAT,
) -> dict[int, tuple[int, int]]:
    """Return the cell of every member: sort, then cut between columns or rows, to single cells."""
    if len(cells) <= 1:
        return dict(zip(members, cells, strict=True))
    ends = [(min(c[k] for c in cells), max(c[k] for c in cells)) for k in (0, 1)]
    spans = [
        (line.walk(low, high) if line.steps else high - low, high - low)
        for line, (low, high) in zip((plane.x, plane.y), ends, strict=True)
    ]
    axis = 0 if spans[0] >= spans[1] else 1
    ordered = sorted(cells, key=lambda cell: (cell[axis], cell[1 - axis]))
    between = [i for i in range(1, len(cells)) if ordered[i][axis] != ordered[i - 1][axis]]
    half = min(between, key=lambda i: (abs(2 * i - len(cells)), i))
    ranked = sorted(members, key=lambda u: (position[u][axis], u))
    return split_ranks(ordered[:half], position, ranked[:half], plane) | split_ranks(
        ordered[half:], position, ranked[half:], plane
    )


def _swap(x: list[int], y: list[int], u: int, v: int) -> None:
    x[u], x[v] = x[v], x[u]
    y[u], y[v] = y[v], y[u]


def anneal_sparse(
    adjacency: Adjacency,
    mass: Sequence[float],
    costs: tuple[Sequence[float], Sequence[float]],
    x: list[int],
    y: list[int],
    movers: Sequence[int],
    box: Sequence[int],
    window: int,
    near: int,
    temperature: float,
    moves: int,
    state: int,
    plane: Plane = FLAT,
) -> tuple[int, float]:
    """Like `anneal`, but try cells near the neighbours' places, and draw only for losses."""
    left, right, top, bottom = box
    random = Xorshift(state)
    made, total = 0, 0.0
    for _ in range(moves):
        u = movers[random.draw(len(movers))]
        centre, reach = (x[u], y[u]), window
        if random.draw(1024) < near:
            t = adjacency[u][random.draw(len(adjacency[u]))][0]
            reach = 1
            centre = sorted((left, x[t], right - 1))[1], sorted((top, y[t], bottom - 1))[1]
        columns = [c for c in range(left, right) if abs(c - centre[0]) <= reach]
        column = columns[random.draw(len(columns))]
        rows = [r for r in range(top, bottom) if abs(r - centre[1]) <= reach]
        row = rows[random.draw(len(rows))]
        there = [v for v in range(len(x)) if (x[v], y[v]) == (column, row) and v != u]
        if not there:
            continue
        v = there[0]
        change = -hop_cost(adjacency, x, y, plane) + (mass[u] - mass[v]) * (
            costs[0][x[v]] - costs[0][x[u]] + costs[1][y[v]] - costs[1][y[u]]
        )
        _swap(x, y, u, v)
        change += hop_cost(adjacency, x, y, plane)
        if temperature > 0:
            kept = change <= 0 or (
                change <= 16 * temperature
                and change < -temperature * math.log((1 + random.draw(1 << 30)) / (1 << 30))
            )
        else:
            kept = change < 0
        if kept:
            made += 1
            total += change
        else:
            _swap(x, y, u, v)
    return made, total


def classes(adjacency: Adjacency) -> set[frozenset[int]]:
    """Return sets of groups with the same neighbours."""
    by_neighbours: dict[frozenset[int], set[int]] = {}
    for u, links in enumerate(adjacency):
        by_neighbours.setdefault(frozenset(v for v, _ in links), set()).add(u)
    return {frozenset(members) for members in by_neighbours.values()}


def class_cost(
    weight: dict[tuple[int, int], float],
    cells: Sequence[tuple[int, int]],
    at: Sequence[int],
    plane: Plane = FLAT,
) -> float:
    """Return the weight between the classes of two cells times their distance, over all pairs."""
    total = 0.0
    for i, cell in enumerate(cells):
        for j in range(i):
            total += weight.get((at[i], at[j]), 0.0) * plane.far(cell, cells[j])
    return total


def anneal_classes(
    weight: dict[tuple[int, int], float],
    cells: Sequence[tuple[int, int]],
    at: list[int],
    window: int,
    temperature: float,
    moves: int,
    state: int,
    plane: Plane = FLAT,
) -> tuple[int, float]:
    """Swap the classes of two cells for every proposal, price all, and keep or undo the swap."""
    width, height = (1 + max(cell[axis] for cell in cells) for axis in (0, 1))
    random = Xorshift(state)
    made, total = 0, 0.0
    for _ in range(moves):
        p = random.draw(len(cells))
        px, py = cells[p]
        columns = [c for c in range(width) if abs(c - px) <= window]
        column = columns[random.draw(len(columns))]
        rows = [r for r in range(height) if abs(r - py) <= window]
        cell = column, rows[random.draw(len(rows))]
        if cell not in cells or at[cells.index(cell)] == at[p]:
            continue
        q = cells.index(cell)
        a, b = at[p], at[q]
        before = class_cost(weight, cells, at, plane)
        at[p], at[q] = b, a
        change = class_cost(weight, cells, at, plane) - before
        apart = change - 2 * weight.get((a, b), 0.0) * plane.far((px, py), cell)
        allowed = 0.0
        if temperature > 0 and apart <= 16 * temperature:
            allowed = -temperature * math.log((1 + random.draw(1 << 30)) / (1 << 30))
        if change < allowed and not (temperature > 0 and apart > 16 * temperature):
            made += 1
            total += change
        else:
            at[p], at[q] = a, b
    return made, total


def assign(cost: Sequence[Sequence[int]]) -> int:
    """Return the minimum cost of an assignment of rows to distinct columns."""
    n = len(cost)
    return min(
        sum(cost[i][order[i]] for i in range(n)) for order in itertools.permutations(range(n))
    )


def piece(
    adjacency: Adjacency, members: Sequence[int], near: float, far: float, centre: Sequence[float]
) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """Return the lists among the members, and each member's cost to others on the far side."""
    number = {u: i for i, u in enumerate(members)}
    lists = [[(number[v], w) for v, w in adjacency[u] if v in number] for u in members]
    pulls = []
    for u in members:
        others = [(centre[v], w) for v, w in adjacency[u] if v not in number]
        pull = sum(w * (abs(far - c) - abs(near - c)) for c, w in others)
        pulls.append(round(pull / (far - near)) if far != near else 0)
    return lists, pulls
