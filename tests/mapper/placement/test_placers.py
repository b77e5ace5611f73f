"""Contract of every placer: each group gets its own usable core of the region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.machine import flat_axes
from mapper.graph.csr import Subgraph
from mapper.placement import multilevel, portfolio
from mapper.placement import placer as interface
from mapper.placement.annealing.classes import ClassPlacer
from mapper.placement.annealing.dense import AnnealingPlacer
from mapper.placement.annealing.schedule import Schedule
from mapper.placement.clock import Clock
from mapper.placement.curves import CurvePlacer
from mapper.placement.force import hop_cost, refine_by_forces
from mapper.placement.multilevel import MultilevelPlacer
from mapper.placement.region import Region, choose_region
from mapper.placement.region_bisection import place_by_bisection
from mapper.placement.spectral import RotationSearch, SpectralPlacer
from mapper.placement.terminal_bisection import BisectionPlacer
from tests.mapper.helpers import random_graph, subgraph
from tests.mapper.placement.test_class_kernels import layers
from tests.reference.machine import random_plane
from tests.reference.placers import spend_little

Places = tuple[NDArray[np.int32], NDArray[np.int32]]
Placer = Callable[[Subgraph, Region, NDArray[np.bool_], np.random.Generator], Places]


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    spend_little(monkeypatch)
    monkeypatch.setattr(multilevel, "COARSEST", 12)


def by_bisection(
    groups: Subgraph, region: Region, usable: NDArray[np.bool_], rng: np.random.Generator
) -> Places:
    return place_by_bisection(groups, region, 4, rng)


def by_forces(
    groups: Subgraph, region: Region, usable: NDArray[np.bool_], rng: np.random.Generator
) -> Places:
    x, y = place_by_bisection(groups, region, 4, rng)
    axes = flat_axes(usable.shape[1], usable.shape[0])
    refine_by_forces(groups, x, y, axes, 0.05, 200, 1 << 20)
    return x, y


def fast(
    groups: Subgraph, region: Region, usable: NDArray[np.bool_], rng: np.random.Generator
) -> Places:
    return portfolio.place(groups, region, "fast", rng)[:2]


def default(
    groups: Subgraph, region: Region, usable: NDArray[np.bool_], rng: np.random.Generator
) -> Places:
    return portfolio.place(groups, region, "default", rng, threads=2)[:2]


def strong(
    groups: Subgraph, region: Region, usable: NDArray[np.bool_], rng: np.random.Generator
) -> Places:
    return portfolio.place(groups, region, "strong", rng, threads=2)[:2]


def in_no_time(
    groups: Subgraph, region: Region, usable: NDArray[np.bool_], rng: np.random.Generator
) -> Places:
    return portfolio.place(groups, region, "strong", rng, clock=Clock(1e-9))[:2]


def alone(name: str, placer: interface.Placer) -> Placer:
    """Wrap a single placer of the portfolio; it starts from the groups in their order."""

    def place(
        groups: Subgraph, region: Region, usable: NDArray[np.bool_], rng: np.random.Generator
    ) -> Places:
        rank = np.arange(groups.members.size)
        problem = interface.Problem(groups, region, rank, 2, 1 << 28, Clock())
        start = next(CurvePlacer(False).place(problem, None, rng))
        given = start.x.copy(), start.y.copy()
        found = list(placer.place(problem, start, rng))
        assert np.array_equal(given, (start.x, start.y))
        for each in found:
            assert each.cost == hop_cost(groups, each.x, each.y, region.axes)
        best = min([start, *found], key=lambda one: one.cost)
        return best.x + np.int32(region.x), best.y + np.int32(region.y)

    place.__name__ = name
    return place


PLACERS: list[Placer] = [
    by_bisection,
    by_forces,
    fast,
    default,
    strong,
    in_no_time,
    alone("curves", CurvePlacer(by_distance=True)),
    alone("spectral", SpectralPlacer(RotationSearch(2, 2, 4))),
    alone("levels", MultilevelPlacer(RotationSearch(0, 2, 4))),
    alone("cuts", BisectionPlacer()),
    alone("annealing", AnnealingPlacer(Schedule(2e5, rounds=4))),
    alone("classes", ClassPlacer(2e5, rounds=4)),
]
# a start along a curve, or one for dense layers, may be no better than random
SEARCHING = [
    place for place in PLACERS if place.__name__ not in ("in_no_time", "curves", "classes")
]

every_placer = pytest.mark.parametrize("place", PLACERS, ids=lambda f: f.__name__)


def faulty(shape: tuple[int, int], share: float, seed: int) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random(shape) >= share


CHIPS = {
    "square": np.ones((8, 8), np.bool_),
    "wide": np.ones((3, 17), np.bool_),
    "tall": np.ones((13, 2), np.bool_),
    "row": np.ones((1, 29), np.bool_),
    "column": np.ones((29, 1), np.bool_),
    "odd": np.ones((7, 5), np.bool_),
    "faulty": faulty((9, 9), 0.3, 1),
    "mostly faulty": faulty((10, 12), 0.75, 2),
    "one core": np.ones((1, 1), np.bool_),
}

every_chip = pytest.mark.parametrize("usable", CHIPS.values(), ids=CHIPS)


def check(groups: Subgraph, region: Region, usable: NDArray[np.bool_], places: Places) -> None:
    x, y = places
    n = groups.members.size
    assert x.shape == y.shape == (n,)
    assert np.issubdtype(x.dtype, np.integer)
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == n
    assert (x >= region.x).all()
    assert (x < region.x + region.width).all()
    assert (y >= region.y).all()
    assert (y < region.y + region.height).all()
    assert usable[y, x].all()
    assert region.usable[y - region.y, x - region.x].all()


@pytest.mark.sample(23)
@every_placer
@every_chip
@pytest.mark.parametrize(
    "share", [0.0, *(pytest.param(share, marks=pytest.mark.jit) for share in (0.3, 0.77)), 1.0]
)
def test_every_group_gets_its_own_core(
    place: Placer, usable: NDArray[np.bool_], share: float
) -> None:
    n = max(1, round(share * int(usable.sum())))
    groups = subgraph(random_graph(np.random.default_rng(n), n, sizes=9))
    region = choose_region(usable, n)
    check(groups, region, usable, place(groups, region, usable, np.random.default_rng(0)))


@pytest.mark.heavy
@pytest.mark.sample(10)
@pytest.mark.jit
@every_placer
@every_chip
def test_the_seed_determines_the_result(place: Placer, usable: NDArray[np.bool_]) -> None:
    n = max(1, int(usable.sum()) * 2 // 3)
    groups = subgraph(random_graph(np.random.default_rng(7), n))
    region = choose_region(usable, n)
    first, second = (place(groups, region, usable, np.random.default_rng(11)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.sample(10)
@every_placer
@pytest.mark.parametrize("seed", [1, 2, 4, 5])
def test_machines(place: Placer, seed: int) -> None:
    """Hops that are free or expensive, and tori; `alone` checks the costs of placements."""
    usable = CHIPS["faulty"]
    axes = random_plane(seed, usable.shape[1], usable.shape[0]).axes
    groups = subgraph(random_graph(np.random.default_rng(seed), 45))
    region = choose_region(usable, 45, axes)
    check(groups, region, usable, place(groups, region, usable, np.random.default_rng(0)))


@every_placer
def test_groups_without_connections(place: Placer) -> None:
    usable = CHIPS["faulty"]
    groups = subgraph(random_graph(np.random.default_rng(0), 40, mean_degree=0))
    region = choose_region(usable, 40)
    check(groups, region, usable, place(groups, region, usable, np.random.default_rng(0)))


@pytest.mark.sample(7)
@pytest.mark.parametrize("place", SEARCHING, ids=lambda f: f.__name__)
def test_better_than_random(place: Placer) -> None:
    """A grid of groups on a grid of cores, compared with the mean of random placements."""
    side, usable = 8, CHIPS["square"]
    ids = np.arange(side * side).reshape(side, side)
    ends = [(ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])]
    source, target = (np.concatenate([e[k].ravel() for e in ends]) for k in (0, 1))
    shuffled = np.random.default_rng(3).permutation(ids.size)
    graph = random_graph(np.random.default_rng(0), ids.size, mean_degree=0)
    groups = subgraph(graph.from_edges(ids.size, shuffled[source], shuffled[target]))
    region = choose_region(usable, ids.size)
    x, y = place(groups, region, usable, np.random.default_rng(0))
    chance = []
    for seed in range(20):
        row, column = np.divmod(np.random.default_rng(seed).permutation(ids.size), side)
        chance.append(hop_cost(groups, column, row, region.axes))
    assert hop_cost(groups, x, y, region.axes) < 0.6 * np.mean(chance)


@pytest.mark.sample(11)
@every_placer
def test_the_arguments_are_not_changed(place: Placer) -> None:
    usable = CHIPS["odd"].copy()
    groups = subgraph(random_graph(np.random.default_rng(0), 30, sizes=4))
    given: list[NDArray[Any]] = [groups.ids, groups.weights, groups.sizes, groups.members]
    kept = [array.copy() for array in given]
    region = choose_region(usable, 30)
    inside = region.usable.copy()
    place(groups, region, usable, np.random.default_rng(0))
    for before, after in zip(kept, given, strict=True):
        assert np.array_equal(before, after)
    assert np.array_equal(region.usable, inside)
    assert usable.all()


@pytest.mark.sample(23)
@every_placer
@pytest.mark.parametrize("usable", [CHIPS["faulty"], CHIPS["wide"]], ids=["faulty", "wide"])
def test_dense_layers(place: Placer, usable: NDArray[np.bool_]) -> None:
    n = int(usable.sum()) * 4 // 5
    third = n // 3
    groups = subgraph(layers([third, third, n - 2 * third]))
    region = choose_region(usable, n)
    check(groups, region, usable, place(groups, region, usable, np.random.default_rng(0)))


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@every_placer
def test_thousands_of_groups_in_several_components(place: Placer) -> None:
    rng = np.random.default_rng(0)
    usable = faulty((50, 61), 0.1, 3)
    n = 2500
    source = rng.integers(0, n, 2 * n)
    target = source // 500 * 500 + rng.integers(0, 500, 2 * n)
    apart = source != target
    graph = random_graph(rng, n, mean_degree=0)
    weights = rng.integers(1, 1 << 24, int(apart.sum()))
    groups = subgraph(graph.from_edges(n, source[apart], target[apart], weights))
    region = choose_region(usable, n)
    check(groups, region, usable, place(groups, region, usable, np.random.default_rng(0)))
