"""Ordered map over threads with a bounded number of items in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2
"""Items per thread that are submitted before the oldest result is awaited."""


def map_ordered(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Like ``map(work, items)``, computed by ``threads`` threads.

    Kernels release the GIL, so threads suffice. Items are drawn in the caller's thread. The error
    raised is always the first failing item's, regardless of thread timing. With one thread,
    everything runs in the caller.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > threads * AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
