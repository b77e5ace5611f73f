"""Functions in separate processes: results, deaths, and the end of the processes."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from mapper.concurrency.processes import Calls


def test_results_come_in_order() -> None:
    with Calls(abs, [-3, 2, -1]) as calls:
        assert calls.results() == [3, 2, 1]


def test_references_nested_too_deeply_have_no_result() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with Calls(len, [deep, [1, 2]]) as calls:
        assert calls.results() == [None, 2]


def test_a_process_that_fails_has_no_result() -> None:
    """One ends, and one raises an error."""
    with Calls(os._exit, [1, "x"]) as calls:
        assert calls.results() == [None, None]


@pytest.mark.parametrize("asked", [True, False])
def test_processes_end_with_the_statement(asked: bool) -> None:
    def alive() -> set[int]:
        return {one.pid for one in psutil.Process().children()}

    before = alive()
    with pytest.raises(KeyboardInterrupt), Calls(time.sleep, [100, 100]) as calls:
        assert len(alive() - before) == len(calls._processes)
        if asked:  # they have begun to work
            time.sleep(0.5)
        raise KeyboardInterrupt
    assert alive() == before
