"""Contraction into scratch, against a reference implementation and the contraction into memory."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.by_label import sums_by_label
from mapper.graph.contracted_rows import ContractedRows, contract_to_scratch
from mapper.graph.rows import Rows, StreamedRows
from mapper.graph.sampled_contraction import MAX_ROW, contract_sampled
from storage.scratch.scratch import Scratch
from tests.mapper.helpers import (
    Links,
    heavy_clusters,
    links_of,
    random_clusters,
    random_graph,
    rows_of,
)
from tests.reference import streamed as naive
from tests.seeds import seeds


def contracted(
    rows: Rows, cluster: np.ndarray, count: int, sample: tuple[int, int], folder: Path,
    threads: int = 1, memory: int = 1 << 20,
) -> tuple[Links, ContractedRows]:  # fmt: skip
    visited: list[int] = []
    with ThreadTeam(threads) as team, Scratch(folder) as scratch:
        sizes = sums_by_label(cluster, rows.sizes, count)
        found = contract_to_scratch(
            rows, cluster, sizes, sample, scratch, memory, team, visited.append
        )
        assert sum(visited) == rows.entries
        assert found.degrees().tolist() == [len(links) for links in links_of(found)]
        assert found.entries == sum(map(len, links_of(found)))
        return links_of(found), found


def expected(rows: Rows, cluster: list[int], count: int, sample: tuple[int, int]) -> Links:
    """Return rows in ascending ids; a sampled connection counts at both endpoints."""
    sums: list[dict[int, int]] = [defaultdict(int) for _ in range(count)]
    for v, links in enumerate(naive.sampled(links_of(rows), cluster, *sample)):
        for d, w in links:
            sums[cluster[v]][d] += w
    return [sorted(row.items()) for row in sums]


@pytest.mark.parametrize("seed", seeds(25, plain=5))
def test_rows_of_clusters(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 90))
    graph = random_graph(rng, n, largest=9, sizes=4, block_size=int(rng.integers(1, 20)))
    rows = StreamedRows(graph, graph.vertex_sizes(), 0)
    count = int(rng.integers(1, n + 1))
    cluster = random_clusters(rng, n, count)
    sample = int(rng.integers(1, 9)), int(rng.integers(1000))
    twin = expected(rows, cluster.tolist(), count, sample)
    for threads, memory in ((1, 1 << 20), (3, 1 << 20), (2, 1 << 12)):
        folder = tmp_path / f"{threads} {memory}"
        links, found = contracted(rows, cluster, count, sample, folder, threads, memory)
        assert links == twin
        assert found.sizes.tolist() == [int(rows.sizes[cluster == c].sum()) for c in range(count)]
    assert [len(links) for links in twin] == [len({d for d, _ in links}) for links in twin]
    pairs = {(c, d): w for c, links in enumerate(twin) for d, w in links}
    assert pairs == {(d, c): w for (c, d), w in pairs.items()}


def test_contraction_into_scratch_equals_contraction_into_memory(tmp_path: Path) -> None:
    """Twice in a row: the second contraction reads the result of the first."""
    rng = np.random.default_rng(1)
    rows: Rows = rows_of(random_graph(rng, 400, largest=9, mean_degree=12))
    with ThreadTeam(2) as team, Scratch(tmp_path / "0") as first, Scratch(tmp_path / "1") as second:
        for depth, (count, scratch) in enumerate(((150, first), (40, second))):
            cluster = (np.arange(rows.vertices) % count).astype(np.int32)
            held = contract_sampled(rows, cluster, count, 3, depth, team)
            sizes = sums_by_label(cluster, rows.sizes, count)
            rows = contract_to_scratch(rows, cluster, sizes, (3, depth), scratch, 1 << 20, team)
            assert links_of(rows) == [sorted(links) for links in links_of(held)]
            assert rows.sizes.tolist() == held.sizes.tolist()


def test_all_weights_are_shifted_if_a_sum_is_too_large(tmp_path: Path) -> None:
    graph, cluster = heavy_clusters()
    links, _ = contracted(rows_of(graph), cluster, 3, (1, 0), tmp_path / "scratch")
    heaviest = links[0][0][1]
    assert links == [[(1, heaviest), (2, 1)], [(0, heaviest)], [(0, 1)]]
    assert 2**26 < heaviest < MAX_ROW


def test_clusters_without_connections(tmp_path: Path) -> None:
    rows = rows_of(random_graph(np.random.default_rng(0), 30))
    cluster = np.zeros(30, np.int32)
    links, found = contracted(rows, cluster, 3, (1, 0), tmp_path / "scratch")
    assert links == [[], [], []]
    assert found.sizes.tolist() == [30, 0, 0]
