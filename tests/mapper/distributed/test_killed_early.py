"""Local workers killed while they start, before the first calls, and at random moments."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest

from mapper.distributed.start import start_workers
from mapper.errors import ResumableError
from mapper.executors.worker_interface import Asked
from tests.mapper.distributed.conftest import Mapped

pytest.importorskip("cryptography")
pytest.importorskip("distributed")

pytestmark = pytest.mark.jit


def processes() -> list[psutil.Process]:
    """Return the worker processes of this process."""
    found = []
    for one in psutil.Process().children():
        with suppress(psutil.Error):
            if "from multiprocessing.spawn import" in " ".join(one.cmdline()):
                found.append(one)
    return found


def kill(count: int) -> None:
    for one in processes()[:count]:
        with suppress(psutil.Error):
            one.kill()
            one.wait(10)


@contextmanager
def meanwhile(act: Callable[[Event], object]) -> Iterator[None]:
    """Run a function in a thread until the block ends; it gets the event of the end."""
    ended = Event()
    thread = Thread(target=act, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("age", [0.0, 0.7])
def test_workers_killed_while_they_start(
    mapped: Mapped, count: int, age: float, tmp_path: Path
) -> None:
    """They are started again. `age` : seconds of a process when it is killed."""

    def kill_first(ended: Event) -> None:
        while len(processes()) < count and not ended.is_set():
            time.sleep(0.01)
        time.sleep(age)
        kill(count)

    expected = mapped()
    with meanwhile(kill_first), start_workers(Asked(2), tmp_path) as workers:
        end = time.monotonic() + 60
        while len(workers.addresses()) < 2:  # one may be killed after it has registered
            assert time.monotonic() < end
            time.sleep(0.05)
        assert mapped(workers).tolist() == expected.tolist()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_workers_that_never_start(tmp_path: Path) -> None:
    """One line, and a run that can be resumed."""

    def kill_all(ended: Event) -> None:
        while not ended.is_set():
            kill(2)
            time.sleep(0.05)

    line = r"^--workers: no process has started \(Nanny failed .*\); continue with --resume$"
    with meanwhile(kill_all), pytest.raises(ResumableError, match=line):
        start_workers(Asked(2), tmp_path)
    assert not (tmp_path / "workers").exists()


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("method", ["run_on_all", "some_workers", "executor", "own"])
def test_workers_killed_before_a_call(
    mapped: Mapped, method: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions are compared, sizes requested, the executor created, and its owners."""
    from mapper.distributed.dask import DaskWorkers

    original, killed = getattr(DaskWorkers, method), []

    def kill_and_call(self: Any, *given: Any, **named: Any) -> Any:
        if not killed:
            killed.extend(processes()[:count])
            kill(count)
        return original(self, *given, **named)

    expected = mapped()
    monkeypatch.setattr(DaskWorkers, method, kill_and_call)
    with start_workers(Asked(2), tmp_path) as workers:
        assert workers.threads() == 1
        assert workers.limits()
        assert mapped(workers).tolist() == expected.tolist()
    assert len(killed) == count


def total(numbers: range) -> int:
    return sum(numbers)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_ranges_without_a_worker(tmp_path: Path) -> None:
    """The tasks wait for a worker: none is left out."""
    with start_workers(Asked(2), tmp_path) as workers:
        kill(2)
        assert sum(workers.ranges(total, 100)) == 4950


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("seed", range(4))
def test_workers_killed_at_a_random_moment(mapped: Mapped, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)

    def kill_some(ended: Event) -> None:
        ended.wait(rng.uniform(0.0, 4.0))
        kill(rng.choice([1, 2]))

    expected = mapped()
    with meanwhile(kill_some), start_workers(Asked(2), tmp_path) as workers:
        assert mapped(workers).tolist() == expected.tolist()
