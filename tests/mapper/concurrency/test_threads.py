"""Teams of threads: order, errors and shutdown are the same for any number of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from mapper.concurrency.threads import ThreadTeam, WorkspacePool

THREADS = (1, 2, 3)


@pytest.fixture(params=THREADS)
def team(request: pytest.FixtureRequest) -> Iterator[ThreadTeam]:
    with ThreadTeam(request.param) as made:
        yield made


def slow_first(item: int) -> int:
    """The first items take longest, so threads finish out of order."""
    time.sleep(max(0, 4 - item) / 1000)
    return item * item


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_results_come_in_the_order_of_the_items(count: int, team: ThreadTeam) -> None:
    expected = [item * item for item in range(count)]
    assert team.map(slow_first, range(count)) == expected
    assert list(team.stream(slow_first, range(count))) == expected
    assert team.map(slow_first, iter(range(count))) == expected


def test_the_first_error_is_raised_and_the_team_continues(team: ThreadTeam) -> None:
    def fail(item: int) -> int:
        if item >= 3:
            time.sleep((10 - item) / 1000)  # later ones fail earlier
            raise ValueError(f"item {item}")
        return item

    with pytest.raises(ValueError, match="item 3"):
        team.map(fail, range(8))
    found = []
    with pytest.raises(ValueError, match="item 3"):
        for result in team.stream(fail, range(8)):
            found.append(result)  # noqa: PERF402  # what came before the error counts
    assert found == [0, 1, 2]
    assert team.map(slow_first, range(3)) == [0, 1, 4]


def test_no_task_is_running_when_an_error_is_raised(team: ThreadTeam) -> None:
    """Started tasks have ended, and others never start: their arrays may be freed."""
    at_work: set[int] = set()
    started: list[int] = []

    def work(item: int) -> None:
        at_work.add(item)
        started.append(item)
        if item == 0:
            at_work.remove(item)
            raise ValueError("item 0")
        time.sleep(0.02)
        at_work.remove(item)

    with pytest.raises(ValueError, match="item 0"):
        team.map(work, range(100))
    assert at_work == set()
    count = len(started)
    assert count < 100
    time.sleep(0.03)
    assert (len(started), at_work) == (count, set())


def test_an_error_of_the_items_passes_through(team: ThreadTeam) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more items")

    with pytest.raises(OSError, match="no more items"):
        list(team.stream(slow_first, items()))
    with pytest.raises(OSError, match="no more items"):
        team.map(slow_first, items())


def test_a_stream_runs_at_most_two_items_per_thread_ahead(team: ThreadTeam) -> None:
    started: list[int] = []

    def note(item: int) -> int:
        started.append(item)
        return item

    for taken in team.stream(note, range(60)):
        time.sleep(0.0005)
        assert len(started) <= taken + 2 * team.threads + 1


def test_an_abandoned_stream_starts_no_more_items(team: ThreadTeam) -> None:
    started: list[int] = []

    def note(item: int) -> int:
        started.append(item)
        time.sleep(0.001)
        return item

    stream = team.stream(note, range(1000))
    assert next(stream) == 0
    stream.close()  # type: ignore[attr-defined]
    count = len(started)
    assert count <= 2 * team.threads + 1
    time.sleep(0.01)
    assert len(started) <= count + team.threads


def test_work_is_shared_by_all_threads() -> None:
    meeting = threading.Barrier(3, timeout=120)
    with ThreadTeam(3) as team:
        met = list(team.map(lambda _: meeting.wait(), range(3)))  # would time out with fewer
    assert sorted(met) == [0, 1, 2]


def test_no_thread_remains() -> None:
    before = threading.active_count()
    with ThreadTeam(3) as team:
        team.map(slow_first, range(9))
        assert threading.active_count() > before
    assert threading.active_count() == before
    with pytest.raises(ZeroDivisionError), ThreadTeam(2) as team:
        team.map(lambda item: 1 // item, range(5))
    assert threading.active_count() == before


def test_spares_equal_the_concurrent_uses() -> None:
    made: list[list[int]] = []

    def make() -> list[int]:
        made.append([])
        return made[-1]

    workspaces = WorkspacePool(make)
    with workspaces.borrow() as a, workspaces.borrow() as b:
        assert a is not b
    with workspaces.borrow() as c:
        assert any(c is thing for thing in made)
    with pytest.raises(KeyError), workspaces.borrow():
        raise KeyError
    with workspaces.borrow(), workspaces.borrow():
        pass
    assert len(made) == 2


@pytest.mark.parametrize("threads", THREADS)
def test_spares_are_never_shared(threads: int) -> None:
    workspaces: WorkspacePool[list[int]] = WorkspacePool(list)
    seen: set[int] = set()

    def use(item: int) -> None:
        with workspaces.borrow() as thing:
            assert not thing
            thing.append(item)
            seen.add(id(thing))
            time.sleep(0.0005)
            assert thing.pop() == item

    with ThreadTeam(threads) as team:
        team.map(use, range(60))
    assert len(seen) <= threads
