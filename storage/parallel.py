"""Work on blocks in threads, results in order, with a bounded number in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int, ahead: int = 2
) -> Iterator[Result]:
    """Like ``map(work, items)``, computed by `threads` threads, each at most `ahead` items early.

    Inflate, CRC and the numba kernels release the GIL, so threads are enough. With one thread
    everything happens in the caller, in order, and tracebacks stay short.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > threads * ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
