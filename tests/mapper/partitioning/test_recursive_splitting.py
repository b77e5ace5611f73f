"""Recursive splitting of parts gives the same result for any memory and number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import Rows, StreamedRows
from mapper.graph.sampled_contraction import scatter_rows
from mapper.partitioning import recursive_splitting as splitting
from mapper.partitioning.multilevel_bisection import BisectionEffort
from mapper.partitioning.recursive_splitting import Splitting, _gather, split_parts
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import (
    grid_graph,
    links_of,
    random_graph,
    random_parts,
    rows_of,
)
from tests.reference import streamed as naive
from tests.reference.partitioning import cut

LIGHT = BisectionEffort(tries=2, passes=1, smoothing=4)


@pytest.mark.parametrize("seed", range(30))
def test_gather(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(1, 60)), int(rng.integers(1, 7))
    rows = rows_of(graph := random_graph(rng, n))
    part, _ = random_parts(rng, graph, parts)
    low, high = sorted(rng.integers(0, parts + 1, 2).tolist())
    rank = np.empty(n, np.int32)
    for k in range(parts):
        rank[part == k] = np.arange((part == k).sum())
    degree, used = rows.degrees(), np.full(n, -1, np.int32)
    chunks = [rows.read(index) for index in range(rows.chunks)]
    mine = np.flatnonzero((part >= low) & (part < high))
    mine = mine[np.argsort(part[mine], kind="stable")]
    offset = np.zeros(n, np.int64)
    offset[mine] = np.cumsum(degree[mine]) - degree[mine]
    ids, weights = np.full((2, int(degree[mine].sum())), -1, np.int32)
    for chunk in chunks:
        room = np.empty((2, int(chunk.indptr[-1] - chunk.indptr[0])), np.int32)
        at = slice(chunk.first, chunk.first + chunk.vertices)
        count = _gather(chunk, part, low, high, rank, used[at], *room)
        assert count == used[at].sum()
        scatter_rows(used[at], offset[at], *room, ids, weights)
    links = links_of(rows)
    for v in range(n):
        own = part[v]
        expected = naive.inner(links[v], part.tolist(), rank.tolist(), int(own))
        if not low <= own < high:
            expected = []
        place = slice(int(offset[v]), int(offset[v]) + len(expected))
        assert used[v] == len(expected)
        assert list(zip(ids[place].tolist(), weights[place].tolist(), strict=True)) == expected


def split(
    rows: Rows,
    part: np.ndarray,
    cores: np.ndarray,
    stop: int,
    memory: int = 1 << 20,
    threads: int = 1,
    capacity: int = 10**6,
) -> tuple[np.ndarray, list[int], int]:
    """Return the new parts, their cores, and the number of visited entries."""
    visited: list[int] = []
    with ThreadTeam(threads) as team:
        how = Splitting(stop, capacity, LIGHT, 7)
        new, new_cores = split_parts(rows, part, cores, how, memory, team, visited.append)
    assert new.dtype == np.int32
    assert new.shape == part.shape
    return new, new_cores.tolist(), sum(visited)


@pytest.mark.parametrize("seed", range(10))
def test_memory_and_threads_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = int(rng.integers(1, 12))
    graph = random_graph(rng, int(rng.integers(parts, 300)), sizes=3, block_size=17)
    part, _ = random_parts(rng, graph, parts)
    cores = rng.integers(1, 6, parts)
    stop = int(rng.integers(1, 4))
    rows = rows_of(graph)
    new, new_cores, visited = split(rows, part, cores, stop)
    assert visited == rows.entries  # all parts in one pass
    for threads in (1, 2, 3):
        for memory in (0, 300, 1 << 20):
            again, again_cores, passes = split(rows, part, cores, stop, memory, threads)
            assert again.tolist() == new.tolist()
            assert again_cores == new_cores
            assert passes >= rows.entries
    streamed = StreamedRows(graph, graph.vertex_sizes(), 0)
    assert split(streamed, part, cores, stop, 300, 2)[0].tolist() == new.tolist()


@pytest.mark.parametrize("name", ["NARROW_VERTICES", "LIGHT"])
@pytest.mark.parametrize("seed", range(4))
def test_the_width_of_gathered_rows_changes_nothing(
    seed: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indices in parts of up to 65,536 vertices and weights below 256 use fewer bytes."""
    rng = np.random.default_rng(seed)
    rows = rows_of(graph := random_graph(rng, 200, largest=99, block_size=17))
    part, _ = random_parts(rng, graph, 3)
    assert rows.heaviest == rows.weights.max() < splitting.LIGHT
    new = split(rows, part, np.array([4, 1, 6]), 1)
    monkeypatch.setattr(splitting, name, 0)
    again = split(rows, part, np.array([4, 1, 6]), 1, memory=3000)
    assert again[0].tolist() == new[0].tolist()
    assert again[1] == new[1]


@pytest.mark.parametrize("largest", [255, 256, 10**6])
def test_heavy_weights_are_gathered_unchanged(largest: int) -> None:
    """Two halves connected by heavy weights, across two parts."""
    n = 40
    pairs = [(20 * k + i, 20 * k + i + 1) for k in range(2) for i in range(19)]
    source, target = np.array([*pairs, *((i, 20 + i) for i in range(20))]).T
    weight = np.array([largest] * len(pairs) + [largest - 1] * 20)
    graph = MemoryGraph.from_edges(n, source, target, weight, undirected=True)
    new, _, _ = split(rows_of(graph), np.zeros(n, np.int32), np.array([2]), 1, capacity=20)
    halves = [set(np.flatnonzero(new == k).tolist()) for k in range(2)]
    assert sum(map(len, halves)) == n
    links = links_of(rows_of(graph))
    assert cut(links, new.tolist()) <= 2 * largest


@pytest.mark.parametrize("seed", range(20))
def test_new_parts_are_within_the_old(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts, stop, capacity = int(rng.integers(1, 9)), int(rng.integers(1, 4)), 7
    cores = rng.integers(1, 9, parts)
    part = np.repeat(np.arange(parts), cores * capacity - rng.integers(0, 4, parts))
    part = rng.permutation(part).astype(np.int32)
    rows = rows_of(random_graph(rng, part.size, mean_degree=6))
    new, new_cores, _ = split(rows, part, cores, stop, capacity=capacity)
    assert max(new_cores) <= stop
    load = np.bincount(new, minlength=len(new_cores))
    assert load.size == len(new_cores)
    assert (load <= np.array(new_cores) * capacity).all()
    bounds = np.r_[0, np.cumsum(new_cores)]  # new parts of old part k are consecutive
    old_bounds = np.r_[0, np.cumsum(cores)]
    assert set(old_bounds.tolist()) <= set(bounds.tolist())
    home = np.searchsorted(old_bounds, bounds[:-1], side="right") - 1
    assert home[new].tolist() == part.tolist()


def test_parts_of_one_piece_are_unchanged() -> None:
    rows = rows_of(random_graph(np.random.default_rng(0), 40))
    part = np.arange(40, dtype=np.int32) % 4
    new, cores, _ = split(rows, part, np.array([2, 1, 2, 1]), 2)
    assert (new.tolist(), cores) == (part.tolist(), [2, 1, 2, 1])


def test_empty_parts_are_split() -> None:
    rows = rows_of(random_graph(np.random.default_rng(0), 30))
    part = np.full(30, 1, np.int32)
    new, cores, _ = split(rows, part, np.array([3, 4, 2]), 1, capacity=8)
    assert cores == [1] * 9
    assert set(new.tolist()) == {3, 4, 5, 6}


def test_a_grid_is_cut_well() -> None:
    rows = rows_of(grid_graph(32, 32))
    part = (np.arange(1024) // 512).astype(np.int32)
    new, cores, _ = split(rows, part, np.array([8, 8]), 1, capacity=66)
    assert cores == [1] * 16
    assert np.bincount(new).max() <= 66
    assert cut(links_of(rows), new.tolist()) < 1.5 * 192  # 192 for squares of 8 x 8
