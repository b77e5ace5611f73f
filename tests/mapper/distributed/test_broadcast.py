"""Updates are broadcast between workers; workers that miss an update get it from the driver."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.distributed import broadcast, owners
from mapper.distributed.broadcast import Broadcast, BroadcastNode, tree
from mapper.distributed.owner import Answer
from mapper.distributed.start import start_workers
from mapper.distributed.state_log import StateLog, Update
from mapper.executors.executor import EachTask
from mapper.executors.shard import Shard, State
from mapper.executors.worker_interface import Asked
from mapper.graph.csr import Chunk
from tests.mapper.distributed.conftest import Mapped
from tests.mapper.distributed.stand_in import GridRows, StandIn

CHUNKS = range(16)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Seven workers that broadcast every update; the driver does not wait for lost ones."""
    monkeypatch.setattr(owners, "COMES_BACK_WITHIN", 0.0)
    monkeypatch.setattr(broadcast, "FROM_BYTES", 1)
    with StandIn(tmp_path, 7) as made:
        yield made


def seen(shard: Shard, _: Chunk) -> tuple[list[int], list[int]]:
    return shard.state.part.tolist(), shard.state.loads.tolist()


class Course:
    """A state with several changes, as seen by the workers, and the bytes sent."""

    def __init__(self, engine: StandIn) -> None:
        executor = engine.executor()
        part = np.arange(108, dtype=np.int32) % 4
        loads = np.bincount(part, minlength=9)
        executor.begin(State(part, loads, np.ones(108, np.int64)))
        self.right, self.sent = True, []
        for vertices in (np.array([3, 50, 107], np.int32), slice(20, 61), slice(0, 108)):
            for _ in range(2):
                before = engine.amounts["bytes_to"]
                found = list(executor.each(seen, CHUNKS))
                self.right &= found == len(CHUNKS) * [(part.tolist(), loads.tolist())]
                self.sent.append(engine.amounts["bytes_to"] - before)
            part[vertices] += 1
            loads[:] = np.bincount(part, minlength=9)
            executor.settled(vertices)


def test_two_of_seven_get_updates_from_the_driver(
    engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call of each pair has no update, which counts as 8 bytes per worker."""
    passed_on = Course(engine)
    monkeypatch.setattr(broadcast, "FROM_BYTES", 1 << 20)
    direct = Course(engine)
    assert passed_on.right
    assert direct.right
    for place in (0, 2, 4):
        plain = direct.sent[place + 1]
        assert passed_on.sent[place + 1] == plain
        update = (direct.sent[place] - plain) // 7 + 8
        assert direct.sent[place] == plain + 7 * (update - 8)
        assert passed_on.sent[place] == plain + 2 * update
        assert update > 8


def test_few_workers_get_updates_from_the_driver(engine: StandIn, tmp_path: Path) -> None:
    methods: set[str] = set()
    (tmp_path / "few").mkdir()
    with StandIn(tmp_path / "few", 3) as few:
        few.before = lambda _, method: methods.add(method)
        assert Course(few).right
    assert methods == {"each"}
    engine.before = lambda _, method: methods.add(method)
    assert Course(engine).right
    assert methods == {"each", "broadcast"}


@pytest.mark.sample(8)
@pytest.mark.parametrize("victim", range(7))
@pytest.mark.parametrize("replaced", [True, False])
def test_a_lost_forwarder(engine: StandIn, victim: int, replaced: bool) -> None:
    """Workers below it also see the settled changes."""

    def lose(address: str, method: str) -> None:
        called = (address, method) == (f"worker-{victim}", "broadcast")
        if called and address in engine.addresses():
            engine.lose(address, replaced)

    engine.before = lose
    assert Course(engine).right
    assert engine.lost == [f"worker-{victim}"]


def test_an_outdated_worker_gets_its_own_update(engine: StandIn) -> None:
    """It had no tasks while the others received updates."""
    executor = engine.executor()
    part = np.arange(108, dtype=np.int32) % 4
    executor.begin(State(part))
    for chunks in (CHUNKS, range(5), CHUNKS):
        assert list(executor.each(seen, chunks)) == len(chunks) * [(part.tolist(), [])]
        part[2:9] += 1
        executor.settled(slice(2, 9))


class Dumb:
    """A worker with a given answer: an answer, none, or an immediate error."""

    def __init__(self, answer: Answer | Exception | None) -> None:
        self._answer = answer

    def broadcast(self, *_: Any) -> Future[Answer]:
        future: Future[Answer] = Future()
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is not None:
            future.set_result(self._answer)
        return future


def test_workers_without_an_answer_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "WAITS", 0.01)
    answers = (
        Answer([7, 8], cpu_seconds=0.5), None, OSError(), Answer(None, MemoryError()),
        Answer([], cpu_seconds=0.25),
    )  # fmt: skip
    nodes = [BroadcastNode(worker, Dumb(answer), ()) for worker, answer in enumerate(answers)]
    assert Broadcast(Update(1, None, ()), 0, nodes).arrived() == ([0, 7, 8, 4], 0.75)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 20])
def test_a_tree_has_each_worker_once(count: int) -> None:
    """No node has more than two children, and the height is minimal."""
    top = tree([(worker, Dumb(None)) for worker in range(count)])
    found, level, levels = [], list(top), 0
    assert len(top) <= 2
    while level:
        found += [node.worker for node in level]
        assert all(len(node.down) <= 2 for node in level)
        level = [below for node in level for below in node.down]
        levels += 1
    assert found == list(range(count))
    assert levels == max((node.height for node in top), default=0)
    assert 2**levels - 2 < count or not count


@pytest.mark.parametrize("late", [False, True])
def test_late_updates_change_nothing(engine: StandIn, late: bool) -> None:
    """A broadcast update that arrives before or after one of the driver with the same content."""
    owner = engine.own("worker-0", GridRows())
    state_log, part = StateLog(), np.zeros(108, np.int32)
    loads = np.bincount(part, minlength=9)
    state_log.begin(State(part, loads, np.ones(108, np.int64)))
    updates = [state_log.since(0)]
    for label in (3, 5):
        part[10 * label : 60] = label
        state_log.settled(slice(0, 108))
        updates.append(state_log.since(1))
    first, passed_on, direct = updates
    for update in (first, direct, passed_on) if late else (first, passed_on, direct):
        assert owner.update(update).result().error is None
    ((found,), _) = owner.run(None, EachTask(parts_and_loads, [0], ())).result().value
    assert found == (part.tolist(), np.bincount(part, minlength=9).tolist())


def parts_and_loads(shard: Shard, chunk: Chunk) -> tuple[list[int], list[int]]:
    return seen(shard, chunk)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_four_processes_broadcast_updates(
    mapped: Mapped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    expected = mapped()
    sent = []
    with start_workers(Asked(4), tmp_path) as workers:
        for least in (1 << 20, 1):
            monkeypatch.setattr(broadcast, "FROM_BYTES", least)
            workers.stages.clear()
            assert mapped(workers).tolist() == expected.tolist()
            sent.append(sum(stage["bytes_to"] for stage in workers.stages.values()))
        assert not workers.lost
    assert sent[1] < 0.9 * sent[0]
