"""Deep multilevel partitioning in memory: valid parts, much better than random."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import HeldRows
from mapper.partitioning.deep import (
    DeepEffort,
    block_bounds,
    coarsen_in_memory,
    partition_in_memory,
)
from mapper.partitioning.multilevel_bisection import BisectionEffort
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import grid_graph, links_of, random_graph, rows_of
from tests.reference.partitioning import cut

SMALL = DeepEffort(coarsest=60, part_vertices=16, bisection=BisectionEffort(3, 2, 0))


def partition(
    rows: HeldRows, cores: int, stop: int, capacity: int, threads: int = 1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    with ThreadTeam(threads) as team:
        return partition_in_memory(rows, cores, stop, capacity, SMALL, seed, 1 << 16, team)


def check(rows: HeldRows, part: np.ndarray, part_cores: np.ndarray, cores: int, stop: int) -> None:
    assert part.dtype == np.int32
    assert part.shape == (rows.vertices,)
    assert part.min() >= 0
    assert part.max() < part_cores.size
    assert part_cores.sum() == cores
    assert 1 <= part_cores.min() <= part_cores.max() <= stop


@pytest.mark.jit
@pytest.mark.parametrize(("cores", "stop"), [(2, 1), (16, 1), (16, 4), (13, 3), (40, 1)])
def test_grids(cores: int, stop: int) -> None:
    side = 40
    rows, capacity = rows_of(grid_graph(side, side)), -(-side * side // cores) + 3
    links = links_of(rows)
    part, part_cores = partition(rows, cores, stop, capacity)
    check(rows, part, part_cores, cores, stop)
    load = np.bincount(part, minlength=part_cores.size)
    # clusters are coarse: slightly overfull parts are repaired later, on the network itself
    assert (load <= 1.15 * part_cores * capacity).all()
    mixed = np.random.default_rng(0).permutation(part).tolist()
    assert cut(links, part.tolist()) < 0.4 * cut(links, mixed)
    squares = 2 * side * (part_cores.size**0.5 - 1)
    assert cut(links, part.tolist()) < 2.3 * squares


@pytest.mark.parametrize("seed", range(4))
def test_any_number_of_threads_gives_the_same_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(random_graph(rng, 300, sizes=3, mean_degree=5))
    found = []
    for threads in (1, 2, 3):
        part, part_cores = partition(rows, 12, 2, 70, threads, seed)
        check(rows, part, part_cores, 12, 2)
        found.append((part.tolist(), part_cores.tolist()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_fewer_vertices_than_cores(n: int) -> None:
    rows = rows_of(grid_graph(n, 1))
    part, part_cores = partition(rows, 8, 1, 4)
    check(rows, part, part_cores, 8, 1)


def test_a_graph_without_connections() -> None:
    none = np.empty(0, np.int64)
    rows = rows_of(MemoryGraph.from_edges(200, none, none, undirected=True))
    part, part_cores = partition(rows, 8, 1, 26)
    check(rows, part, part_cores, 8, 1)
    assert np.bincount(part, minlength=8).max() <= 30


def test_levels_keep_the_sizes_and_shrink() -> None:
    rows = rows_of(random_graph(np.random.default_rng(1), 600, sizes=3))
    with ThreadTeam(2) as team:
        levels, clusters = coarsen_in_memory(rows, SMALL, 0, team)
    assert len(levels) == len(clusters) + 1 > 2
    assert levels[0] is rows
    for fine, coarse, cluster in zip(levels, levels[1:], clusters, strict=False):
        assert coarse.vertices == cluster.max() + 1 <= 0.95 * fine.vertices
        assert coarse.sizes.tolist() == np.bincount(cluster, weights=fine.sizes).tolist()
    assert all(level.vertices > SMALL.coarsest for level in levels[:-1])


def test_dense_levels_are_sampled() -> None:
    effort = DeepEffort(coarsest=40, degree=8)
    rows = rows_of(random_graph(np.random.default_rng(2), 300, mean_degree=60))
    with ThreadTeam(1) as team:
        levels, _ = coarsen_in_memory(rows, effort, 0, team)
    assert len(levels) > 1
    for level in levels[1:]:
        assert level.entries <= 1.3 * effort.degree * level.vertices


@pytest.mark.parametrize("seed", range(50))
def test_block_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cores, capacity = rng.integers(1, 9, int(rng.integers(1, 10))), int(rng.integers(1, 200))
    size = int(rng.integers(1, cores.sum() * capacity + 1))
    largest = int(rng.integers(1, capacity + 1))
    room, floor = block_bounds(cores, size, capacity, largest)
    share = size * cores / cores.sum()
    assert (room <= cores * capacity).all()
    assert (floor >= 0).all()
    assert (floor <= share).all()
    assert (room[cores == 1] == capacity).all()
    assert (floor[cores == 1] == 0).all()
    whole = np.floor(share)
    assert (room >= whole).all()
