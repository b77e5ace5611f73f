"""Joint bisection of network and mesh: the kernel against its reference, and whole placements."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.machine import STRAIGHT
from mapper.hop_refinement.dual_recursive import (
    _region_graph,
    place_by_dual_recursive_bipartitioning,
)
from mapper.hop_refinement.mesh import CoreMesh
from mapper.partitioning.multilevel_bisection import BisectionEffort
from tests.mapper.helpers import adjacency, grid_graph, lists_of, random_graph, rows_of
from tests.reference import hop_refinement as twin
from tests.reference.machine import random_plane
from tests.seeds import seeds

EFFORT = BisectionEffort(8, 3, 0)


@pytest.mark.parametrize("seed", range(40))
def test_region_graph(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 40)), largest=9, sizes=3, block_size=8)
    rows, n = rows_of(graph), graph.vertex_sizes().size
    region = rng.integers(0, 3, n).astype(np.int32)
    x, y = rng.integers(0, 9, (2, n))
    first, second = rng.integers(0, 9, (2, 2))
    rounds = (STRAIGHT, STRAIGHT) if seed % 2 else (int(rng.integers(8, 20)), STRAIGHT)
    for wanted in range(3):
        members = np.flatnonzero(region == wanted)
        local = np.full(n, -1, np.int32)
        local[members] = np.arange(members.size)
        halves = (first, second)
        found = _region_graph(rows.whole, rows.sizes, members, local, region, x, y, halves, rounds)
        inner, expected = twin.region_graph(
            members.tolist(),
            lists_of(graph),
            list(zip(x.tolist(), y.tolist(), strict=True)),
            tuple(first.tolist()),
            tuple(second.tolist()),
            rounds,
        )
        assert adjacency(found.indptr, found.ids, found.weights) == inner
        assert found.bias.tolist() == expected
        assert found.sizes.tolist() == rows.sizes[members].tolist()


@pytest.mark.parametrize("seed", seeds(30, plain=8))
def test_only_usable_cores_are_used(seed: int) -> None:
    """Any shape of mesh, with holes; also fewer vertices than cores."""
    rng = np.random.default_rng(seed)
    width, height = (int(number) for number in rng.integers(1, 7, 2))
    usable = rng.random(width * height) < 0.7
    usable[rng.integers(usable.size)] = True
    graph = random_graph(rng, int(rng.integers(1, 90)), largest=9, sizes=3, block_size=8)
    rows = rows_of(graph)
    capacity = int(rows.sizes.sum()) // np.count_nonzero(usable) + 4
    axes = random_plane(seed, width, height).axes
    mesh = CoreMesh(width, height, np.where(usable, capacity, 0), coordinates=axes)
    core = place_by_dual_recursive_bipartitioning(rows, mesh, EFFORT, seed)
    assert usable[core].all()
    assert (
        core.tolist() == place_by_dual_recursive_bipartitioning(rows, mesh, EFFORT, seed).tolist()
    )


@pytest.mark.jit
def test_a_sheet_is_placed_flat() -> None:
    """A 24x24 grid on 4x4 cores: ordered tiles of 6x6 are optimal."""
    side, cores = 24, 4
    graph = grid_graph(side, side)
    mesh = CoreMesh(cores, cores, np.full(cores**2, 38))
    found = [
        twin.all_hops(
            lists_of(graph),
            place_by_dual_recursive_bipartitioning(rows_of(graph), mesh, EFFORT, seed).tolist(),
            cores,
        )
        for seed in range(5)
    ]
    planted = 2 * side * (cores - 1)
    assert min(found) <= 1.2 * planted
    assert max(found) <= 1.6 * planted
