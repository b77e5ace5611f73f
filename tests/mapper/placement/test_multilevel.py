"""Multilevel placement: coarse meshes, levels, renumbering, and results."""

from __future__ import annotations

import time

import numpy as np
import pytest

from chipsim.chip.machine import flat_axes
from mapper.placement import multilevel
from mapper.placement.clock import Clock, TimeUpError
from mapper.placement.force import hop_cost
from mapper.placement.legalise import split_cells
from mapper.placement.multilevel import coarse_mesh, place_by_levels
from mapper.placement.spectral import RotationSearch
from mapper.placement.traffic import split_traffic
from tests.mapper.helpers import adjacency, random_graph, subgraph
from tests.mapper.placement.test_placement_kernels import cells_of, grid
from tests.reference.machine import random_plane


@pytest.mark.parametrize("seed", range(30))
def test_a_coarse_mesh_covers_the_fine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    usable = rng.random((int(rng.integers(1, 14)), int(rng.integers(1, 14)))) < 0.7
    usable[-1, -1] = True
    cells = np.argwhere(usable.T)
    count = int(rng.integers(1, len(cells) + 1))
    plane = random_plane(seed, usable.shape[1], usable.shape[0])
    mesh = coarse_mesh(cells, count, plane.axes)
    assert mesh.cells.shape == (count, 2)
    for at, around in ((mesh.axes.x, mesh.axes.round_x), (mesh.axes.y, mesh.axes.round_y)):
        assert (np.diff(at) >= 0).all()
        assert at[0] == 0
        assert at[-1] <= around
    if seed % 3 == 0:
        assert mesh.axes.flat
    assert len(set(map(tuple, mesh.cells.tolist()))) == count
    middle = mesh.low + (mesh.cells + 0.5) * mesh.scale - 0.5
    for each in middle:  # every coarse cell contains a usable cell
        assert (np.abs(cells - each) <= mesh.scale / 2 + 1).all(axis=1).any()
    assert (middle >= cells.min(axis=0) - 0.5).all()
    assert (middle <= cells.max(axis=0) + 0.5).all()


def test_a_coarse_mesh_of_all_cells_is_the_mesh() -> None:
    cells = cells_of(7, 4)
    mesh = coarse_mesh(cells, 28, flat_axes(7, 4))
    assert mesh.cells.tolist() == cells.tolist()
    assert (mesh.scale == 1).all()


@pytest.mark.parametrize("seed", range(10))
def test_renumbered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    traffic = split_traffic(subgraph(random_graph(rng, 20)))
    order = rng.permutation(20)
    after = adjacency(*multilevel.renumbered(traffic, order).csr)
    before = adjacency(*traffic.csr)
    for i, u in enumerate(order):
        assert sorted((int(order[v]), w) for v, w in after[i]) == sorted(before[u])


def test_levels_keep_the_traffic_between_merged_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilevel, "COARSEST", 10)
    traffic = split_traffic(subgraph(grid(16, 12)))
    levels, maps = multilevel._coarsened(traffic, np.random.default_rng(0), Clock())
    assert len(levels) == len(maps) + 1 >= 3
    for k, onto in enumerate(maps):
        expected: dict[tuple[int, int], int] = {}
        for u, links in enumerate(adjacency(*levels[k].csr)):
            for v, w in links:
                ends = int(onto[u]), int(onto[v])
                if ends[0] != ends[1]:
                    expected[ends] = expected.get(ends, 0) + w
        found = {
            (u, v): w for u, links in enumerate(adjacency(*levels[k + 1].csr)) for v, w in links
        }
        assert found == expected


@pytest.mark.jit
def test_near_the_optimum_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilevel, "COARSEST", 200)
    groups = subgraph(grid(60, 45, 1))
    traffic, axes = split_traffic(groups), flat_axes(60, 45)
    splits = split_cells(cells_of(60, 45), axes)
    x, y = place_by_levels(traffic, splits, RotationSearch(0, 4, 20), np.random.default_rng(0), 2)
    assert hop_cost(groups, x, y, axes) < 1.25 * (59 * 45 + 60 * 44)


def test_a_time_limit_of_zero() -> None:
    traffic = split_traffic(subgraph(grid(30, 30)))
    clock = Clock(1e-9)
    time.sleep(1e-3)
    with pytest.raises(TimeUpError):
        splits = split_cells(cells_of(30, 30), flat_axes(30, 30))
        place_by_levels(
            traffic, splits, RotationSearch(0, 2, 4), np.random.default_rng(0), 1, clock
        )
