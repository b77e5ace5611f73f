"""Parallel processing in threads, with ordered results and a bounded number in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int, ahead: int = 2
) -> Iterator[Result]:
    """Like ``map(work, items)`` with `threads` threads, each at most `ahead` items ahead.

    Inflate, CRC and the numba kernels release the GIL, so threads suffice. With one thread
    everything runs in the caller, in order, which keeps tracebacks short.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from stream(pool, work, items, threads * ahead)


def stream(
    pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """Yield results in the order of the items, at most `ahead` of them submitted in advance.

    Raises the error of the first failing item, after all started items have ended.
    """
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        wait(pending)
