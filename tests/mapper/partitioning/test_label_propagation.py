"""Label propagation: kernels against references, invariants of clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import HeldRows, Rows, StreamedRows
from mapper.partitioning import proposals
from mapper.partitioning.label_propagation import (
    _match_two_hop,
    _propose,
    cluster_vertices,
    propagate,
    start_clusters,
)
from mapper.partitioning.proposals import (
    WORTH_SHARING,
    Labels,
    join_in_order,
    join_together,
    label_ranges,
)
from tests.mapper.helpers import adjacency, grid_graph, random_graph, random_parts, rows_of
from tests.reference import streamed as naive


@pytest.mark.parametrize("seed", range(40))
def test_propose_and_join(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    rows = rows_of(random_graph(rng, n, largest=3, sizes=3))
    labels = start_clusters(rows)
    cluster, held = labels.cluster.tolist(), labels.size.tolist()
    sizes, limit = rows.sizes.tolist(), int(rng.integers(1, 12))
    pull, touched = np.zeros(n, np.int32), np.empty(n, np.int32)
    target, joined = np.empty(n, np.int32), np.full(n, -1, np.int32)
    favourite = np.empty(n, np.int32)
    for stamp in range(4):
        salt = int(rng.integers(2**62))
        twin_joined: set[int] = set()
        for index in range(rows.chunks):
            chunk = rows.read(index)
            seen = labels._replace(favourite=favourite[chunk.first :])
            _propose(chunk, rows.sizes, seen, limit, salt, pull, touched, target[chunk.first :])
            assert not pull.any()
            for v, links in enumerate(adjacency(*chunk[1:]), chunk.first):
                expected = naive.propose(v, links, sizes, cluster, held, limit, salt)
                assert (target[v], favourite[v]) == expected
        for some in np.array_split(np.flatnonzero(target != cluster).astype(np.int32), 2):
            moved = join_in_order(some, target[some], rows.sizes, labels, limit, joined, stamp)
            assert moved == naive.join(
                some.tolist(), sizes, cluster, held, limit, target.tolist(), twin_joined
            )
        assert labels.cluster.tolist() == cluster
        assert labels.size.tolist() == held


class Step(NamedTuple):
    """Labels, and a step of proposals (vertex, label)."""

    sizes: list[int]
    cluster: list[int]
    proposals: list[tuple[int, int]]
    limit: int
    salt: int


@st.composite
def some_steps(draw: st.DrawFn) -> Step:
    """A label is one of its vertices; proposals name labels of other clusters, in any order."""
    n = draw(st.integers(2, 24))
    sizes = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    cluster = draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    if draw(st.booleans()):  # all single
        cluster = list(range(n))
    wanted = draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    proposing = draw(st.permutations(range(n)))[: draw(st.integers(0, n))]
    proposals = [(v, wanted[v]) for v in proposing if wanted[v] != cluster[v]]
    return Step(sizes, cluster, proposals, draw(st.integers(1, 12)), draw(st.integers(0, 2**62)))


def settled(step: Step, threads: int = 1) -> tuple[np.ndarray, np.ndarray, int]:
    """Apply the proposals of a step together; return clusters, their sizes, and the number of
    moves.
    """
    n, sizes = len(step.sizes), np.array(step.sizes)
    held = np.bincount(step.cluster, weights=sizes, minlength=n).astype(np.int64)
    labels = Labels(np.array(step.cluster, np.int32), held, np.empty(0, np.int32))
    vertices, targets = np.array(sorted(step.proposals), np.int32).reshape(-1, 2).T.copy()
    joined = np.zeros(n, np.bool_)
    with pytest.MonkeyPatch.context() as patch, ThreadTeam(threads) as team:
        patch.setattr(proposals, "WORTH_SHARING", 1)
        moved = join_together(vertices, targets, sizes, labels, step.limit, step.salt, joined, team)
    assert not joined.any()
    return labels.cluster, held, moved


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@given(some_steps(), st.integers(1, 4))
def test_proposals_are_applied_together(step: Step, threads: int) -> None:
    """Equals the reference, which applies proposals in any order; one range of labels per
    thread.
    """
    before = np.bincount(step.cluster, weights=step.sizes, minlength=len(step.sizes))
    held, cluster = before.astype(int).tolist(), list(step.cluster)
    moved = naive.join_together(
        dict(step.proposals), step.sizes, cluster, held, step.limit, step.salt
    )
    found = settled(step, threads)
    assert (found[0].tolist(), found[1].tolist(), found[2]) == (cluster, held, moved)


@pytest.mark.heavy
@given(some_steps())
def test_no_cluster_grows_above_the_limit(step: Step) -> None:
    cluster, held, moved = settled(step)
    sizes = np.array(step.sizes)
    before = np.bincount(step.cluster, weights=sizes, minlength=sizes.size)
    assert held.tolist() == np.bincount(cluster, weights=sizes, minlength=sizes.size).tolist()
    assert (held <= np.maximum(before, step.limit)).all()
    proposed = dict(step.proposals)
    changed = np.flatnonzero(cluster != step.cluster)
    assert all(cluster[v] == proposed[v] for v in changed)
    assert changed.size == moved


@given(some_steps())
def test_no_two_single_vertices_swap(step: Step) -> None:
    cluster, _, _ = settled(step)
    members = np.bincount(step.cluster, minlength=cluster.size)
    for v, to in step.proposals:
        for u, back in step.proposals:
            alone = members[step.cluster[v]] == members[step.cluster[u]] == 1
            if alone and to == step.cluster[u] and back == step.cluster[v]:
                assert (cluster[v], cluster[u]) != (to, back)


def test_of_two_mutual_proposals_the_salt_drops_one() -> None:
    found = {
        tuple(settled(Step([1, 1], [0, 1], [(0, 1), (1, 0)], 2, salt))[0]) for salt in range(9)
    }
    assert found == {(0, 0), (1, 1)}


@pytest.mark.parametrize("seed", range(40))
def test_match_two_hop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    graph = random_graph(rng, n, sizes=3)
    cluster, held = random_parts(rng, graph, n)
    favourite = rng.integers(-1, max(1, n // 4), n).astype(np.int32)
    sizes, limit = graph.vertex_sizes(), int(rng.integers(1, 10))
    twin_cluster, twin_held = cluster.tolist(), held.tolist()
    before = np.maximum(held, limit)
    waiting = np.full(n + 1, -1, np.int32)
    for some in label_ranges(n + 1, WORTH_SHARING, 3 if sizes.min() > 0 else 1):
        _match_two_hop(sizes, Labels(cluster, held, favourite), limit, some, waiting)
    naive.match_two_hop(sizes.tolist(), twin_cluster, twin_held, limit, favourite.tolist())
    assert (cluster.tolist(), held.tolist()) == (twin_cluster, twin_held)
    assert held.tolist() == [int(sizes[cluster == c].sum()) for c in range(n)]
    assert (held <= before).all()


def check(rows: Rows, cluster: np.ndarray, count: int, limit: int) -> None:
    """Labels have no gaps; only a single vertex may exceed the limit."""
    assert cluster.dtype == np.int32
    assert np.unique(cluster).tolist() == list(range(count))
    held = np.bincount(cluster, weights=rows.sizes, minlength=count)
    single = np.bincount(cluster, weights=rows.sizes > 0, minlength=count) <= 1
    assert ((held <= limit) | single).all()


@pytest.mark.parametrize("seed", range(12))
def test_clusters_keep_the_limit_and_are_the_same_for_any_threads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 400)), sizes=4, block_size=13)
    limit, rounds = int(rng.integers(1, 20)), int(rng.integers(1, 4))
    rows = rows_of(graph)
    found = []
    for threads in (1, 2, 3):
        with ThreadTeam(threads) as team:
            cluster, count = cluster_vertices(rows, limit, rounds, seed, team)
        check(rows, cluster, count, limit)
        found.append(cluster.tolist())
    assert found[0] == found[1] == found[2]
    with ThreadTeam(2) as team:
        streamed = StreamedRows(graph, graph.vertex_sizes(), 0)
        check(streamed, *cluster_vertices(streamed, limit, rounds, seed, team), limit)


def test_cliques_become_clusters() -> None:
    """Eight cliques of eight on a ring: by weight each becomes one cluster."""
    pairs = [(8 * k + i, 8 * k + j) for k in range(8) for i in range(8) for j in range(i)]
    ring = [(8 * k, (8 * k + 8) % 64) for k in range(8)]
    source, target = np.array(pairs + ring).T
    from storage.store.memory import MemoryGraph

    rows = rows_of(MemoryGraph.from_edges(64, source, target, undirected=True))
    with ThreadTeam(2) as team:
        cluster, count = cluster_vertices(rows, 8, 5, 1, team)
    assert count <= 12
    assert sum(cluster[i] == cluster[j] for i, j in pairs) > 0.9 * len(pairs)


def test_a_grid_shrinks_and_visits_are_counted() -> None:
    rows = rows_of(grid_graph(40, 40))
    visited: list[int] = []
    with ThreadTeam(2) as team:
        _, count = cluster_vertices(rows, 5, 3, 0, team, visited.append)
    assert sum(visited) == 3 * rows.entries
    assert 1600 / 5 <= count < 1600 / 2.5


def test_leaves_of_a_star_gather() -> None:
    """Two-hop matching: leaves that do not fit in the hub's cluster pair up."""
    from storage.store.memory import MemoryGraph

    n = 301
    rows = rows_of(
        MemoryGraph.from_edges(n, np.zeros(n - 1, int), np.arange(1, n), undirected=True)
    )
    with ThreadTeam(1) as team:
        cluster, count = cluster_vertices(rows, 4, 3, 0, team)
    check(rows, cluster, count, 4)
    assert count <= 0.55 * n


def test_vertices_without_connections_gather_up_to_the_limit() -> None:
    none = np.empty(0, np.int32)
    rows = HeldRows(np.zeros(101, np.int64), none, none, np.ones(100, np.int64))
    with ThreadTeam(1) as team:
        cluster, count = cluster_vertices(rows, 10, 1, 0, team)
        labels = start_clusters(rows)
        assert propagate(rows, labels, 10, 0, 0, team) == 0
    assert count == 10
    assert np.bincount(cluster).tolist() == [10] * 10


def test_zero_sizes_and_sizes_above_the_limit() -> None:
    graph = random_graph(np.random.default_rng(0), 50, mean_degree=6)
    sizes = np.array([0, 1, 9, 2, 0] * 10)
    indptr, ids, weights = graph.read_all().undirected()
    rows = HeldRows(indptr, ids, weights.astype(np.int32), sizes)
    with ThreadTeam(1) as team:
        cluster, count = cluster_vertices(rows, 4, 3, 0, team)
    check(rows, cluster, count, 4)
