"""Contraction into memory, complete or sampled, against reference implementations and exact
sums.
"""

from __future__ import annotations

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import HeldRows, Rows, StreamedRows
from mapper.graph.sampled_contraction import (
    BINS,
    FINE,
    LOOKED_AT,
    MAX_ROW,
    _add_up,
    _close_up,
    _count,
    _histogram,
    _kept,
    _write,
    bin_weights,
    contract_sampled,
    sampling_threshold,
    scatter_rows,
    thin_in_place,
    threshold_of,
)
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import (
    adjacency,
    heavy_clusters,
    links_of,
    random_clusters,
    random_graph,
    rows_of,
)
from tests.reference import streamed as naive
from tests.reference.partitioning import merged, relabel
from tests.seeds import seeds

MOST_THRESHOLD = 2**30

Pairs = dict[tuple[int, int], int]


def pairs_of(rows: Rows) -> Pairs:
    found = [(c, d, w) for c, links in enumerate(links_of(rows)) for d, w in links]
    pairs = merged(found)
    assert len(pairs) == len(found)  # no duplicate pairs
    return pairs


def exact(rows: Rows, cluster: np.ndarray) -> Pairs:
    """Return the exact sum of connections between clusters, without weights of 0."""
    triples = relabel(0, links_of(rows), cluster.tolist())
    return {pair: w for pair, w in merged(triples).items() if w}


@pytest.mark.parametrize("seed", range(40))
def test_kept(seed: int) -> None:
    rng = np.random.default_rng(seed)
    u, v = (int(x) for x in rng.integers(0, 2**31, 2))
    weight, threshold = int(rng.integers(0, 40)), int(rng.integers(1, 60))
    salt = int(rng.integers(0, 2**40))
    if seed % 4 == 0:  # the largest possible threshold
        weight, threshold = int(rng.integers(0, 2**30)), MOST_THRESHOLD
    found = _kept(np.int32(u), np.int32(v), np.int32(weight), threshold, salt)
    assert found == naive.kept(u, v, weight, threshold, salt)
    assert found == _kept(np.int32(v), np.int32(u), np.int32(weight), threshold, salt)
    assert _kept(u, v, threshold, threshold, salt)
    assert not _kept(u, v, 0, threshold, salt)


@pytest.mark.parametrize(("weight", "threshold"), [(1, 10), (3, 10), (9, 10), (5, 6), (1, 2000)])
def test_kept_with_the_right_probability(weight: int, threshold: int) -> None:
    tries, expected = 4000, weight / threshold
    for salt in (0, 1, 12345):
        share = sum(_kept(3, v, weight, threshold, salt) for v in range(4, 4 + tries)) / tries
        assert abs(share - expected) < 4.5 * (expected * (1 - expected) / tries) ** 0.5


@pytest.mark.parametrize("seed", range(30))
def test_count_and_write(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    rows = rows_of(random_graph(rng, n, largest=9))
    cluster = random_clusters(rng, n, int(rng.integers(1, n + 1)))
    threshold, salt = int(rng.integers(1, 9)), int(rng.integers(1000))
    expected = naive.sampled(links_of(rows), cluster.tolist(), threshold, salt)
    degree = np.empty(n, np.int64)
    chunks = [rows.read(index) for index in range(rows.chunks)]
    for chunk in chunks:
        _count(chunk, cluster, threshold, salt, degree[chunk.first :])
    assert degree.tolist() == [len(links) for links in expected]
    places = rng.permutation(n)  # rows may be written to any places that do not overlap
    offset = np.empty(n, np.int64)
    offset[places] = np.cumsum(degree[places]) - degree[places]
    ids, weights = np.full((2, int(degree.sum())), -1, np.int32)
    for chunk in chunks:
        room = np.empty((2, int(chunk.indptr[-1] - chunk.indptr[0])), np.int32)
        at = slice(chunk.first, chunk.first + chunk.vertices)
        lengths = np.empty(chunk.vertices, np.int32)
        assert _write(chunk, cluster, threshold, salt, lengths, *room) == degree[at].sum()
        assert lengths.tolist() == degree[at].tolist()
        scatter_rows(lengths, offset[at], *room, ids, weights)
    for v, links in enumerate(expected):
        place = slice(int(offset[v]), int(offset[v] + degree[v]))
        assert list(zip(ids[place].tolist(), weights[place].tolist(), strict=True)) == links


@pytest.mark.parametrize("seed", range(30))
def test_add_up_and_close_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 20))
    lengths = rng.integers(0, 12, count)
    start = np.r_[0, np.cumsum(lengths)]
    ids = rng.integers(0, count, start[-1]).astype(np.int32)
    weights = rng.integers(1, int(2 ** rng.integers(1, 31)), start[-1]).astype(np.int32)
    lists = adjacency(start, ids, weights)
    pull, touched = np.zeros(count, np.int64), np.empty(count, np.int32)
    used, middle = np.empty(count, np.int64), int(rng.integers(0, count + 1))
    largest = [
        _add_up(low, high, start, ids, weights, pull, touched, used)
        for low, high in ((0, middle), (middle, count))
    ]
    assert max(largest) == max(sum(w for _, w in links) for links in lists)
    assert not pull.any()
    indptr, shift = np.empty(count + 1, np.int64), int(rng.integers(0, 5))
    _close_up(start, used, ids, weights, shift, indptr)
    assert indptr[0] == 0
    expected = [[(d, max(w >> shift, 1)) for d, w in naive.added_up(links)] for links in lists]
    assert adjacency(indptr, ids, weights) == expected


@pytest.mark.parametrize("seed", range(20))
def test_complete_contraction_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    graph = random_graph(rng, n, sizes=4, block_size=9)
    rows = rows_of(graph)
    cluster = random_clusters(rng, n, count := int(rng.integers(1, n + 1)))
    expected = exact(rows, cluster)
    sizes = [int(rows.sizes[cluster == c].sum()) for c in range(count)]
    for given in (rows, StreamedRows(graph, graph.vertex_sizes(), 0)):
        for threads in (1, 3):
            visited: list[int] = []
            with ThreadTeam(threads) as team:
                coarse = contract_sampled(given, cluster, count, 1, seed, team, visited.append)
            assert pairs_of(coarse) == expected
            assert coarse.sizes.tolist() == sizes
            assert coarse.entries == len(expected)
            assert sum(visited) == (2 if given.at_hand else 1) * rows.entries


@pytest.mark.parametrize("largest", [9, 2**29])
@pytest.mark.parametrize("seed", range(8))
def test_thinned_rows_equal_contraction_of_single_vertices(seed: int, largest: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    rows = rows_of(random_graph(rng, n, largest=largest, sizes=3))
    threshold = int(rng.integers(1, largest + 1))
    with ThreadTeam(int(rng.integers(1, 4))) as team:
        same = np.arange(n, dtype=np.int32)
        expected = contract_sampled(rows, same, n, threshold, seed, team)
        mine = HeldRows(rows.indptr, rows.ids.copy(), rows.weights.copy(), rows.sizes)
        found = thin_in_place(mine, threshold, seed, team)
    for name in ("indptr", "ids", "weights", "sizes"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


@pytest.mark.jit
@pytest.mark.parametrize("threshold", [2, 7, 40])
def test_samples_are_symmetric_and_keep_the_total_weight(threshold: int) -> None:
    rng = np.random.default_rng(threshold)
    n, count = 400, 40
    rows = rows_of(random_graph(rng, n, largest=9, mean_degree=60))
    cluster = random_clusters(rng, n, count)
    whole = exact(rows, cluster)
    shares, degrees = [], []
    for seed in range(8):
        with ThreadTeam(2) as team:
            coarse = contract_sampled(rows, cluster, count, threshold, seed, team)
        pairs = pairs_of(coarse)
        assert pairs == {(d, c): w for (c, d), w in pairs.items()}
        assert pairs.keys() <= whole.keys()
        assert all(w >= threshold for w in pairs.values())
        shares.append(sum(pairs.values()) / sum(whole.values()))
        degrees.append(coarse.entries)
    assert np.mean(shares) == pytest.approx(1, abs=0.03)
    assert len(set(shares)) > 1  # another seed, another sample
    assert max(degrees) <= len(whole)


def test_any_number_of_threads_gives_the_same_sample() -> None:
    rng = np.random.default_rng(0)
    rows = rows_of(random_graph(rng, 500, largest=9, mean_degree=20))
    cluster = random_clusters(rng, 500, 120)
    found = []
    for threads in (1, 2, 3):
        with ThreadTeam(threads) as team:
            found.append(links_of(contract_sampled(rows, cluster, 120, 4, 5, team)))
    assert found[0] == found[1] == found[2]


def test_all_weights_are_shifted_if_a_sum_is_too_large() -> None:
    graph, cluster = heavy_clusters()
    with ThreadTeam(1) as team:
        pairs = pairs_of(contract_sampled(rows_of(graph), cluster, 3, 1, 0, team))
    assert pairs == {(d, c): w for (c, d), w in pairs.items()}
    assert pairs[0, 2] == 1  # an existing connection never vanishes
    assert 2**26 < pairs[0, 1] < MAX_ROW


@pytest.mark.parametrize("seed", range(20))
def test_threshold_is_minimal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 20, int(rng.integers(2, 30)))
    entries = int(rng.integers(1, max(2, counts[1:].sum() + 3)))
    assert threshold_of(counts, entries) == naive.least_threshold(counts.tolist(), entries)


@pytest.mark.parametrize("seed", seeds(10, plain=2))
def test_a_sample_has_about_the_requested_entries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 300, largest=20, mean_degree=40, block_size=50)
    rows = StreamedRows(graph, graph.vertex_sizes(), 0)
    same = np.arange(300, dtype=np.int32)
    wanted = int(rng.integers(rows.entries // 8, rows.entries // 2))
    visited: list[int] = []
    with ThreadTeam(2) as team:
        threshold = sampling_threshold(rows, wanted, team, visited.append)
        assert sum(visited) == rows.entries
        assert contract_sampled(rows, same, 300, threshold, seed, team).entries == pytest.approx(
            wanted, rel=0.15
        )
        assert sampling_threshold(rows, rows.entries, team) == 1


def test_thresholds_are_limited_by_the_weights() -> None:
    """A sampled weight is at least the threshold and must fit in 32 bits."""
    assert threshold_of(np.array([0, 2**40]), 1) == MOST_THRESHOLD
    assert threshold_of(np.array([0, 2**30]), 1) == MOST_THRESHOLD
    assert threshold_of(np.array([0, 2**30 - 1]), 1) == MOST_THRESHOLD - 1


@pytest.mark.parametrize("threads", [1, 3])
def test_empty_chunks_do_not_determine_the_threshold(threads: int) -> None:
    """Every eighth of 512 chunks is scanned, and exactly these are empty."""
    rng = np.random.default_rng(0)
    n, wanted = 512, 1000
    busy = np.flatnonzero(np.arange(n) % 8)
    source, target = rng.choice(busy, (2, 20_000))
    graph = MemoryGraph.from_edges(n, source, target, undirected=True, block_size=1)
    rows = StreamedRows(graph, graph.vertex_sizes(), 0)
    assert rows.chunks == n
    assert all(rows.read(index).ids.size == 0 for index in range(0, n, n // LOOKED_AT))
    counts = np.bincount(np.concatenate([rows.read(index).weights for index in range(n)]))
    visited: list[int] = []
    with ThreadTeam(threads) as team:
        threshold = sampling_threshold(rows, wanted, team, visited.append)
        same = np.arange(n, dtype=np.int32)
        coarse = contract_sampled(rows, same, n, threshold, 0, team)
    assert threshold == naive.least_threshold(counts.tolist(), wanted)
    assert sum(visited) == rows.entries
    assert coarse.entries == pytest.approx(wanted, rel=0.15)


def test_a_sample_of_equal_chunks_suffices() -> None:
    rng = np.random.default_rng(1)
    graph = random_graph(rng, 256, largest=9, mean_degree=30, block_size=1)
    rows = StreamedRows(graph, graph.vertex_sizes(), 0)
    visited: list[int] = []
    with ThreadTeam(2) as team:
        threshold = sampling_threshold(rows, rows.entries // 4, team, visited.append)
    assert sum(visited) == pytest.approx(rows.entries / 4, rel=0.2)
    counts = np.bincount(np.concatenate([rows.read(index).weights for index in range(256)]))
    assert threshold == pytest.approx(
        naive.least_threshold(counts.tolist(), rows.entries // 4), rel=0.2
    )


def test_histogram_bins_are_near_the_weights() -> None:
    rng = np.random.default_rng(0)
    weights = np.r_[0, 1, 1, 2**31 - 1, (2 ** rng.uniform(0, 31, 500)).astype(np.int64)]
    known = bin_weights(BINS)
    assert (np.diff(known) > 0).all()
    for weight in weights.tolist():
        counts = np.zeros(BINS, np.int64)
        _histogram(np.array([0, 1]), np.array([weight], np.int32), counts)
        (found,) = np.flatnonzero(counts)
        assert counts[found] == 1
        assert known[found] <= weight <= known[found] * (1 + 2 / FINE)
        assert weight >= FINE or known[found] == weight
