"""Hypergraphs, contraction and clusters against reference implementations."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.hypergraph.coarsening import _cluster, coarsen, join_twins
from mapper.hypergraph.hypergraph import connectivity, contract
from mapper.hypergraph.net_rows import _nets_of_block, net_traffic
from mapper.hypergraph.rebisection import _shared, induced
from tests.reference import hypergraph as naive

SEEDS = range(12)


def case(seed: int, widest: int = 6) -> tuple[naive.Nets, list[int], np.random.Generator]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(widest, 20))
    return naive.random_nets(rng, n, int(rng.integers(1, 25)), widest), [1] * n, rng


@pytest.mark.parametrize("seed", SEEDS)
def test_lists_of_vertices_and_connectivity(seed: int) -> None:
    nets, sizes, rng = case(seed)
    graph = naive.as_graph(nets, sizes)
    for v in range(graph.vertices):
        mine = graph.nets[graph.vertex_start[v] : graph.vertex_start[v + 1]].tolist()
        assert mine == [e for e, (_, pins) in enumerate(nets) if v in pins]
    part = rng.integers(0, 4, graph.vertices).astype(np.int32)
    assert connectivity(graph, part, 4) == naive.cost(nets, part.tolist())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("directed", [False, True])
def test_contraction(seed: int, directed: bool) -> None:
    nets, sizes, rng = case(seed)
    graph = naive.as_graph(nets, sizes)
    cluster = rng.integers(-1, 4, graph.vertices).astype(np.int32)
    coarse = contract(graph, cluster, 4, directed)
    expected = naive.contracted(nets, cluster.tolist(), directed)
    found = naive.as_nets(coarse)
    assert len(found) == len(expected)
    assert naive.contracted(found, range(4), directed) == expected
    assert coarse.sizes.tolist() == [int((cluster == c).sum()) for c in range(4)]


@pytest.mark.parametrize("seed", SEEDS)
def test_clusters(seed: int) -> None:
    nets, _, rng = case(seed)
    n = max(max(pins) for _, pins in nets) + 1
    sizes = rng.integers(0, 4, n).tolist()
    graph = naive.as_graph(nets, sizes)
    part = rng.integers(0, 2, n).astype(np.int32)
    order = rng.permutation(n)
    cluster = np.empty(n, np.int32)
    limit, large, least = int(rng.integers(1, 12)), int(rng.integers(3, 8)), int(rng.integers(1, n))
    left = _cluster(graph, order, part, limit, 1 << 30, large, least, cluster)
    expected = naive.clusters(order.tolist(), nets, sizes, part.tolist(), limit, large, least)
    assert cluster.tolist() == expected
    assert left == len(set(expected))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_level_respects_parts_and_limit(seed: int) -> None:
    nets, sizes, rng = case(seed)
    graph = naive.as_graph(nets, sizes)
    part = rng.integers(0, 3, graph.vertices).astype(np.int32)
    coarse, cluster = coarsen(graph, part, 3, 2, rng)
    assert coarse.sizes.max() <= 3
    assert len(set(zip(cluster.tolist(), part.tolist(), strict=True))) == coarse.vertices
    above = np.empty(coarse.vertices, np.int32)
    above[cluster] = part
    assert connectivity(coarse, above, 3) == connectivity(graph, part, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_twins_are_vertices_in_the_same_nets(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mapper.hypergraph.coarsening.TWINS", 1.0)
    rng = np.random.default_rng(seed)
    nets = [(1, [v, *rng.permutation(np.arange(8, 12))[: 1 + v % 2].tolist()]) for v in range(8)]
    graph = naive.as_graph(nets, [1] * 12)
    part = rng.integers(0, 2, 12).astype(np.int32)
    found = join_twins(graph, part, 3, rng)
    assert found is not None
    coarse, cluster = found
    seen = naive.views(nets, 12)
    groups: dict[object, list[int]] = {}
    for v in range(12):
        groups.setdefault((seen[v], part[v]), []).append(v)
    for v in range(12):
        for u in range(v):
            assert cluster[u] != cluster[v] or (seen[u], part[u]) == (seen[v], part[v])
    assert coarse.vertices == sum(-(-len(members) // 3) for members in groups.values())
    assert coarse.sizes.max() <= 3


def test_no_twins_no_level() -> None:
    graph = naive.as_graph([(1, [0, 1]), (1, [1, 2])], [1, 1, 1])
    assert join_twins(graph, np.zeros(3, np.int32), 3, np.random.default_rng(0)) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_induced(seed: int) -> None:
    nets, sizes, rng = case(seed)
    graph = naive.as_graph(nets, sizes)
    members = np.flatnonzero(rng.random(graph.vertices) < 0.5)
    some = induced(graph, members)
    number = {int(v): i for i, v in enumerate(members)}
    expected = [(w, [number[v] for v in pins if v in number]) for w, pins in nets]
    assert sorted(naive.as_nets(some)) == sorted(net for net in expected if len(net[1]) > 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_traffic_between_groups(seed: int) -> None:
    nets, sizes, rng = case(seed)
    graph = naive.as_graph(nets, sizes)
    part = rng.integers(0, 4, graph.vertices).astype(np.int32)
    groups = net_traffic(graph, part, 4)
    source = np.repeat(np.arange(4), np.diff(groups.indptr)).tolist()
    found = dict(
        zip(zip(source, groups.ids.tolist(), strict=True), groups.weights.tolist(), strict=True)
    )
    assert found == dict(naive.group_traffic(nets, part.tolist()))
    table, marks = np.zeros((4, 4), np.int64), np.full(4, -1, np.int64)
    _shared(graph.start, graph.pins, graph.weights, part, marks, np.empty(4, np.int64), table)
    pairs = naive.shared(nets, part.tolist())
    assert table.tolist() == [[pairs[a, b] for b in range(4)] for a in range(4)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rated", [False, True])
def test_nets_of_a_block(seed: int, rated: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        [(int(u), int(rng.integers(0, 4))) for u in rng.permutation(9)[: int(rng.integers(0, 4))]]
        for _ in range(6)
    ]
    rates = rng.integers(0, 3, 20)
    indptr = np.cumsum([0, *map(len, rows)])
    ids = np.array([u for row in rows for u, _ in row], np.int32)
    weights = np.array([w for row in rows for _, w in row], np.int64)
    lengths, out_weights = np.empty((2, 6), np.int64)
    pins = np.empty(ids.size + 6, np.int32)
    found, used = _nets_of_block(10, indptr, ids, weights, rates, rated, lengths, pins, out_weights)
    expected = naive.block_nets(10, rows, rates.tolist() if rated else None)
    assert out_weights[:found].tolist() == [w for w, _ in expected]
    assert lengths[:found].tolist() == [len(row) for _, row in expected]
    assert pins[:used].tolist() == [v for _, row in expected for v in row]
