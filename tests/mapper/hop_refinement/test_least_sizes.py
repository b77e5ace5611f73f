"""Least sizes of cores: pairs, flows between cores, and moves that keep them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import StreamedRows
from mapper.hop_refinement.annealing import Cooling, anneal_mapping
from mapper.hop_refinement.fill_cores import CoreBounds, fill_cores, flows_within
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hop_refinement.multilevel import pairwise_fm
from mapper.hop_refinement.pairwise_fm import _limits
from tests.mapper.helpers import random_graph, rows_of
from tests.mapper.hop_refinement.cases import random_case


@pytest.mark.parametrize("seed", range(200))
def test_limits_of_a_pair(seed: int) -> None:
    """Divisions within them keep both least sizes, or bring a core as near as the other allows."""
    rng = np.random.default_rng(seed)
    held = rng.integers(0, 9, 2).tolist()
    least = rng.integers(0, 9, 2).tolist()
    most = [int(rng.integers(max(held[k], least[k], 1), 20)) for k in range(2)]
    total = sum(held)
    found = _limits(*held, *most, *least)
    within = [a for a in range(total + 1) if a <= found[0] and total - a <= found[1]]
    good = [
        a for a in range(total + 1) if least[0] <= a <= most[0] and least[1] <= total - a <= most[1]
    ]
    if total >= sum(least):
        assert within == good
        return
    lack = [max(0, least[k] - held[k]) for k in range(2)]
    assert within
    for a in within:
        left = [max(0, least[0] - a), max(0, least[1] - (total - a))]
        assert sum(left) <= sum(lack)
        assert all(after <= before for after, before in zip(left, lack, strict=True))
        if 0 in lack:
            assert sum(left) == sum(least) - total  # what both together lack


def bounds_of(rng: np.random.Generator, held: np.ndarray, usable: np.ndarray) -> CoreBounds:
    """Return bounds that the sizes on all cores together can keep."""
    total, cores = int(held.sum()), int(usable.sum())
    least = np.where(usable, rng.integers(0, total // cores + 1, usable.size), 0)
    most = np.where(usable, np.maximum(least, -(-total // cores)) + rng.integers(0, 4), 0)
    return CoreBounds(least.astype(np.int64), most.astype(np.int64))


@pytest.mark.parametrize("seed", range(100))
def test_flows_bring_all_cores_within_their_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, height = (int(side) for side in rng.integers(1, 6, 2))
    usable = rng.random(width * height) < 0.8
    usable[rng.integers(usable.size)] = True
    held = np.where(usable, rng.integers(0, 30, usable.size), 0).astype(np.int64)
    bounds = bounds_of(rng, held, usable)
    flows = flows_within(held, bounds, CoreMesh(width, height, bounds.most))
    after = held.copy()
    for (a, b), amount in flows.items():
        assert amount > 0
        assert usable[[a, b]].all()
        assert (b, a) not in flows
        after[a] -= amount
        after[b] += amount
    assert bounds.outside(after) == 0
    assert flows or bounds.outside(held) == 0


@pytest.mark.parametrize("seed", range(40))
def test_neurons_of_one_size_fill_all_cores(seed: int) -> None:
    """The same for rows in memory or not, and for any number of threads."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(30, 90)), largest=9, sizes=1, block_size=8)
    width, height = (int(side) for side in rng.integers(1, 5, 2))
    usable = rng.random(width * height) < 0.8
    usable[rng.integers(usable.size)] = True
    core = rng.choice(np.flatnonzero(usable), graph.vertices).astype(np.int32)
    held = np.bincount(core, minlength=usable.size)
    bounds = bounds_of(rng, held, usable)
    mesh = CoreMesh(width, height, bounds.most)
    rows = rows_of(graph)
    results = []
    for some, threads in ((rows, 1), (rows, 3), (StreamedRows(graph, rows.sizes, 0), 1)):
        with ThreadTeam(threads) as team:
            results.append(fill_cores(some, core, mesh, bounds, 1 << 20, seed, team))
    assert all((found == results[0]).all() for found in results)
    after = np.bincount(results[0], minlength=usable.size)
    assert bounds.outside(after) == 0
    assert (after >= bounds.least).all()
    assert (after <= bounds.most).all()


@pytest.mark.parametrize("seed", range(40))
def test_moves_keep_least_sizes(seed: int) -> None:
    """Annealing and exchanges take no core below its least size, or further below it."""
    graph, core, mesh = random_case(seed, slack=4)
    rows, rng = rows_of(graph), np.random.default_rng([seed, 3])
    held = np.bincount(core, rows.sizes, mesh.capacities.size).astype(np.int64)
    least = np.minimum(mesh.capacities, np.maximum(0, held - rng.integers(-1, 3, held.size)))
    mesh = replace(mesh, bounds=least)
    lack = np.maximum(least - held, 0)
    found = anneal_mapping(rows, core, mesh, Cooling(20, least=2000, steps=5), seed)
    with ThreadTeam(1) as team:
        pairwise_fm(rows, found, mesh, 2, 1 << 20, seed, team)
    after = np.bincount(found, rows.sizes, mesh.capacities.size)
    assert (np.maximum(least - after, 0) <= lack).all()
    assert (after <= np.maximum(mesh.capacities, held)).all()
