"""Contract of `Rows`. Add another way to read a graph to WAYS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import (
    MEAN_BITS,
    ROW_LIMIT,
    HeldRows,
    Rows,
    StreamedRows,
    _narrow,
    hold,
    weight_shift,
)
from mapper.monitoring.monitor import Monitor
from mapper.partitioning.streamed import open_rows
from storage.graph import Graph
from storage.scratch.scratch import Scratch
from storage.store.memory import MemoryGraph
from storage.store.network import NetworkFile
from tests.mapper.helpers import Links, adjacency, links_of, lists_of, random_graph, write_network
from tests.reference import streamed as naive

Way = Callable[[Graph, int, Path], Rows]


def streamed(graph: Graph, shift: int, folder: Path) -> Rows:
    return StreamedRows(graph, graph.vertex_sizes(), shift)


def held(graph: Graph, shift: int, folder: Path) -> Rows:
    with ThreadTeam(1) as team:
        return hold(streamed(graph, shift, folder), team, lambda done: None)


def opened(held: bool) -> Way:
    def way(graph: Graph, shift: int, folder: Path) -> Rows:
        scratch = Scratch(folder / "scratch")  # stays open while the rows are read
        with ThreadTeam(2) as team:
            return open_rows(graph, shift, held, scratch, Monitor(), team)

    return way


WAYS = {
    "streamed": streamed,
    "held": held,
    "opened, held": opened(True),
    "opened, streamed": opened(False),
}


@pytest.fixture(params=list(WAYS.values()), ids=list(WAYS))
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


def narrowed(graph: MemoryGraph, shift: int) -> Links:
    return [naive.narrow(links, shift, int(ROW_LIMIT)) for links in lists_of(graph)]


def check_chunks(rows: Rows, expected: Links, sizes: list[int]) -> None:
    """Chunks hold all rows in order; `entries` is at least their number; sizes equal the
    graph's.
    """
    assert rows.vertices == len(expected)
    assert rows.sizes.tolist() == sizes
    assert rows.entries >= sum(map(len, expected))
    found: Links = []
    for index in range(rows.chunks):
        chunk = rows.read(index)
        assert (chunk.first, chunk.vertices) == (len(found), chunk.indptr.size - 1)
        assert chunk.indptr.dtype == np.int64
        assert chunk.ids.dtype == np.int32
        assert chunk.weights.dtype == np.int32
        found += adjacency(chunk.indptr, chunk.ids, chunk.weights)
    assert found == expected
    assert rows.degrees().tolist() == [len(links) for links in expected]
    assert rows.degrees().dtype == np.int32
    assert all(sum(w for _, w in links) < 2**31 for links in found)


@pytest.mark.parametrize("vertices", [1, 2, 9, 60, 200])
@pytest.mark.parametrize("block_size", [1, 7, 64])
def test_the_same_graph_gives_the_same_rows(
    vertices: int, block_size: int, way: Way, tmp_path: Path
) -> None:
    rng = np.random.default_rng([vertices, block_size])
    graph = random_graph(rng, vertices, largest=900, sizes=4, block_size=block_size)
    for shift in (0, 3):
        folder = tmp_path / str(shift)
        folder.mkdir()
        rows = way(graph, shift, folder)
        check_chunks(rows, narrowed(graph, shift), graph.vertex_sizes().tolist())


def test_both_directions_of_a_pair_are_one_entry(way: Way, tmp_path: Path) -> None:
    path = write_network(tmp_path / "net.bin", [(0, 1), (1, 0), (2, 1)], 4, [5, 6, 7])
    with NetworkFile(path) as network:
        rows = way(network, 0, tmp_path)
        assert links_of(rows) == [[(1, 11)], [(0, 11), (2, 7)], [(1, 7)], []]
        assert rows.sizes.tolist() == [1] * 4


def test_weights_that_overflow_a_row(way: Way, tmp_path: Path) -> None:
    """The sum of a row is below 2^31 for any weights of the network."""
    star = np.arange(1, 12)
    graph = MemoryGraph.from_edges(
        12, np.zeros(11, int), star, np.full(11, 2**45), undirected=True, block_size=5
    )
    rows = way(graph, 4, tmp_path)
    check_chunks(rows, narrowed(graph, 4), [1] * 12)
    assert sum(w for _, w in links_of(rows)[0]) > 2**30


def test_chunks_may_be_read_by_several_threads(way: Way, tmp_path: Path) -> None:
    graph = random_graph(np.random.default_rng(3), 300, block_size=7)
    rows = way(graph, 0, tmp_path)
    with ThreadTeam(3) as team:
        chunks = list(team.stream(rows.read, list(range(rows.chunks)) * 4))
    expected = links_of(rows)
    for chunk in chunks:
        lists = adjacency(chunk.indptr, chunk.ids, chunk.weights)
        assert lists == expected[chunk.first : chunk.first + chunk.vertices]


@pytest.mark.parametrize("threads", [1, 3])
def test_reading_into_memory_visits_every_entry_once(threads: int) -> None:
    graph = random_graph(np.random.default_rng(0), 90, block_size=8)
    visited: list[int] = []
    with ThreadTeam(threads) as team:
        rows = hold(StreamedRows(graph, graph.vertex_sizes(), 0), team, visited.append)
    assert sum(visited) == rows.entries == graph.read_all().undirected()[1].size


def test_an_existing_copy_in_scratch_is_reused(tmp_path: Path) -> None:
    graph = random_graph(np.random.default_rng(0), 40, block_size=8)
    first = opened(False)(graph, 0, tmp_path)
    again = opened(False)
    expected = links_of(first)
    first._packed._scratch.close()  # type: ignore[attr-defined]

    def unread(index: int) -> None:
        raise AssertionError("the network was read again")

    graph.read_block = unread  # type: ignore[assignment,method-assign]
    assert links_of(again(graph, 0, tmp_path)) == expected


def test_large_graphs_have_chunks_of_many_vertices() -> None:
    n = 2000
    none = np.empty(0, np.int32)
    rows = HeldRows(np.zeros(n + 1, np.int64), none, none, np.ones(n, np.int64))
    assert 32 <= rows.chunks <= 40
    assert sum(rows.read(index).vertices for index in range(rows.chunks)) == n


@pytest.mark.parametrize("seed", range(30))
def test_narrow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 20)), largest=int(2 ** rng.integers(1, 50)))
    indptr, ids, weights = graph.read_all().undirected()
    shift, limit = int(rng.integers(0, 12)), np.int64(rng.integers(40, 2**31))
    out = np.empty(ids.size, np.int32)
    _narrow(indptr, weights, shift, limit, out)
    assert adjacency(indptr, ids, out) == [
        naive.narrow(links, shift, int(limit)) for links in lists_of(graph)
    ]


def test_weight_shift() -> None:
    assert weight_shift(0, 0) == 0
    assert weight_shift(0, 5) == 0
    for mean in (1, 7, 255, 256, 257, 10**6, 2**40):
        shift = weight_shift(mean * 11, 11)
        assert (mean >> shift).bit_length() == min(mean.bit_length(), MEAN_BITS)
        assert shift == 0 or mean >> (shift - 1) >= 2**MEAN_BITS
