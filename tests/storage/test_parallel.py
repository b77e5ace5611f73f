"""Ordered parallel processing in threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from storage.parallel import map_ordered


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_order_and_number_in_flight(threads: int, ahead: int) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(40):
            taken += 1
            yield item

    def work(item: int) -> int:
        time.sleep(0.001 * (item % 3))  # so that later items finish earlier
        return item * item

    most = 0
    found: list[int] = []
    for result in map_ordered(work, items(), threads, ahead):
        most = max(most, taken - len(found))
        found.append(result)
    assert found == [item * item for item in range(40)]
    assert most <= max(1, threads * ahead + 1)


def test_work_is_distributed() -> None:
    """Two items wait for each other in two threads; a single thread would block for ever."""
    meeting = threading.Barrier(2, timeout=120)
    assert list(map_ordered(lambda item: meeting.wait() >= 0, range(2), 2)) == [True, True]


@pytest.mark.parametrize("threads", [1, 3])
def test_exceptions_of_the_work(threads: int) -> None:
    def work(item: int) -> int:
        if item >= 5:
            raise ValueError(f"item {item}")
        return item

    found: list[int] = []
    with pytest.raises(ValueError, match=r"^item 5$"):
        for result in map_ordered(work, range(100), threads):
            found.append(result)  # noqa: PERF402
    assert found == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("threads", [1, 3])
def test_exceptions_of_the_items(threads: int) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(map_ordered(abs, items(), threads))


@pytest.mark.parametrize("threads", [1, 3])
def test_closed_early(threads: int) -> None:
    before = threading.active_count()
    done: list[int] = []

    def work(item: int) -> int:
        done.append(item)
        return item

    results = map_ordered(work, range(10**9), threads)
    assert [next(results), next(results)] == [0, 1]
    results.close()  # type: ignore[attr-defined]
    assert len(done) <= 2 + threads * 2
    assert threading.active_count() == before
    assert list(results) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_to_do(threads: int) -> None:
    assert list(map_ordered(abs, [], threads)) == []
