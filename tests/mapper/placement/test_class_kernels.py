"""Kernels of classes, exact exchanges and sparse annealing against references."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mapper.placement import classes
from mapper.placement.annealing import classes as class_annealing
from mapper.placement.annealing import dense as annealing
from mapper.placement.annealing import sparse as sparse_annealing
from mapper.placement.annealing.schedule import MeshTile, Proposals, Schedule
from mapper.placement.assignment import _assign, exchange_members
from mapper.placement.force import hop_cost
from mapper.placement.traffic import Background, Traffic
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import adjacency, random_graph, subgraph
from tests.mapper.placement.test_force_kernels import Placed
from tests.reference import placers as naive
from tests.reference.machine import random_plane


def layers(sizes: list[int], seed: int = 0) -> MemoryGraph:
    """Return dense layers, each fully connected to the next, with random ids."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(sum(sizes))
    ends = np.cumsum([0, *sizes])
    parts = [names[a:b] for a, b in itertools.pairwise(ends)]
    pairs = [np.array(list(itertools.product(*two))) for two in itertools.pairwise(parts)]
    source, target = np.concatenate(pairs).T
    weights = rng.integers(1, 9, source.size)
    return MemoryGraph.from_edges(names.size, source, target, weights, undirected=True)


@pytest.mark.parametrize("seed", range(60))
def test_sparse_annealing(seed: int) -> None:
    case = Placed(seed)
    box, members = case.box()
    left, right, top, bottom = box
    degree = np.array([len(case.lists[u]) for u in members], np.int64)
    if degree.sum() == 0:
        return
    x, y = case.lists_xy()
    mass, costs = case.background()
    axes = case.axes
    start = np.column_stack([case.x, case.y])
    at = np.full((bottom - top, right - left), 99, np.int32)
    indptr = np.empty(members.size + 1, np.int64)
    ids, weight = np.empty(degree.sum(), np.int32), np.empty(degree.sum())
    movers = np.flatnonzero(degree).astype(np.int32)
    some, state = case.proposals(60)
    tile = MeshTile(box, members, movers, np.array([state], np.uint64), axes)
    traffic = Traffic(*case.csr, mass)
    place, where = sparse_annealing._gather(traffic, start, tile, at, indptr, ids, weight)
    assert np.diff(indptr).tolist() == degree.tolist()
    assert place[: members.size].tolist() == start[members].tolist()
    assert where.tolist() == [[axes.x[c], axes.y[r]] for c, r in place]
    ends = [v for u in members for v, _ in case.lists[u]]
    assert place[ids].tolist() == start[ends].tolist()
    assert weight.tolist() == [w for u in members for _, w in case.lists[u]]

    local = sparse_annealing.Local(indptr, ids, weight, place, where, at)
    background = Background(mass[members], np.array(costs[0]), np.array(costs[1]))
    found = sparse_annealing._anneal_sparse(local, background, tile, some)
    expected = naive.anneal_sparse(
        case.lists, mass.tolist(), costs, x, y, members[movers].tolist(), box.tolist(),
        *some, state, case.plane,
    )  # fmt: skip
    assert found == expected
    assert place[: members.size].tolist() == [[x[u], y[u]] for u in members]
    assert where.tolist() == [[axes.x[c], axes.y[r]] for c, r in place]


def test_both_kinds_of_annealing_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = []
    for limit in (0, 1000):
        monkeypatch.setattr(annealing, "SPARSE", limit)
        case = Placed(5)
        traffic = Traffic(*case.csr, np.zeros(case.n))
        schedule = Schedule(work=2e5, rounds=4)
        before = hop_cost(case.groups, case.x, case.y, case.axes)
        annealing.anneal(traffic, case.x, case.y, case.axes, schedule, np.random.default_rng(0))
        costs.append(hop_cost(case.groups, case.x, case.y, case.axes))
        assert costs[-1] <= before


@pytest.mark.parametrize("seed", range(12))
def test_classes_are_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(classes, "MEMBERS", 1)
    graph = (
        layers([int(s) for s in rng.integers(1, 9, 5)], seed)
        if seed % 3
        else random_graph(rng, 30, mean_degree=3)
    )
    groups = subgraph(graph)
    found = classes.find_classes(groups)
    if found is None:
        assert groups.ids.size < groups.members.size
        return
    lists = adjacency(groups.indptr, groups.ids, groups.weights)
    members = [frozenset(each.tolist()) for each in found.members()]
    assert set(members) == naive.classes(lists)
    strength = groups.weights.sum() / groups.members.size
    for a, of_a in enumerate(members):
        weights = dict.fromkeys(range(found.count), 0.0)
        for u in of_a:
            for v, w in lists[u]:
                weights[int(found.label[v])] += w
        for e in range(found.indptr[a], found.indptr[a + 1]):
            d = int(found.ids[e])
            mean = weights.pop(d) / (len(of_a) * len(members[d])) / strength
            assert found.weights[e] == pytest.approx(mean)
        assert not any(weights.values())
    for colour in found.coloured():
        for a in colour:
            assert not set(found.ids[found.indptr[a] : found.indptr[a + 1]]) & set(colour)


def test_graphs_without_classes() -> None:
    assert classes.find_classes(subgraph(random_graph(np.random.default_rng(0), 99))) is None
    dense = random_graph(np.random.default_rng(0), 60, mean_degree=30)
    assert classes.find_classes(subgraph(dense)) is None


@pytest.mark.sample(32)
@pytest.mark.parametrize("seed", range(40))
def test_annealing_of_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(s) for s in rng.integers(6, 9, 3)]
    found = classes.find_classes(subgraph(layers(sizes, seed)))
    assert found is not None
    weights = np.rint(found.weights * 64)  # no rounding in integer tables
    owner = np.repeat(np.arange(found.count), np.diff(found.indptr))
    ends = zip(owner.tolist(), found.ids.tolist(), strict=True)
    weight = dict(zip(ends, weights.tolist(), strict=True))
    width, height = 6, 5
    cells = np.argwhere(np.ones((width, height)))[rng.permutation(30)[: sum(sizes)]]
    cells = cells.astype(np.int32)
    cells = cells[np.lexsort((cells[:, 0], cells[:, 1]))]
    width, height = (int(end) + 1 for end in cells.max(axis=0))
    at = rng.permutation(found.label)
    held = classes.Classes(found.label, found.count, found.indptr, found.ids, weights)
    pairs = [(int(c), int(r)) for c, r in cells]
    plane = random_plane(seed, width, height)
    table, cost = class_annealing.class_tables(held, cells, at, plane.axes)
    assert cost == naive.class_cost(weight, pairs, at.tolist(), plane)
    number = np.full((height, width), -1, np.int64)
    number[cells[:, 1], cells[:, 0]] = np.arange(at.size)
    window, temperature = int(rng.integers(1, 5)), float(rng.choice([0, 20, 500]))
    state = int(rng.integers(1, 1 << 62))
    twin = at.tolist()
    expected = naive.anneal_classes(weight, pairs, twin, window, temperature, 60, state, plane)
    made = class_annealing._anneal_classes(
        (held.indptr, held.ids, weights), cells, number, at, plane.axes, table,
        Proposals(window, 0, temperature, 60), np.array([state], np.uint64),
    )  # fmt: skip
    assert made == expected
    assert at.tolist() == twin
    anew, cost_after = class_annealing.class_tables(held, cells, at, plane.axes)
    assert np.array_equal(anew, table)
    assert cost_after == cost + made[1]


@pytest.mark.parametrize("seed", range(60))
def test_assignment_is_optimal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    cost = rng.integers(-9, int(rng.choice([-7, 20, 1 << 40])), (n, n))
    row_of, column_of = np.empty(n, np.int64), np.empty(n, np.int64)
    _assign(cost, row_of, column_of)
    assert sorted(column_of.tolist()) == list(range(n))
    assert row_of[column_of].tolist() == list(range(n))
    assert cost[np.arange(n), column_of].sum() == naive.assign(cost.tolist())


@pytest.mark.parametrize("seed", range(20))
def test_exchange_is_optimal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = subgraph(layers([3, 5, 3], seed))  # the outer layers are one class, of 720 orders
    n = groups.members.size
    axes = random_plane(seed, 4, 4).axes
    spot = np.argwhere(np.ones((4, 4)))[rng.permutation(16)[:n]].astype(np.int32)
    lists = adjacency(groups.indptr, groups.ids, groups.weights)
    members = np.array(sorted(max(naive.classes(lists), key=lambda each: (len(each), min(each)))))
    cells = spot[members]
    best = None
    for order in itertools.permutations(range(members.size)):
        spot[members] = cells[list(order)]
        cost = hop_cost(groups, spot[:, 0], spot[:, 1], axes)
        best = cost if best is None else min(best, cost)
    spot[members] = cells
    exchange_members(groups.indptr, groups.ids, groups.weights, members, spot, axes)
    assert hop_cost(groups, spot[:, 0], spot[:, 1], axes) == best
    assert sorted(map(tuple, spot[members].tolist())) == sorted(map(tuple, cells.tolist()))
