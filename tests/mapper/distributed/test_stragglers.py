"""Stragglers hand over shards after each pass, and results do not change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.distributed import owners, stragglers
from mapper.distributed.start import start_workers
from mapper.distributed.stragglers import Stragglers
from mapper.executors.executor import EachTask
from mapper.executors.shard import Shard, State
from mapper.executors.shards import Shards
from mapper.executors.worker_interface import Asked
from mapper.graph.csr import Chunk
from mapper.monitoring.monitor import Monitor
from tests.mapper.distributed.conftest import Mapped
from tests.mapper.distributed.stand_in import GridRows, StandIn, exchange_of

PART = np.random.default_rng(1).integers(0, 5, 108).astype(np.int32)
CHUNKS = range(16)


def passes(made: Stragglers, *seconds: float) -> dict[int, float]:
    """Run a pass in which workers have equal numbers of entries and the given seconds."""
    for worker, taken in enumerate(seconds):
        made.add(worker, taken, 100)
    return {worker: round(factor, 9) for worker, factor in made.found().items()}


# Detection


def test_three_consecutive_passes() -> None:
    made = Stragglers(300)
    assert [passes(made, 1, 1, 4), passes(made, 1, 1, 5)] == [{}, {}]
    assert passes(made, 1, 1, 3.9) == {}  # the count starts again
    assert [passes(made, 1, 1, 4), passes(made, 1, 1, 5)] == [{}, {}]
    assert passes(made, 1, 1, 6) == {2: 6.0}
    assert passes(made, 1, 1, 7) == {2: 7.0}
    assert made.slow == {2}
    assert passes(made, 1, 1, 2) == {}
    assert made.slow == set()


def test_a_pass_covers_all_entries() -> None:
    """In any number of calls; seconds are per entry."""
    made = Stragglers(300)
    for _ in range(3):
        made.add(0, 1.0, 200)
        made.add(1, 1.0, 20)
        assert made.found() == {}
        made.add(1, 1.0, 20)
        made.add(2, 0.6, 100)
        found = made.found()
    assert found == {1: pytest.approx(0.05 / 0.006)}  # the other one takes 0.005


def test_two_workers_are_compared_with_each_other() -> None:
    made = Stragglers(200)
    found = [passes(made, 8, 2) for _ in range(3)]
    assert found == [{}, {}, {0: 4.0}]


def test_one_worker_is_never_slow() -> None:
    made = Stragglers(100)
    assert [passes(made, 50) for _ in range(5)] == [{}] * 5


def test_a_short_delay_does_not_make_a_straggler() -> None:
    made = Stragglers(300)
    assert [passes(made, 0.01, 0.01, 0.9) for _ in range(5)] == [{}] * 5


def test_a_straggler_without_shards_stays_one() -> None:
    made = Stragglers(200)
    for _ in range(3):
        passes(made, 1, 1, 9)
    assert passes(made, 1, 1) == {}
    assert made.slow == {2}
    made.forget(2)
    assert made.slow == set()


def test_a_replacement_starts_from_zero() -> None:
    made = Stragglers(300)
    for _ in range(2):
        passes(made, 1, 1, 9)
    made.add(2, 100.0, 50)
    made.forget(2)
    assert [passes(made, 1, 1, 9) for _ in range(3)][:2] == [{}, {}]
    assert made.slow == {2}


@given(st.lists(st.lists(st.integers(1, 99), min_size=2, max_size=5), min_size=1, max_size=9))
def test_some_worker_is_always_fast(seconds: list[list[int]]) -> None:
    """A worker with the median time is not a straggler, so shards have a recipient."""
    made = Stragglers(200)
    for taken in seconds:
        found = passes(made, *taken)
        assert set(found) <= made.slow
        assert len(found) < len(taken)
        assert all(factor >= 4 for factor in found.values())


# Transfer of shards


def test_shards_go_to_the_worker_with_fewest() -> None:
    shards = Shards(chunks=20, entries=10**9, owners=3)
    assert [shards.held(owner) for owner in range(3)] == [7, 7, 6]
    assert shards.give_away(0, [1, 2], 3) == 3
    assert [shards.held(owner) for owner in range(3)] == [4, 8, 8]
    moved = []
    while shards.held(0):
        moved.append(shards.give_away(0, [1, 2], 3))
    assert moved == [2, 1, 1]
    assert [shards.held(owner) for owner in range(3)] == [0, 10, 10]
    assert shards.give_away(0, [1, 2], 3) == 0


# Workers


class Log(Monitor):
    """Monitor that records log lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[StandIn]:
    """Three workers, the second nine times slower than the others."""
    with StandIn(tmp_path, 3) as made:
        made.pace = {"worker-0": 1.0, "worker-1": 9.0, "worker-2": 1.0}
        yield made


def first_of(_: Shard, chunk: Chunk) -> int:
    return chunk.first


def add_degrees(_: Shard, chunk: Chunk, total: np.ndarray) -> None:
    total += np.diff(chunk.indptr).sum()


def sleep(_: Shard, chunk: Chunk) -> None:
    time.sleep(0.05)


def test_a_straggler_hands_over_its_shards(engine: StandIn) -> None:
    log = Log()
    executor = engine.executor(log)
    at_work: dict[str, int] = {}

    def count(address: str, method: str) -> None:
        at_work[address] = at_work.get(address, 0) + 1

    engine.before = count
    moved = []
    for _ in range(7):
        assert list(executor.each(first_of, CHUNKS)) == [7 * chunk for chunk in CHUNKS]
        moved.append(engine.moved)
    assert moved == [0, 0, 2, 3, 4, 5, 5]  # a third of five, rounded up
    assert at_work == {"worker-0": 7, "worker-1": 6, "worker-2": 7}
    assert log.lines[0] == (
        "  worker worker-1 is 9.0 times slower than the median: 2 of its 5 shards move to others"
    )
    assert len(log.lines) == 4


def test_a_recovered_worker_keeps_its_shards(engine: StandIn) -> None:
    executor = engine.executor()
    for _ in range(3):
        list(executor.each(first_of, CHUNKS))
    engine.pace["worker-1"] = 1.0
    for _ in range(5):
        list(executor.each(first_of, CHUNKS))
    assert engine.moved == 2


def test_all_tasks_give_the_same_results(engine: StandIn, tmp_path: Path) -> None:
    """Also sums and exchanges; home workers are the others."""
    (tmp_path / "quiet").mkdir()
    with StandIn(tmp_path / "quiet", 2) as quiet:
        expected = results(quiet)
    homes: list[str] = []

    def watch(address: str, method: str) -> None:
        if method == "finish" and engine.moved:
            homes.append(address)

    engine.before = watch
    assert results(engine) == expected
    assert engine.moved == 5
    assert set(homes) == {"worker-0", "worker-2"}


def results(engine: StandIn) -> list[Any]:
    executor = engine.executor()
    executor.begin(State(PART, constants=(3,)))
    return [
        (
            list(executor.each(first_of, CHUNKS)),
            executor.sum(add_degrees, CHUNKS, (1,)).tolist(),
            list(executor.exchange(exchange_of(PART))),
        )
        for _ in range(4)
    ]


def test_shards_of_a_lost_worker_go_to_fast_workers(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "COMES_BACK_WITHIN", 0.0)
    executor = engine.executor()
    for _ in range(7):
        list(executor.each(first_of, CHUNKS))
    engine.lose("worker-0")
    at_work: list[str] = []
    engine.before = lambda address, _: at_work.append(address)
    for _ in range(2):
        assert list(executor.each(first_of, CHUNKS)) == [7 * chunk for chunk in CHUNKS]
    assert engine.lost == ["worker-0"]
    assert set(at_work) == {"worker-0", "worker-2"}
    engine.lose("worker-2")
    assert list(executor.each(first_of, CHUNKS)) == [7 * chunk for chunk in CHUNKS]
    assert at_work[-1] == "worker-1"


@pytest.mark.heavy
def test_a_worker_reports_its_time(tmp_path: Path) -> None:
    """At least the sleep of two threads, which uses no processor time; and the number of
    entries.
    """
    with StandIn(tmp_path, 1) as engine:
        reached = engine.own("worker-0", GridRows())
        answer = reached.run(None, EachTask(sleep, list(CHUNKS), ())).result()
        assert answer.seconds > 0.3
        assert answer.cpu_seconds < answer.seconds
        assert answer.entries == GridRows().open(None).entries  # type: ignore[arg-type]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_constant_handover_changes_nothing(
    mapped: Mapped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between processes: the slower worker of a pass hands shards to the other."""
    pytest.importorskip("distributed")
    for name, value in (("FACTOR", 1.01), ("PASSES", 1), ("WORTH", 0.0)):
        monkeypatch.setattr(stragglers, name, value)
    expected = mapped()
    with start_workers(Asked(2), tmp_path) as workers:
        assert mapped(workers).tolist() == expected.tolist()
        assert workers.facts()["moved"] > 0
