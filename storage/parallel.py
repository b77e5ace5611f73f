"""Work on blocks in threads, results in order, with a bounded number in flight."""

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
    """Like ``map(work, items)``, computed by `threads` threads, each at most `ahead` items early.

    Inflate, CRC and the numba kernels release the GIL, so threads are enough. With one thread
    everything happens in the caller, in order, and tracebacks stay short.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from stream(pool, work, items, threads * ahead)


def stream(
    pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """Results one by one, in the order of the items, at most `ahead` of them early.

    The error that is raised is that of the first item that fails; what has begun has ended then.
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
