"""Placement on machines: near the optimum of exhaustive search, and within one chip."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from chipsim.chip.machine import Axes, Block, Machine
from mapper.placement.force import hop_cost
from mapper.placement.portfolio import place
from mapper.placement.region import choose_region
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import subgraph
from tests.mapper.placement.test_placement_kernels import grid
from tests.reference.machine import Plane, random_plane

GROUPS = 8
ORDERS = np.array(list(itertools.permutations(range(GROUPS))), np.int64)


def distances(plane: Plane, cells: list[tuple[int, int]]) -> np.ndarray:
    return np.array([[plane.far(a, b) for b in cells] for a in cells])


@pytest.mark.sample(3)
@pytest.mark.jit
@pytest.mark.parametrize("shape", [(4, 2), (8, 1), (2, 4)])
@pytest.mark.parametrize("seed", range(14))
def test_instances_of_eight_groups_are_solved(seed: int, shape: tuple[int, int]) -> None:
    """As in QAPLIB: every group sends to every other, with distances of tiles, chips and tori."""
    rng = np.random.default_rng(seed)
    width, height = shape
    plane = random_plane(3 * seed + 1 + seed % 2, width, height)
    source, target = np.triu_indices(GROUPS, 1)
    weights = rng.integers(0, 10, source.size) ** 2 + 1
    groups = subgraph(MemoryGraph.from_edges(GROUPS, source, target, weights, undirected=True))
    usable = np.ones((height, width), np.bool_)
    region = choose_region(usable, GROUPS, plane.axes)
    x, y = place(groups, region, "default", np.random.default_rng(seed))
    found = hop_cost(groups, x, y, plane.axes)
    apart = distances(plane, [(c, r) for r in range(height) for c in range(width)])
    costs = sum(
        w * apart[ORDERS[:, s], ORDERS[:, t]]
        for s, t, w in zip(source, target, weights, strict=True)
    )
    best = int(np.min(costs))
    assert best <= found <= 1.005 * best


def spread(axes: Axes, x: np.ndarray, y: np.ndarray) -> float:
    """Return the mean distance of two cells."""
    total = 0.0
    for at, around, place_of in ((axes.x, axes.round_x, x), (axes.y, axes.round_y, y)):
        straight = np.abs(at[place_of].astype(int)[:, None] - at[place_of])
        total += float(np.minimum(straight, around - straight).mean())
    return total


@pytest.mark.parametrize("seed", range(30))
def test_the_region_is_the_nearest_rectangle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width = (int(side) for side in rng.integers(1, 7, 2))
    plane = random_plane(3 * seed + 1 + seed % 2, width, height)
    if plane.axes.flat:
        return
    usable = rng.random((height, width)) < 0.85
    usable[0, 0] = True
    groups = int(rng.integers(1, usable.sum() + 1))
    region = choose_region(usable, groups, plane.axes)
    assert region.usable.sum() == groups
    assert region.usable.shape == region.axes.shape

    def window(x: int, y: int, wide: int, tall: int) -> float:
        columns, rows = np.meshgrid(np.arange(x, x + wide), np.arange(y, y + tall))
        return spread(plane.axes, columns.ravel(), rows.ravel())

    found = window(region.x, region.y, region.width, region.height)
    for wide in range(1, width + 1):
        fits = [
            (x, y, wide, tall)
            for tall in range(1, height + 1)
            for y in range(height - tall + 1)
            for x in range(width - wide + 1)
            if usable[y : y + tall, x : x + wide].sum() >= groups
        ]
        if fits:
            lowest = min(tall for *_, tall in fits)
            assert found <= min(window(*one) for one in fits if one[3] == lowest) + 1e-9


def test_groups_that_fit_one_chip_stay_on_it() -> None:
    axes = Machine(16, 16, chip=Block(8, 8, 10.0)).axes
    region = choose_region(np.ones((16, 16), np.bool_), 60, axes)
    assert (region.x // 8, region.y // 8) == (
        (region.x + region.width - 1) // 8,
        (region.y + region.height - 1) // 8,
    )


@pytest.mark.jit
def test_a_machine_pays_less_for_crossings() -> None:
    """A shuffled grid of 12x12 groups on 2x2 chips of 6x6: one quadrant per chip."""
    axes = Machine(12, 12, chip=Block(6, 6, 10.0)).axes
    groups = subgraph(grid(12, 12, 4))
    region = choose_region(np.ones((12, 12), np.bool_), 144, axes)
    x, y = place(groups, region, "default", np.random.default_rng(0), 2)
    assert hop_cost(groups, x, y, axes) <= 1.02 * (2 * 12 * 10 + 2 * 12 * 10)
