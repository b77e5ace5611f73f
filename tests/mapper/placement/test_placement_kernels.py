"""Kernels of the placers against references, and invariants of the functions around them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.machine import flat_axes
from mapper.concurrency.stop_flag import StopFlag
from mapper.placement import (
    component_packing,
    curves,
    legalise,
    portfolio,
    quadratic,
    spectral,
    traffic,
)
from mapper.placement.annealing import dense as annealing
from mapper.placement.annealing.dense import anneal
from mapper.placement.annealing.schedule import MeshTile, Schedule
from mapper.placement.clock import Clock
from mapper.placement.force import hop_cost
from mapper.placement.portfolio import place
from mapper.placement.region import choose_region
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import Links, adjacency, random_graph, subgraph
from tests.mapper.placement.test_force_kernels import Placed
from tests.reference import placers as naive
from tests.reference.machine import random_plane
from tests.reference.placers import spend_little


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    spend_little(monkeypatch)


def whole(case: Placed) -> traffic.Traffic:
    return traffic.Traffic(*case.csr, np.zeros(case.n))


def grid(width: int, height: int, seed: int = 0) -> MemoryGraph:
    """Return a grid of groups with random ids."""
    ids = np.random.default_rng(seed).permutation(width * height).reshape(height, width)
    source = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    target = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    return MemoryGraph.from_edges(width * height, source, target, undirected=True)


def noisy_ring(n: int, seed: int) -> MemoryGraph:
    """Return a ring of heavy connections within a complete graph of light ones."""
    rng = np.random.default_rng(seed)
    source, target = np.triu_indices(n, 1)
    weights = rng.integers(1, 6, source.size)
    weights[(target - source == 1) | (target - source == n - 1)] += 500
    names = rng.permutation(n)
    return MemoryGraph.from_edges(n, names[source], names[target], weights, undirected=True)


@pytest.mark.parametrize("seed", range(60))
def test_annealing_of_a_box(seed: int) -> None:
    case = Placed(seed)
    box, members = case.box()
    left, right, top, bottom = box
    movers = np.array([u for u in members if case.lists[u]], np.int32)
    if movers.size == 0:
        return
    x, y = case.lists_xy()
    mass, costs = case.background()
    plane, axes = case.plane, case.axes
    start = np.column_stack([case.x, case.y])
    of_background = traffic.background_of(mass, start, axes)
    assert (of_background.columns.tolist(), of_background.rows.tolist()) == costs
    spot = start.copy()
    at = np.full(case.shape, -1, np.int32)
    at[case.y, case.x] = np.arange(case.n)
    table = np.full((case.n, sum(case.shape)), -77, np.float32)
    some, state = case.proposals(60)
    links = traffic.Traffic(*case.csr, mass)
    tile = MeshTile(box, members, movers, np.array([state], np.uint64), axes)
    annealing._tabulate(links, start, tile, table, np.empty(max(case.shape)))
    used = right - left + bottom - top
    for u in range(case.n):
        row = (
            naive.table_row(case.lists, x, y, u, box.tolist(), plane)
            if u in members
            else [-77] * used
        )
        assert table[u, :used].tolist() == row

    background = traffic.Background(mass, np.array(costs[0]), np.array(costs[1]))
    found = annealing._anneal(links, background, start, spot, at, table, tile, some)
    expected = naive.anneal(
        case.lists, mass.tolist(), costs, case.lists_xy(), x, y, movers.tolist(), box.tolist(),
        *some, state, plane,
    )  # fmt: skip
    assert found == expected
    assert (spot[:, 0].tolist(), spot[:, 1].tolist()) == (x, y)
    assert at[spot[:, 1], spot[:, 0]].tolist() == list(range(case.n))
    for u in members:
        row = naive.table_row(case.lists, x, y, u, box.tolist(), plane)
        for first, last in ((0, right - left), (right - left, used)):
            changes = np.diff(table[u, first:last])
            assert changes.tolist() == np.diff(row[first:last]).tolist()


@pytest.mark.parametrize("seed", range(10))
def test_annealing_never_ends_worse(seed: int) -> None:
    case = Placed(seed)
    before = hop_cost(case.groups, case.x, case.y, case.axes)
    cells = sorted(zip(*case.lists_xy(), strict=True))
    schedule = Schedule(work=1e5, rounds=5, start=float(case.rng.choice([0, 0.2, 5])))
    anneal(whole(case), case.x, case.y, case.axes, schedule, case.rng)
    assert hop_cost(case.groups, case.x, case.y, case.axes) <= before
    assert sorted(zip(*case.lists_xy(), strict=True)) == cells


@pytest.mark.parametrize("shape", [(40, 70), (1, 300), (200, 3), (64, 20)])
def test_tiles_cover_the_mesh_once(shape: tuple[int, int]) -> None:
    at = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    for memory in (1 << 30, 1 << 14):
        sides = annealing._sides(shape, at.size, memory)
        busy = np.ones(at.size, np.bool_)
        axes = flat_axes(shape[1], shape[0])
        tiles = annealing._tiles(at, busy, sides, axes, np.random.default_rng(1))
        members = np.concatenate([tile.members for tile in tiles])
        assert sorted(members.tolist()) == list(range(at.size))
        assert all(tile.box[1] - tile.box[0] <= sides[0] for tile in tiles)
        assert all(tile.box[3] - tile.box[2] <= sides[1] for tile in tiles)
        assert sum(sides) <= 2 * annealing.SIDE


@pytest.mark.parametrize("seed", range(30))
def test_outstanding_connections(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    graph = subgraph(random_graph(rng, n, largest=40, mean_degree=6))
    csr = (graph.indptr, graph.ids, graph.weights)
    mass, scale = rng.integers(0, 8, n) / 2, float(rng.choice([0.5, 2, np.inf]))
    mass[mass == 0] = 0.25  # avoids zero times infinity
    least = float(rng.choice([0, 3]))
    rest, kept = naive.outstanding(adjacency(*csr), mass.tolist(), scale, least)
    found, count = np.empty(n), np.empty(n, np.int64)
    traffic._rest(*csr, mass, scale, least, found, count)
    assert found.tolist() == rest
    assert count.tolist() == [len(links) for links in kept]
    indptr = np.append(0, np.cumsum(count))
    ids, weights = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int64)
    traffic._outstanding(*csr, mass, scale, least, indptr, ids, weights)
    assert adjacency(indptr, ids, weights) == kept


def test_a_background_is_split_off() -> None:
    groups = subgraph(noisy_ring(260, 3))
    split = traffic.split_traffic(groups)
    assert np.diff(split.indptr).tolist() == [2] * 260
    expected = np.outer(split.mass, split.mass)
    assert expected.mean() == pytest.approx(3, rel=0.02)  # weights 1 to 5
    assert np.abs(expected - 3).max() < 1  # a group's sum deviates by 3 %
    left_out = groups.weights.sum() - split.weights.sum()
    assert split.mass.sum() ** 2 == pytest.approx(left_out, rel=0.02)
    sparse = subgraph(grid(9, 9))
    assert traffic.split_traffic(sparse).ids is sparse.ids


def test_pairs_of_few_sampled_connections_are_background() -> None:
    """A ring, and for each group some single connections to random groups, each of weight 50."""
    rng, n, grain = np.random.default_rng(4), 300, 50
    at = np.arange(n)
    source, target = np.append(at, rng.integers(0, n, 900)), np.append((at + 1) % n, at.repeat(3))
    weights = np.append(np.full(n, 20 * grain), np.full(900, grain))
    apart = source != target
    edges = source[apart], target[apart], weights[apart]
    groups = subgraph(MemoryGraph.from_edges(n, *edges, undirected=True))
    assert groups.ids.size < traffic.DENSE * n
    assert traffic.split_traffic(groups).ids is groups.ids
    split = traffic.split_traffic(replace(groups, grain=grain))
    assert np.diff(split.indptr).tolist() == [2] * n
    left_out = groups.weights.sum() - split.weights.sum()
    assert split.mass.sum() ** 2 == pytest.approx(left_out, rel=0.05)
    thin = replace(
        groups, grain=20 * grain
    )  # now single connections of the ring are also not significant
    assert traffic.split_traffic(thin).ids is groups.ids


@pytest.mark.jit
def test_a_dense_graph_without_background_is_not_split() -> None:
    groups = subgraph(random_graph(np.random.default_rng(1), 250, mean_degree=600))
    split = traffic.split_traffic(groups)
    assert split.ids is groups.ids
    assert not split.mass.any()


def test_a_sample_keeps_complete_lists() -> None:
    graph = subgraph(grid(20, 20))
    all_of_it = traffic.split_traffic(graph)
    assert traffic.sampled(all_of_it, 10**6, np.random.default_rng(0)) is all_of_it
    some = traffic.sampled(all_of_it, 400, np.random.default_rng(0))
    assert 200 < some.ids.size < 700
    pairs = zip(adjacency(*some.csr), adjacency(*all_of_it.csr), strict=True)
    assert all(links in ([], complete) for links, complete in pairs)


@pytest.mark.parametrize("seed", range(30))
def test_pairs(seed: int) -> None:
    case = Placed(seed)
    size = case.rng.integers(1, 4, case.n).astype(np.float64)
    order = case.rng.permutation(case.n)
    coarse = np.empty(case.n, np.int64)
    count = spectral._pair(*case.csr, size, order, coarse)
    assert coarse.tolist() == naive.pair(case.lists, size.tolist(), order.tolist())
    assert count == coarse.max() + 1


@pytest.mark.parametrize("seed", range(40))
def test_ranks_determine_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    usable = rng.random((int(rng.integers(1, 9)), int(rng.integers(1, 9)))) < 0.8
    usable[0, 0] = True
    cells = np.argwhere(usable.T)
    position = rng.integers(0, 6, (len(cells), 2)).astype(np.float64)
    plane = random_plane(seed, usable.shape[1], usable.shape[0])
    x, y = legalise.legalise(legalise.split_cells(cells, plane.axes), position)
    places = naive.split_ranks(
        [(int(c), int(r)) for c, r in cells], position.tolist(), list(range(len(cells))), plane
    )
    assert dict(enumerate(zip(x.tolist(), y.tolist(), strict=True))) == places


@pytest.mark.parametrize("shape", [(12, 9), (30, 7), (70, 1)])
def test_eigenvectors_of_a_grid(shape: tuple[int, int]) -> None:
    groups = subgraph(grid(*shape))
    split = traffic.split_traffic(groups)
    values, vectors, levels = spectral.eigenvectors(split, 2, np.random.default_rng(0))
    n = split.size
    walk = np.zeros((n, n))
    for u, links in enumerate(adjacency(*split.csr)):
        for v, w in links:
            walk[u, v] = w / sum(weight for _, weight in links)
    exact = np.sort(np.linalg.eigvals(walk).real)[::-1]
    assert 1 - values == pytest.approx(1 - exact[1:3], rel=0.05)
    for value, vector in zip(values, vectors.T, strict=True):
        apart = np.linalg.norm(walk @ vector - value * vector) / np.linalg.norm(vector)
        assert apart < 0.1 * (1 - value)
    assert levels[0][0].shape == (n, n)


def test_a_sketch_has_the_means() -> None:
    split = traffic.split_traffic(subgraph(grid(16, 16)))
    _, vectors, levels = spectral.eigenvectors(split, 2, np.random.default_rng(0))
    sketch, means = spectral._sketch(levels, vectors, 70)
    assert sketch.size == len(means) <= 70 or len(levels) == 1
    assert sketch.weights.sum() == split.weights.sum()
    placed = spectral.place_by_spectrum(
        split,
        legalise.split_cells(cells_of(16, 16), flat_axes(16, 16)),
        spectral.RotationSearch(1, 1, 3),
        np.random.default_rng(0),
    )
    assert len(placed) == 1


def cells_of(width: int, height: int) -> NDArray[np.int64]:
    return np.argwhere(np.ones((width, height)))


@pytest.mark.parametrize("side", [8, 11, 18])
def test_a_grid_is_found_exactly(side: int) -> None:
    groups = subgraph(grid(side, side, 5))
    split = traffic.split_traffic(groups)
    splits = legalise.split_cells(cells_of(side, side), flat_axes(side, side))
    x, y = spectral.place_by_spectrum(
        split, splits, spectral.RotationSearch(1, 1, 12), np.random.default_rng(0)
    )[0]
    x, y = quadratic.pull_together(split, splits, x, y, 12)
    assert hop_cost(groups, x, y, flat_axes(side, side)) == 2 * side * (side - 1)


@pytest.mark.parametrize("seed", range(6))
def test_pulling_together_never_increases_the_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = subgraph(grid(8, 5, seed))
    axes = random_plane(seed, 8, 5).axes
    split, splits = traffic.split_traffic(groups), legalise.split_cells(cells_of(8, 5), axes)
    x, y = (c.astype(np.int32) for c in cells_of(8, 5)[rng.permutation(40)].T)
    after = quadratic.pull_together(split, splits, x, y, 8)
    assert hop_cost(groups, *after, axes) <= hop_cost(groups, x, y, axes)
    assert sorted(zip(*(c.tolist() for c in after), strict=True)) == [
        (c, r) for c in range(8) for r in range(5)
    ]


@pytest.mark.parametrize("width", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("along", [0, 1])
def test_bands_step_to_a_neighbour(width: int, along: int) -> None:
    """Every cell once; in a full rectangle steps are short, mostly to the adjacent cell."""
    cells = cells_of(6, 5)
    walk = curves.band_walk(cells, width, along)
    assert sorted(walk.tolist()) == list(range(30))
    steps = [int(np.abs(a - b).sum()) for a, b in itertools.pairwise(cells[walk])]
    assert max(steps) <= 2 * min(width, 6)
    assert np.mean(steps) < 1.5


def test_breadth_first_is_by_distance() -> None:
    split = traffic.split_traffic(subgraph(grid(30, 1)))
    order = curves.breadth_first(split)
    links = [sorted(v for v, _ in each) for each in adjacency(*split.csr)]
    assert len(links[order[0]]) == 1
    assert all(b in links[a] for a, b in itertools.pairwise(order.tolist()))


def components(links: Links) -> list[set[int]]:
    left, found = set(range(len(links))), []
    while left:
        reached, new = set(), {min(left)}
        while new:
            reached |= new
            new = {v for u in new for v, _ in links[u]} - reached
        found.append(reached)
        left -= reached
    return found


@pytest.mark.parametrize("seed", range(12))
def test_areas_hold_components(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(component_packing, "SMALL", 4)
    rng = np.random.default_rng(seed)
    groups = subgraph(random_graph(rng, 60, mean_degree=float(rng.choice([0, 1.2, 2.5]))))
    split = traffic.split_traffic(groups)
    region = choose_region(rng.random((10, 12)) < 0.8, 60)
    found = component_packing.split_areas(split, region)
    assert sorted(np.concatenate([area.members for area in found]).tolist()) == list(range(60))
    cells = np.concatenate([area.cells for area in found])
    assert sorted(map(tuple, cells.tolist())) == sorted(
        map(tuple, np.argwhere(region.usable.T).tolist())
    )
    sets = components(adjacency(*split.csr))
    large = sorted(sorted(one) for one in sets if len(one) >= 4)
    assert sorted(sorted(area.members.tolist()) for area in found if area.connected) == large
    for area in found:
        holder = [next(i for i, one in enumerate(sets) if u in one) for u in area.members]
        assert holder == sorted(holder)  # groups of a component are consecutive
        assert len(area.cells) == area.members.size
        assert area.cells.tolist() == sorted(area.cells.tolist()) or not area.connected
        lists = adjacency(*split.csr)
        for u, links in zip(area.members, adjacency(*area.traffic.csr), strict=True):
            assert [(int(area.members[v]), w) for v, w in links] == lists[u]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("effort", ["fast", "default", "strong"])
@pytest.mark.jit
def test_threads_do_not_change_the_result(effort: str) -> None:
    for graph, side in ((noisy_ring(400, 1), 20), (grid(40, 40, 2), 40)):
        groups = subgraph(graph)
        region = choose_region(np.ones((side, side), np.bool_), groups.members.size)
        ends = [
            place(groups, region, effort, np.random.default_rng(5), threads)  # type: ignore[arg-type]
            for threads in (1, 3)
        ]
        for one, other in zip(*ends, strict=True):
            assert np.array_equal(one, other)


def test_an_interrupt_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = subgraph(grid(6, 6))
    region = choose_region(np.ones((6, 6), np.bool_), 36)

    stop = StopFlag()
    genuine = portfolio._annealings
    seen: list[tuple[list[int], list[int]]] = []

    def pressed(*arguments: Any) -> Any:
        stop.ask()
        return genuine(*arguments)

    def on_better(x: NDArray[np.int32], y: NDArray[np.int32]) -> None:
        seen.append((x.tolist(), y.tolist()))

    whole = place(groups, region, "fast", np.random.default_rng(0))
    monkeypatch.setattr(portfolio, "_annealings", pressed)
    rng = np.random.default_rng(0)
    x, y = place(groups, region, "fast", rng, clock=Clock(stop=stop), on_better=on_better)
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == 36
    assert seen[-1] == (x.tolist(), y.tolist())
    costs = [hop_cost(groups, *np.array(one, np.int32), region.axes) for one in seen]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] >= hop_cost(groups, *whole, region.axes)
    first = place(groups, region, "fast", np.random.default_rng(0), clock=Clock(stop=stop))
    assert (first[0].tolist(), first[1].tolist()) == seen[0]  # a first result always exists
