"""Reading ahead where each request takes long: neighbouring pieces come in one range.

Blocks of a network are read one after the other, by several threads, a megabyte each. Whoever reads
behind what was just read gets a whole page, and those behind it are on their way; whoever reads
anywhere else gets what was asked for alone. (As operating systems do with files.)
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from storage.closing import Closing

IN_FLIGHT = 8
LARGEST_PAGE, SMALLEST_PAGE = 16 << 20, 1 << 18  # bytes
BEHIND = 2  # pages that threads may still be reading
DEFAULT_BUFFER = 64 << 20
SHARE = 64  # this part of the memory of a run may be pages, and about as much what makes them


def buffer_of(memory: int) -> int:
    """Bytes of pages where a run may take so much memory."""
    return min(memory // SHARE, LARGEST_PAGE * (IN_FLIGHT + BEHIND))


class ReadAhead(Closing):
    """Ranges of something that is read by threads, mostly from front to back.

    fetch : reads a range: first byte, and how many; called by up to `IN_FLIGHT` threads
    size : bytes in all; buffer : bytes that pages may take, besides what is asked for
    """

    def __init__(self, fetch: Callable[[int, int], memoryview], size: int, buffer: int) -> None:
        self._fetch = fetch
        self._size = size
        self.page = max(SMALLEST_PAGE, min(LARGEST_PAGE, buffer // (IN_FLIGHT + BEHIND)))
        self._pages: dict[int, Future[memoryview]] = {}
        self._next = 0  # page that is read next if all goes on
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def read(self, start: int, size: int) -> bytes:
        """A range, fewer bytes where all end. Safe to call from several threads."""
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
        """Pages from the first to the last, with those behind them on their way."""
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
            del self._pages[number]  # whoever waits for it has it
        return found

    def forget(self) -> None:
        """Let go of what was read ahead."""
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
