"""Kernels of steps 2 to 4 against references: matching, contraction, growing, refinement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.graph.affinity import cut_of
from mapper.graph.contraction import _relabel, contract
from mapper.graph.csr import chunk_of
from mapper.partitioning.classic import _refine_block, cut_weight, refine
from mapper.partitioning.greedy_growing import _grow, grow_half
from mapper.partitioning.heavy_edge_matching import _match_block, _number_pairs, match
from storage.graph import Block
from storage.scratch.scratch import Scratch
from storage.store.memory import load as load_graph
from tests.mapper.helpers import adjacency, lists_of, random_graph, random_parts, subgraph
from tests.reference import partitioning as naive

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_match_block(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    graph = random_graph(rng, n, sizes=3, block_size=7)
    sizes, limit = graph.vertex_sizes(), int(rng.integers(1, 7))
    mate = np.full(n, -1, np.int32)
    expected = [-1] * n
    for block in graph.blocks():
        order = rng.permutation(block.vertices)
        inside = _match_block(chunk_of(block), order, sizes, limit, mate)
        lists = adjacency(*block.undirected())
        assert inside == naive.match_block(
            block.first, lists, order.tolist(), sizes.tolist(), limit, expected
        )
        assert mate.tolist() == expected
    coarse = np.empty(n, np.int32)
    count = _number_pairs(mate, coarse)
    assert coarse.tolist() == naive.number_pairs(expected)
    assert count == len(set(coarse.tolist()))


@pytest.mark.parametrize("seed", range(10))
def test_match_gives_pairs_within_the_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 60, sizes=4, block_size=16)
    coarse, count = match(graph, graph.vertex_sizes(), 5, 3, rng)
    members: dict[int, list[int]] = {}
    for v, c in enumerate(coarse.tolist()):
        members.setdefault(c, []).append(v)
    assert sorted(members) == list(range(count))
    lists, sizes = lists_of(graph), graph.vertex_sizes()
    for pair in members.values():
        if len(pair) > 1:
            u, v = pair
            assert v in [other for other, _ in lists[u]]
            assert sizes[u] + sizes[v] <= 5


@pytest.mark.parametrize("seed", range(20))
def test_contract(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(4, 40)), int(rng.integers(1, 4))
    graph = random_graph(rng, n, sizes=3, block_size=9)
    cluster = np.r_[np.arange(count), rng.integers(0, count, n - count)].astype(np.int32)
    triples = []
    for block in graph.blocks():
        indptr, ids, weights = block.undirected()
        owners, others = np.empty(ids.size, np.int32), np.empty(ids.size, np.int32)
        kept = np.empty(ids.size, np.int64)
        used = _relabel(block.first, indptr, ids, weights, cluster, owners, others, kept)
        found = list(zip(*(a[:used].tolist() for a in (owners, others, kept)), strict=True))
        assert found == naive.relabel(
            block.first, adjacency(indptr, ids, weights), cluster.tolist()
        )
        triples += found
    with Scratch(tmp_path / "scratch") as scratch:
        merged = contract(graph, cluster, count, scratch, "coarse", 1 << 16)
        inside = load_graph(merged)
        assert inside.vertex_sizes().tolist() == [
            int(graph.vertex_sizes()[cluster == c].sum()) for c in range(count)
        ]
        found_pairs = {(v, u): w for v, links in enumerate(lists_of(inside)) for u, w in links}
    assert found_pairs == naive.merged(triples)


@pytest.mark.parametrize("seed", SEEDS)
def test_grow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 24))
    # weights this large make equal costs unlikely, and a ring leaves no vertex at cost 0
    weights = rng.integers(1, 10**9, (2, n))
    ring = np.arange(n)
    graph = random_graph(rng, n, largest=10**9, sizes=3)
    held = graph.read_all()
    owner = np.repeat(ring, np.diff(held.indptr))
    graph = type(graph).from_edges(
        n,
        np.r_[owner, ring],
        np.r_[held.ids, (ring + 1) % n],
        np.r_[held.weights, weights[0]],
        sizes=graph.vertex_sizes(),
    )
    piece = subgraph(graph)
    target = int(rng.integers(1, piece.size + 1))
    low = int(rng.integers(0, target + 1))
    high = int(rng.integers(target, piece.size + 1))
    order = rng.permutation(n)
    selected = np.empty(n, np.uint8)
    cut = _grow(
        piece.indptr, piece.ids, piece.weights, piece.sizes, order, target, low, high, selected
    )
    expected, expected_cut = naive.grow(
        lists_of(graph), piece.sizes.tolist(), int(order[0]), target, low, high
    )
    assert selected.tolist() == expected
    assert cut == expected_cut
    assert piece.sizes[selected == 1].sum() <= high


@pytest.mark.parametrize("seed", SEEDS)
def test_grow_counts_its_cut_and_keeps_its_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    graph = random_graph(rng, n, largest=2, mean_degree=3)  # ties, isolated vertices
    piece = subgraph(graph)
    target = int(rng.integers(1, n + 1))
    selected = np.empty(n, np.uint8)
    order = rng.permutation(n)
    cut = _grow(
        piece.indptr, piece.ids, piece.weights, piece.sizes, order, target, target, target, selected
    )
    assert selected.sum() == target
    assert cut == naive.cut(lists_of(graph), selected.tolist())
    side = grow_half(piece, target, target, target, 4, np.random.default_rng(seed))
    assert side.sum() == target
    for half, wanted in zip(piece.halves(side), (1, 0), strict=True):
        members, lists = naive.extract(lists_of(graph), side.tolist(), wanted)
        assert half.members.tolist() == members
        assert adjacency(half.indptr, half.ids, half.weights) == lists
        assert half.sizes.tolist() == piece.sizes[members].tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_refine_block(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(2, 30)), int(rng.integers(1, 6))
    graph = random_graph(rng, n, sizes=3, block_size=8)
    part, load = random_parts(rng, graph, parts)
    sizes, capacity = graph.vertex_sizes(), int(load.max() + rng.integers(-3, 3))
    twin_part, twin_load = part.tolist(), load.tolist()
    pull, touched = np.zeros(parts, np.int64), np.empty(parts, np.int64)
    for block in graph.blocks():
        order = rng.permutation(block.vertices)
        lists = adjacency(*block.undirected())
        chunk = chunk_of(block)
        assert cut_of(chunk, part) == naive.cut_of_block(block.first, lists, part.tolist())
        found = _refine_block(chunk, order, sizes, capacity, part, load, pull, touched)
        assert found == naive.refine_block(
            block.first, lists, order.tolist(), sizes.tolist(), capacity, twin_part, twin_load
        )
        assert not pull.any()
        assert (part.tolist(), load.tolist()) == (twin_part, twin_load)


@pytest.mark.parametrize("seed", range(20))
def test_refine_never_worsens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 50, sizes=3, block_size=16)
    part, load = random_parts(rng, graph, 5)
    sizes, capacity = graph.vertex_sizes(), int(load.max())
    for _ in range(4):
        before = cut_weight(graph, part)
        moves, gained = refine(graph, sizes, part, load, capacity, rng)
        assert (
            cut_weight(graph, part) == before - gained == naive.cut(lists_of(graph), part.tolist())
        )
        assert gained >= moves >= 0
        assert load.max() <= capacity
        assert load.tolist() == [int(sizes[part == k].sum()) for k in range(5)]


def test_a_block_read_twice_is_equal() -> None:
    graph = random_graph(np.random.default_rng(0), 20, block_size=6)
    again: list[Block] = list(graph.blocks(threads=2))
    for block, other in zip(graph.blocks(), again, strict=True):
        assert adjacency(*block.undirected()) == adjacency(*other.undirected())
