"""Prefetch for sources with a long latency per request: neighbouring pieces share one request.

Several threads read consecutive blocks of a network, about a megabyte each. A read that continues
the previous one fetches a whole page, and the following pages are prefetched. Any other read
fetches only the requested range. (Operating systems prefetch files in the same way.)
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from storage.closing import Closing

IN_FLIGHT = 8
LARGEST_PAGE, SMALLEST_PAGE = 16 << 20, 1 << 18  # bytes
BEHIND = 2  # preceding pages, which threads may still be reading
DEFAULT_BUFFER = 64 << 20
SHARE = 64  # 1/SHARE of the run's memory holds pages; requests in flight need about as much again


def buffer_of(memory: int) -> int:
    """Return the bytes of pages for a run with the given memory budget in bytes."""
    return min(memory // SHARE, LARGEST_PAGE * (IN_FLIGHT + BEHIND))


class ReadAhead(Closing):
    """Ranges of a source that threads read mostly from front to back.

    fetch : reads a range, given first byte and length; called by up to `IN_FLIGHT` threads
    size : bytes of the source; buffer : bytes for pages, in addition to the requested ranges
    """

    def __init__(self, fetch: Callable[[int, int], memoryview], size: int, buffer: int) -> None:
        self._fetch = fetch
        self._size = size
        self.page = max(SMALLEST_PAGE, min(LARGEST_PAGE, buffer // (IN_FLIGHT + BEHIND)))
        self._pages: dict[int, Future[memoryview]] = {}
        self._next = 0  # next page of a sequential read
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def read(self, start: int, size: int) -> bytes:
        """Return a range, fewer bytes at the end. Safe to call from several threads."""
        size = min(size, self._size - start)
        if size <= 0:
            return b""
        first, last = start // self.page, (start + size - 1) // self.page
        with self._lock:
            known = all(number in self._pages for number in range(first, last + 1))
            follows = first in (self._next - 1, self._next) and last - first < IN_FLIGHT
            pages = self._ahead(first, last) if known or follows else None
            if pages is None:
                self._next = last + 1
        if pages is None:
            return bytes(self._fetch(start, size))
        at = start - first * self.page
        parts = []
        for page in pages:
            parts.append(page.result()[at : at + size])
            size -= len(parts[-1])
            at = 0
        return b"".join(parts)

    def _ahead(self, first: int, last: int) -> list[Future[memoryview]]:
        """Return futures of pages `first` to `last`, and prefetch the following pages."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(IN_FLIGHT)
        count = -(-self._size // self.page)
        self._next = max(self._next, last + 1)
        for number in range(first, min(count, max(last + 1, self._next - 1 + IN_FLIGHT))):
            if number not in self._pages:
                start = number * self.page
                size = min(self.page, self._size - start)
                self._pages[number] = self._pool.submit(self._fetch, start, size)
        found = [self._pages[number] for number in range(first, last + 1)]
        wanted = range(min(first, self._next - BEHIND), max(last + 1, self._next + IN_FLIGHT))
        for number in [one for one in self._pages if one not in wanted]:
            del self._pages[number]  # threads that wait for it hold a reference
        return found

    def forget(self) -> None:
        """Drop the prefetched pages."""
        with self._lock:
            self._pages.clear()

    def close(self) -> None:
        with self._lock:
            for page in self._pages.values():
                page.cancel()
            self._pages.clear()
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
