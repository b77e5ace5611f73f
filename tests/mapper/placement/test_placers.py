"""Contract of every placer: each group gets its own usable core of the region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.machine import Axes, flat_axes
from mapper.graph.csr import Subgraph
from mapper.placement import multilevel, portfolio
from mapper.placement import placer as interface
from mapper.placement.annealing.classes import ClassPlacer
from mapper.placement.annealing.dense import AnnealingPlacer
from mapper.placement.annealing.schedule import Schedule
from mapper.placement.clock import Clock
from mapper.placement.curves import CurvePlacer
from mapper.placement.force import hop_cost, refine_by_forces
from mapper.placement.legalise import Places
from mapper.placement.multilevel import MultilevelPlacer
from mapper.placement.region import Region, choose_region
from mapper.placement.region_bisection import place_by_bisection
from mapper.placement.spectral import RotationSearch, SpectralPlacer
from mapper.placement.terminal_bisection import BisectionPlacer
from storage.arrays import Mask
from tests.mapper.helpers import random_graph, subgraph
from tests.mapper.placement.test_class_kernels import layers
from tests.reference.machine import random_plane
from tests.reference.placers import spend_little

Placer = Callable[[Subgraph, Region, Axes, np.random.Generator], Places]
"""Places groups on a region of a chip with these coordinates."""


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    spend_little(monkeypatch)
    monkeypatch.setattr(multilevel, "COARSEST", 12)


def by_forces(groups: Subgraph, region: Region, axes: Axes, rng: np.random.Generator) -> Places:
    x, y = place_by_bisection(groups, region, 4, rng)
    refine_by_forces(groups, x, y, axes, 0.05, 200, 1 << 20)
    return x, y


def preset(effort: Any, **options: Any) -> Placer:
    return lambda groups, region, _, rng: portfolio.place(groups, region, effort, rng, **options)


def alone(placer: interface.Placer) -> Placer:
    """Wrap a single placer of the portfolio; it starts from the groups in their order."""

    def place(groups: Subgraph, region: Region, _: Axes, rng: np.random.Generator) -> Places:
        problem = interface.Problem(groups, region, 2, 1 << 28, Clock())
        start = next(CurvePlacer(False).place(problem, None, rng))
        given = start.x.copy(), start.y.copy()
        found = list(placer.place(problem, start, rng))
        assert np.array_equal(given, (start.x, start.y))
        for each in found:
            assert each.cost == hop_cost(groups, each.x, each.y, region.axes)
        best = min([start, *found], key=lambda one: one.cost)
        return best.x + np.int32(region.x), best.y + np.int32(region.y)

    return place


PLACERS: dict[str, Placer] = {
    "by_bisection": lambda groups, region, _, rng: place_by_bisection(groups, region, 4, rng),
    "by_forces": by_forces,
    "fast": preset("fast"),
    "default": preset("default", threads=2),
    "strong": preset("strong", threads=2),
    "in_no_time": lambda *given: preset("strong", clock=Clock(1e-9))(*given),
    "curves": alone(CurvePlacer(by_distance=True)),
    "spectral": alone(SpectralPlacer(RotationSearch(2, 2, 4))),
    "levels": alone(MultilevelPlacer(RotationSearch(0, 2, 4))),
    "cuts": alone(BisectionPlacer()),
    "annealing": alone(AnnealingPlacer(Schedule(2e5, rounds=4))),
    "classes": alone(ClassPlacer(2e5, rounds=4)),
}
# a start along a curve, or one for dense layers, may be no better than random
SEARCHING = PLACERS.keys() - {"in_no_time", "curves", "classes"}

every_placer = pytest.mark.parametrize("place", PLACERS.values(), ids=PLACERS)


def faulty(shape: tuple[int, int], share: float, seed: int) -> Mask:
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


def place_on(
    place: Placer,
    groups: Subgraph,
    usable: Mask,
    axes: Axes | None = None,
    seed: int = 0,
) -> tuple[Places, Region]:
    """Return columns and rows of the groups, each on a separate usable core, and the region."""
    n = groups.members.size
    region = choose_region(usable, n, axes)
    rng, flat = np.random.default_rng(seed), flat_axes(usable.shape[1], usable.shape[0])
    x, y = place(groups, region, flat, rng)
    assert x.shape == y.shape == (n,)
    assert np.issubdtype(x.dtype, np.integer)
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == n
    assert (x >= region.x).all()
    assert (x < region.x + region.width).all()
    assert (y >= region.y).all()
    assert (y < region.y + region.height).all()
    assert usable[y, x].all()
    assert region.usable[y - region.y, x - region.x].all()
    return (x, y), region


@pytest.mark.sample(23)
@every_placer
@every_chip
@pytest.mark.parametrize(
    "share", [0.0, *(pytest.param(share, marks=pytest.mark.jit) for share in (0.3, 0.77)), 1.0]
)
def test_every_group_gets_its_own_core(place: Placer, usable: Mask, share: float) -> None:
    n = max(1, round(share * int(usable.sum())))
    groups = subgraph(random_graph(np.random.default_rng(n), n, sizes=9))
    place_on(place, groups, usable)


@pytest.mark.heavy
@pytest.mark.sample(10)
@pytest.mark.jit
@every_placer
@every_chip
def test_the_seed_determines_the_result(place: Placer, usable: Mask) -> None:
    n = max(1, int(usable.sum()) * 2 // 3)
    groups = subgraph(random_graph(np.random.default_rng(7), n))
    first, second = (place_on(place, groups, usable, seed=11)[0] for _ in range(2))
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
    place_on(place, groups, usable, axes)


@every_placer
def test_groups_without_connections(place: Placer) -> None:
    usable = CHIPS["faulty"]
    groups = subgraph(random_graph(np.random.default_rng(0), 40, mean_degree=0))
    place_on(place, groups, usable)


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", sorted(SEARCHING))
def test_better_than_random(name: str) -> None:
    """A grid of groups on a grid of cores, compared with the mean of random placements."""
    side, usable = 8, CHIPS["square"]
    ids = np.arange(side * side).reshape(side, side)
    ends = [(ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])]
    source, target = (np.concatenate([e[k].ravel() for e in ends]) for k in (0, 1))
    shuffled = np.random.default_rng(3).permutation(ids.size)
    graph = random_graph(np.random.default_rng(0), ids.size, mean_degree=0)
    groups = subgraph(graph.from_edges(ids.size, shuffled[source], shuffled[target]))
    (x, y), region = place_on(PLACERS[name], groups, usable)
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
    _, region = place_on(place, groups, usable)
    inside = choose_region(usable, 30).usable
    for before, after in zip(kept, given, strict=True):
        assert np.array_equal(before, after)
    assert np.array_equal(region.usable, inside)
    assert usable.all()


@pytest.mark.sample(23)
@every_placer
@pytest.mark.parametrize("usable", [CHIPS["faulty"], CHIPS["wide"]], ids=["faulty", "wide"])
def test_dense_layers(place: Placer, usable: Mask) -> None:
    n = int(usable.sum()) * 4 // 5
    third = n // 3
    groups = subgraph(layers([third, third, n - 2 * third]))
    place_on(place, groups, usable)


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
    place_on(place, groups, usable)
