"""Kernels that bisect a block, against reference implementations."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.graph.csr import Csr
from mapper.graph.heap import remove, sift_down, sift_up
from mapper.partitioning.multilevel_bisection import ClusterScratch, _cluster, _contract, _grown
from mapper.partitioning.recursive_splitting import _divide, _extract, split_limits
from mapper.partitioning.sampled_smoothing import CENTRED, SEEN, WHOLE, smooth_by_sample
from mapper.partitioning.two_way_fm import (
    HASTY,
    PATIENT,
    _cost_and_excess,
    _falling,
    _grow,
    _smooth,
    new_queues,
    two_way_fm,
)
from mapper.random_numbers import next_random
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import (
    adjacency,
    csr,
    heavy_graph,
    links_of,
    random_graph,
    rows_of,
    state_of,
)
from tests.reference import bisection as twin
from tests.reference import partitioning as naive

SEEDS = range(30)


def scratch_of(n: int) -> ClusterScratch:
    return ClusterScratch(np.empty(n, np.int64), np.zeros(n, np.int64), *np.empty((2, n), np.int64))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_numbers(seed: int) -> None:
    state, random = state_of(seed), twin.Xorshift(2 * seed + 1)
    for _ in range(20):
        assert int(next_random(state)) == random.next()
    assert 0 <= random.next() < 2**31


@pytest.mark.parametrize("seed", SEEDS)
def test_heap(seed: int) -> None:
    """Costs rise and fall, any vertex may leave; the first is always the cheapest."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    cost, heap, place = rng.integers(-9, 9, n), rng.permutation(n), np.empty(n, np.int64)
    place[heap] = np.arange(n)
    for i in range(n // 2 - 1, -1, -1):
        sift_down(heap, place, cost, i, n)
    length, there = n, set(range(n))
    while length:
        v = int(rng.choice(sorted(there)))
        if rng.random() < 0.5:
            cost[v] += 5
            sift_down(heap, place, cost, place[v], length)
        else:
            cost[v] -= 5
            sift_up(heap, place, cost, place[v])
        assert cost[heap[0]] == min(cost[u] for u in there)
        leaves = int(rng.choice(sorted(there)))
        length = remove(heap, place, cost, leaves, length)
        there.remove(leaves)
        assert set(heap[:length].tolist()) == there
        assert place[leaves] == -1
        assert place[heap[:length]].tolist() == list(range(length))


@pytest.mark.parametrize("seed", SEEDS)
def test_grow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    rows = rows_of(heavy_graph(rng, n, sizes=3))
    total = int(rows.sizes.sum())
    target = int(rng.integers(0, total + 1))
    most = target + int(rng.integers(0, 4))
    side = np.empty(n, np.uint8)
    bias = rng.integers(-(10**9), 10**9, n) * (seed % 2)
    _grow(csr(rows, bias), target, most, side, new_queues(n), state_of(seed))
    random = twin.Xorshift(2 * seed + 1)
    expected = twin.grow(links_of(rows), rows.sizes.tolist(), bias.tolist(), target, most, random)
    assert side.tolist() == expected
    assert rows.sizes[side == 0].sum() <= most


@pytest.mark.parametrize("seed", SEEDS)
def test_grow_reaches_its_target_across_components(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    rows = rows_of(random_graph(rng, n, largest=2, mean_degree=1.5))
    side = np.empty(n, np.uint8)
    target = int(rng.integers(0, n + 1))
    _grow(csr(rows), target, target, side, new_queues(n), state_of(seed))
    assert side.tolist().count(0) == target


@pytest.mark.parametrize("seed", SEEDS)
def test_smooth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    rows = rows_of(random_graph(rng, n, largest=20, sizes=3, mean_degree=6))
    start = rng.choice([-1.0, 1.0], n)
    x, side = start.astype(np.float32), np.empty(n, np.uint8)
    steps, target = int(rng.integers(0, 8)), int(rng.integers(0, rows.sizes.sum() + 1))
    _smooth(csr(rows), target, steps, x, side)
    assert np.allclose(x, twin.averaged(links_of(rows), start.tolist(), steps), atol=1e-4)
    assert side.tolist() == twin.halved(x.tolist(), rows.sizes.tolist(), target)
    if (rows.sizes == 1).all():
        assert side.tolist().count(0) == target


def test_smoothing_finds_the_bridge_between_two_cliques() -> None:
    pairs = [(10 * k + i, 10 * k + j) for k in range(2) for i in range(10) for j in range(i)]
    source, target = np.array([*pairs, (0, 10)]).T
    rows = rows_of(MemoryGraph.from_edges(20, source, target, undirected=True))
    x, side = np.ones(20, np.float32), np.empty(20, np.uint8)
    x[[3, *range(10, 20)]] = -1  # one vertex is on the wrong side
    _smooth(csr(rows), 10, 12, x, side)
    assert side.tolist() == [0] * 10 + [1] * 10


@pytest.mark.parametrize("seed", range(20))
def test_smooth_by_sample(seed: int) -> None:
    """Most steps use a sample of each vertex's connections, the last quarter uses all."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 90))
    rows = rows_of(random_graph(rng, n, largest=20, sizes=3, mean_degree=50))
    assert rows.entries > 2 * SEEN * n
    links = links_of(rows)
    start = rng.choice([-1.0, 1.0], n)
    x, side = start.astype(np.float32), np.empty(n, np.uint8)
    steps, target = int(rng.integers(0, 14)), int(rng.integers(0, rows.sizes.sum() + 1))
    smooth_by_sample(csr(rows), target, steps, x, side)
    whole = (steps + WHOLE - 1) // WHOLE
    expected = twin.sampled(links, start.tolist(), steps - whole, SEEN, CENTRED)
    assert np.allclose(x, twin.averaged(links, expected, whole), atol=1e-4)
    assert side.tolist() == twin.halved(x.tolist(), rows.sizes.tolist(), target)


@pytest.mark.parametrize("seed", range(5))
def test_a_sparse_graph_is_smoothed_without_sampling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(random_graph(rng, 50, mean_degree=6))
    x = rng.random(50).astype(np.float32)
    same, side, other = x.copy(), np.empty(50, np.uint8), np.empty(50, np.uint8)
    smooth_by_sample(csr(rows), 25, 9, x, side)
    _smooth(csr(rows), 25, 9, same, other)
    assert (x.tolist(), side.tolist()) == (same.tolist(), other.tolist())


def test_sampled_steps_find_the_bridge_between_two_cliques() -> None:
    pairs = [(50 * k + i, 50 * k + j) for k in range(2) for i in range(50) for j in range(i)]
    source, target = np.array([*pairs, (0, 50)]).T
    rows = rows_of(MemoryGraph.from_edges(100, source, target, undirected=True))
    x, side = np.zeros(100, np.float32), np.empty(100, np.uint8)
    x[3] = 1
    smooth_by_sample(csr(rows), 50, 24, x, side)
    assert side.tolist() == [0] * 50 + [1] * 50


@pytest.mark.parametrize("seed", SEEDS)
def test_cost_and_excess(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    rows = rows_of(random_graph(rng, n, sizes=3))
    side = rng.integers(0, 2, n).astype(np.uint8)
    most0, most1 = rng.integers(0, rows.sizes.sum() + 1, 2).tolist()
    bias = rng.integers(-9, 9, n)
    found = _cost_and_excess(csr(rows, bias), most0, most1, side)
    sides = side.tolist()
    assert found == (
        naive.cut(links_of(rows), sides) + bias[side == 1].sum(),
        twin.excess(rows.sizes.tolist(), (most0, most1), sides),
    )


@pytest.mark.parametrize("seed", range(40))
def test_fm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 50))
    rows = rows_of(heavy_graph(rng, n, sizes=int(rng.integers(1, 4))))
    side = rng.integers(0, 2, n).astype(np.uint8)
    total = int(rows.sizes.sum())
    most0, most1 = ((total + 1) // 2 + rng.integers(-2, 6, 2)).tolist()
    bias = rng.integers(-5 * 10**9, 5 * 10**9, n) * int(rng.integers(0, 2))
    expected = twin.fm(
        links_of(rows), rows.sizes.tolist(), (most0, most1), 2, side.tolist(), bias.tolist()
    )
    before = _cost_and_excess(csr(rows, bias), most0, most1, side)[0]
    gain = two_way_fm(csr(rows, bias), most0, most1, 2, side, new_queues(n), PATIENT)
    assert side.tolist() == expected
    after = _cost_and_excess(csr(rows, bias), most0, most1, side)[0]
    assert gain == before - after


@pytest.mark.sample(5)
@pytest.mark.parametrize("haste", [PATIENT, HASTY])
@pytest.mark.parametrize("seed", range(3))
def test_fm_of_a_large_graph_gives_up_sooner_in_haste(seed: int, haste: int) -> None:
    rng = np.random.default_rng(seed)
    n = 400  # 50 moves or 32
    rows = rows_of(heavy_graph(rng, n))
    side = rng.integers(0, 2, n).astype(np.uint8)
    expected = twin.fm(
        links_of(rows), rows.sizes.tolist(), (n, n), 1, side.tolist(), [0] * n, haste
    )
    two_way_fm(csr(rows), n, n, 1, side, new_queues(n), haste)
    assert side.tolist() == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_fm_never_worsens(seed: int) -> None:
    """Less excess counts first, then less cut; ties, weights of 0 and sizes of 0 occur."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 120))
    rows = rows_of(random_graph(rng, n, largest=2))
    rows = rows.with_sizes(rng.integers(0, 4, n))
    side = rng.integers(0, 2, n).astype(np.uint8)
    most0, most1 = (rows.sizes.sum() // 2 + rng.integers(-3, 6, 2)).tolist()
    cut, excess = _cost_and_excess(csr(rows), most0, most1, side)
    for _ in range(3):
        two_way_fm(csr(rows), most0, most1, 1, side, new_queues(n), PATIENT)
        new_cut, new_excess = _cost_and_excess(csr(rows), most0, most1, side)
        assert (new_excess, new_cut) <= (excess, cut)
        cut, excess = new_cut, new_excess


@pytest.mark.parametrize("seed", range(10))
def test_fm_empties_an_overfull_side(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    rows = rows_of(random_graph(rng, n))
    side = np.zeros(n, np.uint8)
    most = (n // 2, n - n // 2)
    two_way_fm(csr(rows), *most, 1, side, new_queues(n), PATIENT)
    assert np.bincount(side, minlength=2).tolist() == list(most)


def test_fm_exchanges_vertices_without_slack() -> None:
    """Two separated pairs: any single move would overfill a side."""
    rows = rows_of(MemoryGraph.from_edges(4, [0, 1], [2, 3], [7, 7], undirected=True))
    side = np.array([0, 0, 1, 1], np.uint8)
    gain = two_way_fm(csr(rows), 2, 2, 1, side, new_queues(4), PATIENT)
    assert gain == 14
    assert side[0] == side[2] != side[1] == side[3]


def empty_graph(vertices: int, entries: int) -> Csr:
    sizes, bias = np.empty((2, vertices), np.int64)
    return Csr(np.empty(vertices + 1, np.int64), *np.empty((2, entries), np.int32), sizes, bias)


@pytest.mark.parametrize("seed", SEEDS)
def test_cluster_and_contract(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 50))
    rows = rows_of(random_graph(rng, n, largest=3, sizes=3))
    links, sizes, limit = links_of(rows), rows.sizes.tolist(), int(rng.integers(1, 12))
    label, scratch, bias = np.empty(n, np.int32), scratch_of(n), rng.integers(-9, 9, n)
    count = _cluster(csr(rows, bias), limit, label, scratch, state_of(seed))
    assert label.tolist() == twin.cluster(links, sizes, limit, twin.Xorshift(2 * seed + 1))
    assert count == label.max() + 1
    held = np.bincount(label, weights=rows.sizes)
    assert ((held <= limit) | (np.bincount(label) == 1)).all()
    coarse = empty_graph(count, rows.entries)
    _contract(csr(rows, bias), label, count, coarse, scratch)
    assert not scratch.affinity.any()
    assert coarse.sizes.tolist() == held.astype(int).tolist()
    assert coarse.bias.tolist() == [bias[label == c].sum() for c in range(count)]
    found = [(c, d, w) for c, lists in enumerate(adjacency(*coarse[:3])) for d, w in lists]
    assert naive.merged(found) == twin.contract(links, label.tolist())
    assert len(found) == coarse.indptr[-1]


def test_a_contracted_weight_is_capped() -> None:
    indptr, ids = np.array([0, 2, 4, 6, 8]), np.array([2, 3, 2, 3, 0, 1, 0, 1], np.int32)
    weights = np.full(8, 2**30, np.int32)
    label = np.array([0, 0, 1, 1], np.int32)
    graph = Csr(indptr, ids, weights, np.ones(4, np.int64), np.zeros(4, np.int64))
    coarse = empty_graph(2, 8)
    _contract(graph, label, 2, coarse, scratch_of(4))
    assert adjacency(*coarse[:3]) == [[(1, 2**31 - 1)], [(0, 2**31 - 1)]]


def test_grown() -> None:
    array = np.arange(5, dtype=np.int32)
    assert _grown(array, 5) is array or np.shares_memory(_grown(array, 5), array)
    for need in (6, 9, 100):
        longer = _grown(array, need)
        assert longer.size >= max(need, 10)
        assert (longer.dtype, longer[:5].tolist()) == (array.dtype, array.tolist())


@pytest.mark.parametrize("seed", SEEDS)
def test_extract(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    rows = rows_of(random_graph(rng, n, sizes=4))
    piece = rng.integers(0, 3, n).astype(np.int32)
    for wanted in range(4):
        local, members = np.empty(n, np.int32), np.empty(n, np.int64)
        found = _extract(csr(rows, np.arange(n)), piece, wanted, local, members)
        expected, lists = naive.extract(links_of(rows), piece.tolist(), wanted)
        assert members[: found.sizes.size].tolist() == found.bias.tolist() == expected
        assert adjacency(*found[:3]) == lists
        assert found.sizes.tolist() == rows.sizes[expected].tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_divide(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    piece = rng.integers(0, count, n).astype(np.int32)
    cores = np.append(rng.integers(2, 9, count), np.zeros(3, np.int64))
    at = int(rng.integers(0, count))
    left = int(rng.integers(1, cores[at]))
    members = np.flatnonzero(piece == at)
    side = rng.integers(0, 2, n).astype(np.uint8)
    sides = dict(zip(members.tolist(), side.tolist(), strict=False))
    expected = [p + (p > at) + sides.get(v, 0) for v, p in enumerate(piece.tolist())]
    wanted = [*cores[:at], left, cores[at] - left, *cores[at + 1 : count], 0, 0]
    _divide(n, members.size, members, side, at, count, left, piece, cores)
    assert piece.tolist() == expected
    assert cores.tolist() == wanted


@pytest.mark.parametrize("cores", range(2, 40))
def test_limits(cores: int) -> None:
    rng = np.random.default_rng(cores)
    left = (cores + 1) // 2
    for capacity in rng.integers(1, 50, 10).tolist():
        size = int(rng.integers(0, cores * capacity + 3))
        target, most0, most1 = split_limits(size, cores, left, capacity)
        assert (target, most0, most1) == twin.limits(size, cores, left, capacity)
        assert target <= most0
        assert size - target <= most1
        if size <= cores * capacity:
            assert most0 <= left * capacity
            assert most1 <= (cores - left) * capacity


@pytest.mark.parametrize("n", [0, 1, 2, 16, 17, 100, 1000])
def test_falling_order(n: int) -> None:
    """Equals numpy's stable sort, also for equal values and zeros of both signs."""
    rng = np.random.default_rng(n)
    for values in (rng.normal(size=n), rng.integers(-3, 4, n) * np.float64(-0.5)):
        x = values.astype(np.float32)
        assert _falling(x).tolist() == np.argsort(-x, kind="stable").tolist()
