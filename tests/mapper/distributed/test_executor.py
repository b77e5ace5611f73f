"""Executors: results depend neither on the owners of rows nor on the order of arrival.

The contract of `ShardExecutor` is tested for each implementation: threads of a process,
workers, and
`ScatteredExecutor`, whose owners have only their own rows and received updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam
from mapper.executors.executor import LocalShardExecutor, ShardExecutor
from mapper.executors.shard import Shard, State, entries_of
from mapper.graph.csr import Chunk
from mapper.graph.groups import group_traffic
from mapper.graph.rows import HeldRows, Rows, StreamedRows
from mapper.graph.sampled_contraction import contract_sampled, sampling_threshold
from mapper.monitoring.monitor import Monitor
from mapper.partitioning.kway_refinement import refine_round
from mapper.partitioning.label_propagation import number_clusters, propagate, start_clusters
from mapper.partitioning.multilevel_bisection import BisectionEffort
from mapper.partitioning.recursive_splitting import Splitting, split_parts
from storage.scratch.scratch import Scratch
from tests.mapper.distributed.scattered import ScatteredExecutor
from tests.mapper.distributed.stand_in import GridRows, StandIn, exchange_of
from tests.mapper.helpers import random_graph, random_parts

ExecutorOver = Callable[[Rows, ThreadTeam], ShardExecutor]


@pytest.fixture
def local() -> ExecutorOver:
    return LocalShardExecutor


@pytest.fixture
def scattered() -> ExecutorOver:
    def over(rows: Rows, _: ThreadTeam) -> ShardExecutor:
        return ScatteredExecutor(rows, [(7 * chunk) % 3 for chunk in range(rows.chunks)], 5)

    return over


@pytest.fixture
def on_workers(two_workers: Any) -> ExecutorOver:
    """Return a function that ignores its arguments and uses the rows of these tests."""

    def over(rows: Rows, _: ThreadTeam) -> ShardExecutor:
        found: ShardExecutor = two_workers.executor(
            GridRows(), rows.chunks, rows.entries, Monitor()
        )
        return found

    return over


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[ExecutorOver]:
    """A `RemoteShardExecutor` of the rows of these tests, over in-process workers."""
    with StandIn(tmp_path, 3) as engine:
        yield lambda *_: engine.executor()


@pytest.fixture(
    params=["local", "scattered", "stand_in", pytest.param("on_workers", marks=pytest.mark.jit)]
)
def executor_over(request: pytest.FixtureRequest) -> ExecutorOver:
    """Return a function that creates an executor over rows; add new implementations here."""
    made: ExecutorOver = request.getfixturevalue(request.param)
    return made


# The contract


def place_of(_: Shard, chunk: Chunk, factor: int) -> tuple[int, int]:
    return chunk.first * factor, chunk.vertices


def seen(shard: Shard, chunk: Chunk) -> tuple[list[int], list[int], tuple[Any, ...]]:
    state = shard.state
    return state.part.tolist(), state.loads.tolist(), state.constants


class Numbered:
    """Chunks, labels of their vertices, and entries; see `Gathering`."""

    def __init__(self, shard: Shard, factor: int) -> None:
        self._part, self._factor = shard.state.part, factor
        self._lock = Lock()
        self._found: list[tuple[int, list[int]]] = []
        self._entries = np.zeros((70, 1), np.int64)

    def add(self, chunk: Chunk) -> None:
        with self._lock:
            end = chunk.first + chunk.vertices
            self._found.append((chunk.first, self._part[chunk.first : end].tolist()))
            self._entries += self._factor * entries_of(chunk)

    def result(self) -> tuple[list[tuple[int, list[int]]], NDArray[np.int64]]:
        return sorted(self._found), self._entries


def add_degrees(_: Shard, chunk: Chunk, total: NDArray[np.int64], factor: int) -> None:
    total[0, 0] += factor * int(chunk.indptr[-1] - chunk.indptr[0])
    total[1, 0] += chunk.vertices


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    with Scratch(tmp_path / "scratch") as scratch:
        yield GridRows().open(scratch)


@pytest.mark.heavy
def test_results_come_in_the_order_of_the_chunks(executor_over: ExecutorOver, rows: Rows) -> None:
    chunks = [5, 0, 11, 5, 3]
    visited: list[int] = []
    with ThreadTeam(2) as team:
        executor = executor_over(rows, team)
        found = list(executor.each(place_of, chunks, 2, advance=visited.append))
        assert list(executor.each(place_of, [], 2)) == []
    assert found == [(2 * 7 * chunk, 7) for chunk in chunks]
    entries = [rows.read(chunk).ids.size for chunk in chunks]
    assert visited == entries


@pytest.mark.heavy
def test_all_chunks_are_gathered_once(executor_over: ExecutorOver, rows: Rows) -> None:
    """In contiguous ranges, by owners that have the state."""
    part = np.arange(rows.vertices, dtype=np.int32) * np.int32(3)
    visited: list[int] = []
    with ThreadTeam(2) as team:
        executor = executor_over(rows, team)
        executor.begin(State(part))
        found = list(executor.gather(Numbered, 5, advance=visited.append))
    chunks = [chunk for some, _ in found for chunk in some]
    assert [first for first, _ in chunks] == [7 * index for index in range(rows.chunks)]
    assert [label for _, labels in chunks for label in labels] == part.tolist()
    assert sum(visited) == rows.entries
    entries = sum(sums for _, sums in found)
    assert entries.tolist() == [[5 * rows.entries]] * 70  # type: ignore[union-attr]


def test_each_chunk_is_consumed_once(executor_over: ExecutorOver, rows: Rows) -> None:
    taken: list[tuple[int, int]] = []
    visited: list[int] = []
    with ThreadTeam(2) as team:
        executor_over(rows, team).store(
            place_of, taken.append, range(rows.chunks), 1, advance=visited.append
        )
    assert sorted(first for first, _ in taken) == list(range(0, 108, 7))
    assert sum(visited) == rows.entries


@pytest.mark.parametrize("most", [None, 1])
def test_sums_cover_all_chunks(executor_over: ExecutorOver, rows: Rows, most: int | None) -> None:
    visited: list[int] = []
    with ThreadTeam(2) as team:
        executor = executor_over(rows, team)
        total = executor.sum(
            add_degrees, range(rows.chunks), (2, 3), 4, most=most, advance=visited.append
        )
        assert executor.sum(add_degrees, [], (2, 1), 4).tolist() == [[0], [0]]
    assert total.tolist() == [[4 * rows.entries, 0, 0], [108, 0, 0]]
    assert sum(visited) == rows.entries


def test_all_owners_see_settled_changes(executor_over: ExecutorOver, rows: Rows) -> None:
    part = np.arange(108, dtype=np.int32) % 4
    sizes = np.arange(108) % 5
    loads = np.bincount(part, weights=sizes, minlength=7).astype(np.int64)
    with ThreadTeam(2) as team:
        executor = executor_over(rows, team)
        for vertices in (np.array([3, 50, 107], np.int32), slice(20, 31)):
            executor.begin(State(part, loads, sizes, ("stays",)))
            assert list(executor.each(seen, [0, 9])) == 2 * [
                (part.tolist(), loads.tolist(), ("stays",))
            ]
            part[vertices] += 1
            loads[:] = np.bincount(part, weights=sizes, minlength=7)
            executor.settled(vertices)
            every = list(executor.each(seen, range(rows.chunks)))
            assert every == rows.chunks * [(part.tolist(), loads.tolist(), ("stays",))]


@pytest.mark.sample(19)
@pytest.mark.parametrize("memory", [0, 500, 1 << 20])
@pytest.mark.parametrize("narrow", [True, False])
def test_rows_are_collected_by_label(
    executor_over: ExecutorOver, rows: Rows, narrow: bool, memory: int
) -> None:
    """For all vertices of a label, of which one is empty; in one or several passes."""
    part = np.random.default_rng(memory).choice([0, 1, 2, 4], 108).astype(np.int32)
    visited: list[int] = []
    with ThreadTeam(2) as team:
        executor = executor_over(rows, team)
        executor.begin(State(part, constants=(3,)))
        found = list(executor.exchange(exchange_of(part, narrow, memory), visited.append))
    expected = []
    whole = [rows.read(index) for index in range(rows.chunks)]
    for label in range(5):
        entries = []
        for chunk in whole:
            for i in range(chunk.vertices):
                if part[chunk.first + i] == label:
                    at = slice(chunk.indptr[i], chunk.indptr[i + 1])
                    weights = (3 * chunk.weights[at]).tolist()
                    entries.append((chunk.ids[at].tolist(), weights))
        expected.append((label, entries, [label] * 100))
    assert found == expected
    assert sum(visited) >= rows.entries


def test_an_error_of_a_task_is_raised(executor_over: ExecutorOver, rows: Rows) -> None:
    with ThreadTeam(2) as team, pytest.raises(ZeroDivisionError):
        list(executor_over(rows, team).each(fail, [0, 1, 2]))


def fail(_: Shard, chunk: Chunk) -> float:
    return chunk.first / 0


# Any assignment of chunks to owners, any order of arrival


@st.composite
def cuts(draw: st.DrawFn) -> tuple[StreamedRows, ScatteredExecutor, int]:
    """Draw a graph in many chunks, their owners, and a seed."""
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, draw(st.integers(1, 90)), sizes=3, block_size=draw(st.integers(1, 9)))
    rows = StreamedRows(graph, graph.vertex_sizes(), 0)
    most = draw(st.integers(0, 3))
    owners = draw(st.lists(st.integers(0, most), min_size=rows.chunks, max_size=rows.chunks))
    return rows, ScatteredExecutor(rows, owners, draw(st.integers(0, 99))), seed


def both(
    rows: StreamedRows, executor: ScatteredExecutor, work: Callable[[Rows, ThreadTeam], Any]
) -> tuple[Any, Any]:
    """Return the result of a pass over the rows alone, and with the executor."""
    over = rows.with_sizes(rows.sizes)
    over.executor = executor
    with ThreadTeam(1) as team:
        return work(rows, team), work(over, team)


def held(rows: HeldRows) -> list[list[int]]:
    return [array.tolist() for array in (rows.indptr, rows.ids, rows.weights, rows.sizes)]


few = settings(max_examples=25)


@few
@given(cuts(), st.integers(1, 12))
def test_any_assignment_gives_the_same_clusters(
    cut: tuple[StreamedRows, ScatteredExecutor, int], limit: int
) -> None:
    rows, executor, seed = cut

    def clusters(rows: Rows, team: ThreadTeam) -> list[Any]:
        labels = start_clusters(rows)
        moves = [propagate(rows, labels, limit, seed, index, team) for index in range(3)]
        return [moves, number_clusters(rows, labels, limit, team)[0].tolist(), labels.size.tolist()]

    found, expected = both(rows, executor, clusters)
    assert found == expected


@few
@given(cuts(), st.integers(1, 6), st.integers(0, 1))
def test_any_assignment_gives_the_same_moves(
    cut: tuple[StreamedRows, ScatteredExecutor, int], parts: int, slack: int
) -> None:
    rows, executor, seed = cut
    part = np.random.default_rng(seed).integers(0, parts, rows.vertices).astype(np.int32)
    room = np.bincount(part, weights=rows.sizes, minlength=parts).astype(np.int64) + slack

    def moved(rows: Rows, team: ThreadTeam) -> list[Any]:
        own = part.copy()
        rounds = [
            refine_round(rows, own, room, np.zeros_like(room), seed, index, team)
            for index in range(3)
        ]
        return [rounds, own.tolist()]

    found, expected = both(rows, executor, moved)
    assert found == expected


@pytest.mark.heavy
@few
@given(cuts(), st.integers(1, 9), st.integers(1, 6))
def test_any_assignment_gives_the_same_coarse_graph(
    cut: tuple[StreamedRows, ScatteredExecutor, int], count: int, share: int
) -> None:
    rows, executor, seed = cut
    cluster = np.random.default_rng(seed).integers(0, count, rows.vertices).astype(np.int32)

    def coarse(rows: Rows, team: ThreadTeam) -> list[Any]:
        threshold = sampling_threshold(rows, max(1, rows.entries // share), team)
        return [threshold, held(contract_sampled(rows, cluster, count, threshold, seed, team))]

    found, expected = both(rows, executor, coarse)
    assert found == expected


@pytest.mark.heavy
@few
@given(cuts(), st.integers(1, 5), st.sampled_from([0, 300, 1 << 20]))
def test_any_assignment_gives_the_same_split(
    cut: tuple[StreamedRows, ScatteredExecutor, int], parts: int, memory: int
) -> None:
    rows, executor, seed = cut
    rng = np.random.default_rng(seed)
    part = rng.integers(0, parts, rows.vertices).astype(np.int32)
    cores = rng.integers(1, 5, parts)
    how = Splitting(1, 10**6, BisectionEffort(tries=2, passes=1, smoothing=4), seed)

    def split(rows: Rows, team: ThreadTeam) -> list[Any]:
        return [found.tolist() for found in split_parts(rows, part, cores, how, memory, team)]

    found, expected = both(rows, executor, split)
    assert found == expected


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("memory", [0, 1 << 20])
@pytest.mark.parametrize("seed", range(8))
def test_any_assignment_gives_the_same_traffic(seed: int, memory: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 90)), block_size=4)
    rows = StreamedRows(graph, graph.vertex_sizes(), 0)
    parts = int(rng.integers(1, 6))
    part, _ = random_parts(rng, graph, parts)
    executor = ScatteredExecutor(rows, rng.integers(0, 3, rows.chunks).tolist(), seed)

    def traffic(rows: Rows, team: ThreadTeam) -> list[Any]:
        found = group_traffic(rows, part, parts, memory, tmp_path, team)
        return [found.indptr.tolist(), found.ids.tolist(), found.weights.tolist()]

    found, expected = both(rows, executor, traffic)
    assert found == expected
