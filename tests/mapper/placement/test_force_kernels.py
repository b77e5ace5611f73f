"""Kernels of force-directed refinement against references that sum over all connections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.concurrency.stop_flag import StopFlag
from mapper.placement import force
from mapper.placement.annealing.schedule import Proposals
from mapper.placement.clock import Clock
from mapper.placement.force import (
    CostTables,
    GroupLayout,
    _axis_costs,
    _cost_of_move,
    _fill_tables,
    _forces,
    _shift_costs,
    _swap_pulled,
    hop_cost,
    hops_of,
    refine_by_forces,
)
from tests.mapper.helpers import lists_of, random_graph, subgraph
from tests.reference import placement as naive
from tests.reference import placers
from tests.reference.machine import random_plane


class Placed:
    """Random groups on distinct random cores of a small random chip."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.shape = height, width = int(rng.integers(1, 6)), int(rng.integers(1, 7))
        self.n = n = int(rng.integers(1, height * width + 1))
        self.graph = random_graph(rng, n, largest=9, mean_degree=5)
        self.groups = subgraph(self.graph)
        self.csr = (self.groups.indptr, self.groups.ids, self.groups.weights)
        self.lists = lists_of(self.graph)
        cores = rng.permutation(height * width)[:n]
        self.y, self.x = (c.astype(np.int32) for c in np.divmod(cores, width))
        self.plane = random_plane(seed, width, height)
        self.axes = self.plane.axes

    def lists_xy(self) -> tuple[list[int], list[int]]:
        return self.x.tolist(), self.y.tolist()

    def box(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return a random box, first and end column and row, and the groups in it."""
        height, width = self.shape
        left, top = int(self.rng.integers(width)), int(self.rng.integers(height))
        right = int(self.rng.integers(left, width)) + 1
        bottom = int(self.rng.integers(top, height)) + 1
        across, down = (self.x >= left) & (self.x < right), (self.y >= top) & (self.y < bottom)
        return np.array([left, right, top, bottom]), np.flatnonzero(across & down).astype(np.int32)

    def background(self) -> tuple[NDArray[np.float64], tuple[list[float], list[float]]]:
        """Return random masses, and their cost in every column and row by the reference."""
        mass = self.rng.integers(0, 9, self.n) / 4
        (height, width), (x, y), plane = self.shape, self.lists_xy(), self.plane
        columns = placers.background_cost(mass.tolist(), x, width, plane.x)
        return mass, (columns, placers.background_cost(mass.tolist(), y, height, plane.y))

    def proposals(self, moves: int) -> tuple[Proposals, int]:
        """Return random parameters of annealing, and a state of the random numbers."""
        state = int(self.rng.integers(1, 1 << 62))
        window, near = int(self.rng.integers(1, 5)), int(self.rng.choice([0, 400, 1024]))
        return Proposals(window, near, float(self.rng.choice([0, 0.5, 4, 64])), moves), state


@pytest.mark.parametrize("seed", range(40))
def test_costs_and_forces(seed: int) -> None:
    case = Placed(seed)
    x, y = case.lists_xy()
    height, width = case.shape
    n, lists, plane = case.n, case.lists, case.plane
    assert hops_of(case.csr, case.x, case.y, case.axes) == 2 * naive.hop_cost(lists, x, y, plane)
    assert hop_cost(case.groups, case.x, case.y, case.axes) == naive.hop_cost(lists, x, y, plane)
    fx, fy = np.empty(n, np.int64), np.empty(n, np.int64)
    _forces(*case.csr, case.x, case.y, case.axes, fx, fy)
    assert fx.tolist() == [naive.force(lists, u, x, plane.x) for u in range(n)]
    assert fy.tolist() == [naive.force(lists, u, y, plane.y) for u in range(n)]

    columns, rows = np.zeros((n, width), np.int64), np.zeros((n, height), np.int64)
    layout = GroupLayout(case.x, case.y, np.empty((0, 0), np.int32), case.axes)
    _fill_tables(*case.csr, layout, columns, rows)
    assert (columns.tolist(), rows.tolist()) == naive.tables(lists, x, y, case.shape, plane)

    u = int(case.rng.integers(n))
    begin, end = case.groups.indptr[u], case.groups.indptr[u + 1]
    low, high = sorted(case.rng.integers(0, width, 2).tolist())
    cost = np.full(width, -7, np.int64)
    links, on_x = (case.groups.ids, case.groups.weights), (case.axes.x, case.axes.round_x)
    _axis_costs(begin, end, *links, case.x, on_x, cost, low, high)
    expected = [naive.axis_cost(lists[u], x, c, plane.x) for c in range(width)]
    assert cost.tolist() == [expected[c] if low <= c <= high else -7 for c in range(width)]
    to = int(case.rng.integers(width)), int(case.rng.integers(height))
    change = _cost_of_move(begin, end, *links, layout, u, to)
    assert change == naive.cost_of_move(lists, x, y, u, to, plane)

    _shift_costs(begin, end, *links, columns, on_x, x[u], to[0])
    x[u] = to[0]
    assert columns.tolist() == naive.tables(lists, x, y, case.shape, plane)[0]


@pytest.mark.parametrize("seed", range(60))
def test_swap_pulled(seed: int) -> None:
    case = Placed(seed)
    height, width = case.shape
    order = case.rng.permutation(case.n)
    reach = int(case.rng.choice([1, 2, 64]))
    strength = np.array([sum(w for _, w in links) for links in case.lists], np.int64)
    x, y = case.lists_xy()
    before = naive.hop_cost(case.lists, x, y, case.plane)
    expected = naive.swap_pulled(case.lists, x, y, case.shape, order.tolist(), reach, case.plane)
    assert naive.hop_cost(case.lists, x, y, case.plane) - before == expected[1]
    for tabled in (False, True):
        found_x, found_y = case.x.copy(), case.y.copy()
        at = np.full(case.shape, -1, np.int32)
        at[found_y, found_x] = np.arange(case.n)
        columns = np.zeros((case.n * tabled, width), np.int64)
        rows = np.zeros((case.n * tabled, height), np.int64)
        if tabled:
            _fill_tables(*case.csr, GroupLayout(found_x, found_y, at, case.axes), columns, rows)
        tie = np.zeros(case.n, np.int64)
        found = _swap_pulled(
            *case.csr,
            strength,
            GroupLayout(found_x, found_y, at, case.axes),
            CostTables(columns, rows),
            tie,
            order,
            reach,
        )
        assert found == expected
        assert (found_x.tolist(), found_y.tolist()) == (x, y)
        assert not tie.any()
        assert at[found_y, found_x].tolist() == list(range(case.n))
        assert np.count_nonzero(at >= 0) == case.n
        if tabled:
            expected_tables = naive.tables(case.lists, x, y, case.shape, case.plane)
            assert (columns.tolist(), rows.tolist()) == expected_tables


@pytest.mark.parametrize("seed", range(15))
def test_refinement_ends_when_no_swap_helps(seed: int) -> None:
    case = Placed(seed)
    start = hop_cost(case.groups, case.x, case.y, case.axes)
    ends = []
    for memory in (0, 1 << 20):
        x, y = case.x.copy(), case.y.copy()
        iterations = refine_by_forces(case.groups, x, y, case.axes, 0.2, 10_000, memory)
        assert iterations < 10_000
        ends.append((x.tolist(), y.tolist(), iterations))
    assert ends[0] == ends[1]
    x, y = ends[0][:2]
    assert sorted(zip(x, y, strict=True)) == sorted(zip(*case.lists_xy(), strict=True))
    cost = naive.hop_cost(case.lists, x, y, case.plane)
    assert cost <= start
    again = naive.swap_pulled(case.lists, x, y, case.shape, range(case.n), 64, case.plane)
    assert again == (0, 0)


def test_no_iterations_change_nothing() -> None:
    case = Placed(3)
    before = case.lists_xy()
    assert refine_by_forces(case.groups, case.x, case.y, case.axes, 0.05, 0, 0) == 0
    assert case.lists_xy() == before


def test_an_interrupt_keeps_the_current_result(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Placed(4)

    stop = StopFlag()
    genuine = force._swap_pulled

    def swap(*arguments: Any) -> Any:
        stop.ask()  # while the kernel runs
        return genuine(*arguments)

    monkeypatch.setattr(force, "_swap_pulled", swap)
    start = hop_cost(case.groups, case.x, case.y, case.axes)
    clock = Clock(stop=stop)
    assert refine_by_forces(case.groups, case.x, case.y, case.axes, 1, 9, 0, clock=clock) == 1
    reached = case.lists_xy()
    assert hop_cost(case.groups, case.x, case.y, case.axes) < start
    assert refine_by_forces(case.groups, case.x, case.y, case.axes, 1, 9, 0, clock=clock) == 0
    assert case.lists_xy() == reached
