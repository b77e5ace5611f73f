"""Team of threads that processes blocks, with the same result for any number of threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, TypeVar

from mapper.concurrency.stop_flag import StopFlag
from storage.closing import Closing
from storage.parallel import stream

Item = TypeVar("Item")
Result = TypeVar("Result")
Thing = TypeVar("Thing")


class ThreadTeam(Closing):
    """Runs a function on many items; results are in the order of the items.

    Threads suffice because kernels release the GIL. One pool lives as long as the team: levels take
    hundreds of short rounds, for which starting threads would dominate. The stop flag is checked
    before each item.
    """

    def __init__(self, threads: int, stop: StopFlag | None = None) -> None:
        self.threads = threads
        self.stop = stop or StopFlag()
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return all results; the first error is raised after all started calls have ended."""
        work = self._stoppable(work)
        if self._pool is None:
            return [work(item) for item in items]
        return list(stream(self._pool, work, items, sys.maxsize))

    def stream(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield results in order, at most two per thread ahead of the consumer."""
        work = self._stoppable(work)
        if self._pool is None:
            yield from map(work, items)
            return
        yield from stream(self._pool, work, items, 2 * self.threads)

    def _stoppable(self, work: Callable[[Item], Result]) -> Callable[[Item], Result]:
        def checked(item: Item) -> Result:
            self.stop.check()
            return work(item)

        return checked

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


class WorkspacePool(Generic[Thing]):
    """Workspaces that threads borrow and return; never more than running threads.

    A copy sent to another process starts empty.
    """

    def __init__(self, make: Callable[[], Thing]) -> None:
        self._make = make
        self._free: list[Thing] = []

    def __reduce__(self) -> tuple[type[WorkspacePool[Thing]], tuple[Callable[[], Thing]]]:
        return type(self), (self._make,)

    @contextmanager
    def borrow(self) -> Iterator[Thing]:
        try:
            thing = self._free.pop()
        except IndexError:
            thing = self._make()
        try:
            yield thing
        finally:
            self._free.append(thing)
