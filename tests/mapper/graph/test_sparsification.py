"""Sampled views of a graph's connections."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.csr import Chunk
from mapper.graph.rows import StreamedRows, hold
from mapper.graph.sampled_contraction import _kept
from mapper.graph.sparsification import SEED, ThinnedGraph, _thin, thin
from storage.store.memory import MemoryGraph


def graph_of(seed: int, vertices: int = 40, edges: int = 400) -> MemoryGraph:
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, vertices, (2, edges))
    weight = 1 + rng.exponential(5, edges).astype(np.int64)
    return MemoryGraph.from_edges(vertices, source, target, weight, block_size=7)


def rows_of(graph: MemoryGraph | ThinnedGraph) -> list[dict[int, int]]:
    rows = []
    for index in range(graph.block_count):
        indptr, ids, weights = graph.read_undirected(index)
        for begin, end in pairwise(indptr.tolist()):
            row = zip(ids[begin:end].tolist(), weights[begin:end].tolist(), strict=True)
            rows.append(dict(row))
    return rows


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("threshold", [1, 3, 8, 1000])
def test_rows_of_a_sample(seed: int, threshold: int) -> None:
    graph = graph_of(seed)
    thinned = rows_of(ThinnedGraph(graph, threshold, 100))
    for v, (row, whole) in enumerate(zip(thinned, rows_of(graph), strict=True)):
        naive = {u: max(w, threshold) for u, w in whole.items() if _kept(v, u, w, threshold, SEED)}
        assert row == naive
        for u, weight in row.items():
            assert thinned[u][v] == weight  # both rows of a pair agree
        assert all(u in row for u, w in whole.items() if w >= threshold)


def test_kernel_on_an_empty_block() -> None:
    empty = np.empty(0, np.int64)
    indptr = np.zeros(4, np.int64)
    out = np.empty(4, np.int64)
    chunk = Chunk(0, indptr, empty.astype(np.int32), empty)
    assert _thin(chunk, 2, SEED, out, empty.astype(np.int32), empty) == 0
    assert out.tolist() == [0, 0, 0, 0]


def test_about_the_wanted_degree_and_the_same_weight() -> None:
    graph = graph_of(1, 400, 40_000)
    with ThreadTeam(1) as team:
        assert thin(graph, 1000, 0, team) is graph
        view = thin(graph, 50, 0, team)
    assert isinstance(view, ThinnedGraph)
    rows, whole = rows_of(view), rows_of(graph)
    # pairs with connections both ways are one entry, which the estimate ignores
    assert 0.6 * 50 * 400 < sum(map(len, rows)) <= 1.05 * 50 * 400
    weight = sum(sum(row.values()) for row in rows)
    assert weight == pytest.approx(sum(sum(row.values()) for row in whole), rel=0.05)


@pytest.mark.parametrize("expected", [0, 1, 100, 10_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_held_for_any_expected_number(expected: int, threads: int) -> None:
    view = ThinnedGraph(graph_of(3), 8, expected)
    rows = StreamedRows(view, view.vertex_sizes(), 0)
    with ThreadTeam(threads) as team:
        held = hold(rows, team, lambda done: None)
    found = [dict(zip(held.ids[a:b].tolist(), held.weights[a:b].tolist(), strict=True))
             for a, b in pairwise(held.indptr.tolist())]  # fmt: skip
    assert found == rows_of(view)
    assert held.ids.size == held.weights.size == sum(map(len, found))
