"""Traffic between groups against a dense matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.csr import Subgraph
from mapper.graph.groups import (
    GROUP_BYTES,
    MATRIX_BYTES,
    _add_rows,
    _sum_by_group,
    group_traffic,
    upper_row,
)
from mapper.graph.rows import StreamedRows
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import adjacency, lists_of, random_graph, random_parts, rows_of
from tests.reference import streamed as naive


def dense(graph: Subgraph, groups: int) -> list[list[int]]:
    matrix = [[0] * groups for _ in range(groups)]
    for a, links in enumerate(adjacency(graph.indptr, graph.ids, graph.weights)):
        assert [b for b, _ in links] == sorted({b for b, _ in links})
        for b, w in links:
            assert w > 0
            matrix[a][b] = w
    return matrix


@pytest.mark.parametrize("seed", range(30))
def test_kernels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, groups = int(rng.integers(1, 40)), int(rng.integers(1, 7))
    graph = random_graph(rng, n)
    part, _ = random_parts(rng, graph, groups)
    rows, threshold = rows_of(graph), int(rng.integers(1, 6))
    by_pairs = np.zeros(groups * groups, np.int64)
    upper = np.zeros(groups * (groups + 1) // 2, np.int64)
    pull, touched = np.zeros(groups, np.int64), np.empty(groups, np.int32)
    for index in range(rows.chunks):
        chunk = rows.read(index)
        order = np.argsort(part[chunk.first : chunk.first + chunk.vertices], kind="stable")
        entries = int(chunk.indptr[-1] - chunk.indptr[0])
        keys, sums = np.empty((2, entries), np.int64)
        found = _sum_by_group(chunk, order, part, threshold, pull, touched, keys, sums)
        assert not pull.any()
        assert (np.diff(keys[:found]) > 0).all()
        by_pairs[keys[:found]] += sums[:found]
        _add_rows(chunk, part, groups, upper)
    lists, parts = lists_of(graph), part.tolist()
    sample = [
        [(u, max(w, threshold)) for u, w in links if naive.kept(v, u, w, threshold, 0)]
        for v, links in enumerate(lists)
    ]
    assert by_pairs.reshape(groups, groups).tolist() == naive.group_traffic(sample, parts, groups)
    matrix = np.zeros((groups, groups), np.int64)
    for own in range(groups):
        matrix[own, own + 1 :] = upper_row(upper, groups, own)
    assert (matrix + matrix.T).tolist() == naive.group_traffic(lists, parts, groups)


@pytest.mark.parametrize("matrix", [True, False], ids=["matrix", "pairs"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("threads", [1, 3])
def test_group_traffic(matrix: bool, seed: int, threads: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, 30)) if matrix else 150
    graph = random_graph(rng, 160, sizes=3, block_size=9)
    part, load = random_parts(rng, graph, groups)
    expected = naive.group_traffic(lists_of(graph), part.tolist(), groups)
    for rows in (rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)):
        memory = 1 << 20 if matrix else GROUP_BYTES * rows.entries  # all connections, no matrix
        assert (MATRIX_BYTES * groups**2 * (threads + 1) <= memory) == matrix
        visited: list[int] = []
        with ThreadTeam(threads) as team:
            found = group_traffic(rows, part, groups, memory, tmp_path, team, visited.append)
        assert dense(found, groups) == expected
        assert found.sizes.tolist() == load.tolist()
        assert found.members.tolist() == list(range(groups))
        assert sum(visited) == graph.read_all().undirected()[1].size


def test_with_little_memory_the_traffic_is_sampled(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    groups = 120
    graph = random_graph(rng, 300, largest=9, mean_degree=40)
    part, _ = random_parts(rng, graph, groups)
    rows, found = rows_of(graph), []
    memory = GROUP_BYTES * rows.entries // 5
    assert MATRIX_BYTES * groups**2 * 2 > memory
    for threads in (1, 2, 3):
        with ThreadTeam(threads) as team:
            sample = group_traffic(rows, part, groups, memory, tmp_path, team)
        found.append(dense(sample, groups))
    assert found[0] == found[1] == found[2]
    traffic, exact = np.array(found[0]), naive.group_traffic(lists_of(graph), part.tolist(), groups)
    assert (traffic == traffic.T).all()
    assert (np.array(exact)[traffic > 0] > 0).all()
    assert traffic.sum() == pytest.approx(np.sum(exact), rel=0.1)


def test_sums_above_31_bits(tmp_path: Path) -> None:
    """Row sums of neurons are below 2^31; sums of groups are not."""
    n = 40
    source, target = np.array([(i, n + j) for i in range(n) for j in range(n)]).T
    weight = np.full(n * n, 2**25)
    graph = MemoryGraph.from_edges(2 * n, source, target, weight, undirected=True)
    rows = rows_of(graph)
    for groups in (2, 300):  # with a matrix, with pairs
        part = (np.arange(2 * n) // n).astype(np.int32)
        with ThreadTeam(2) as team:
            memory = GROUP_BYTES * rows.entries
            found = group_traffic(rows, part, groups, memory, tmp_path, team)
        links = adjacency(found.indptr, found.ids, found.weights)
        assert links[:2] == [[(1, n * n << 25)], [(0, n * n << 25)]]
        assert not any(links[2:])
