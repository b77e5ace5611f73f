"""Capacity of a core: bisection, balance and repack against references and invariants."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.graph.csr import chunk_of
from mapper.partitioning.bisection import bisect, parts_by_halving, whole
from mapper.partitioning.rebalance import _best_part, _leave, _losses, balance, repack
from tests.mapper.helpers import adjacency, lists_of, random_graph, random_parts, subgraph
from tests.reference import partitioning as naive


@pytest.mark.parametrize("seed", range(40))
def test_kernels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(2, 30)), int(rng.integers(1, 6))
    graph = random_graph(rng, n, sizes=3, block_size=8)
    part, load = random_parts(rng, graph, parts)
    sizes, capacity = graph.vertex_sizes(), int(load.mean())
    pull, loss = np.zeros(parts, np.int64), np.zeros(n, np.int64)
    twin_part, twin_load = part.tolist(), load.tolist()
    chosen = rng.random(n) < 0.7
    for block in graph.blocks():
        lists = adjacency(*block.undirected())
        chunk = chunk_of(block)
        for local, links in enumerate(lists):
            v = block.first + local
            found = _best_part(chunk, local, sizes, capacity, part, load, pull)
            assert found == naive.best_part(
                links, int(sizes[v]), int(part[v]), capacity, twin_part, twin_load
            )
        loss[:] = -1
        _losses(chunk, sizes, capacity, part, load, pull, loss)
        expected = naive.losses(block.first, lists, sizes.tolist(), capacity, twin_part, twin_load)
        assert loss.tolist() == [expected.get(v, -1) for v in range(n)]
        moved = _leave(chunk, sizes, capacity, chosen, part, load, pull)
        assert moved == naive.leave(
            block.first, lists, sizes.tolist(), capacity, chosen.tolist(), twin_part, twin_load
        )
        assert not pull.any()
        assert (part.tolist(), load.tolist()) == (twin_part, twin_load)


@pytest.mark.parametrize("seed", range(30))
def test_unit_sizes_always_balance_even_without_slack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts, capacity = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    graph = random_graph(rng, parts * capacity, block_size=8)
    part, load = random_parts(rng, graph, parts)
    over = int(np.maximum(load - capacity, 0).sum())
    moves = balance(graph, graph.vertex_sizes(), part, load, capacity)
    assert load.tolist() == [capacity] * parts == np.bincount(part, minlength=parts).tolist()
    assert moves >= over


def test_balance_leaves_fitting_parts_alone() -> None:
    rng = np.random.default_rng(0)
    graph = random_graph(rng, 30)
    part, load = random_parts(rng, graph, 4)
    before = part.copy()
    assert balance(graph, graph.vertex_sizes(), part, load, int(load.max())) == 0
    assert np.array_equal(part, before)


@pytest.mark.parametrize("seed", range(30))
def test_repack_of_mixed_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts, capacity = int(rng.integers(2, 7)), 20
    sizes = rng.integers(0, 11, 3 * parts)
    sizes = sizes[: max(1, int(np.searchsorted(np.cumsum(sizes), 0.75 * parts * capacity)))]
    part = rng.integers(0, parts, sizes.size).astype(np.int32)
    load = np.bincount(part, sizes, minlength=parts).astype(np.int64)
    stayed = load <= capacity
    before = part.copy()
    assert repack(sizes, part, load, capacity)
    assert load.max() <= capacity
    real = np.bincount(part, sizes, minlength=parts).astype(np.int64)
    assert real.tolist() == load.tolist()
    kept = stayed[before]
    assert np.array_equal(part[kept], before[kept])


def test_repack_reports_failure() -> None:
    sizes = np.array([6, 6, 6])
    part = np.zeros(3, np.int32)
    assert not repack(sizes, part, np.array([18, 0]), 10)
    exact = np.array([7, 6, 5, 5, 4, 3])  # fits two cores of 15 only as 7+5+3 and 6+5+4
    part = np.zeros(6, np.int32)
    load = np.array([30, 0])
    assert repack(exact, part, load, 15) == (load.tolist() == [15, 15])


@pytest.mark.parametrize("seed", range(30))
def test_bisection_is_over_by_less_than_a_vertex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    graph = random_graph(rng, n, sizes=int(rng.integers(1, 5)))
    piece = subgraph(graph)
    capacity = int(rng.integers(piece.sizes.max(), piece.sizes.max() + 12))
    cores = -(-piece.size // capacity) + int(rng.integers(0, 4))
    part, count = bisect(piece, capacity, cores, 3, np.random.default_rng(seed))
    assert count <= cores
    assert sorted(set(part.tolist())) == list(range(count))
    load = np.bincount(part, piece.sizes, minlength=count)
    assert load.max() < capacity + piece.sizes.max()
    again, _ = bisect(piece, capacity, cores, 3, np.random.default_rng(seed))
    assert np.array_equal(part, again)


def test_unit_sizes_bisect_within_the_capacity() -> None:
    rng = np.random.default_rng(5)
    for cores in (1, 2, 3, 5, 6, 7, 12):
        graph = random_graph(rng, 5 * cores)
        part, count = bisect(subgraph(graph), 5, cores, 3, rng)
        assert (count, np.bincount(part).tolist()) == (cores, [5] * cores)


def test_halving_gives_a_power_of_two() -> None:
    for size in range(1, 70):
        for capacity in range(1, 20):
            parts = parts_by_halving(size, capacity)
            assert parts * capacity >= size
            assert parts == 1 or parts // 2 * capacity < size


def test_the_complete_graph_sums_both_directions() -> None:
    graph = random_graph(np.random.default_rng(1), 25, block_size=4)
    held = whole(graph, threads=2)
    assert adjacency(held.indptr, held.ids, held.weights) == lists_of(graph)
