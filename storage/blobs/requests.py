"""Requests to a store, which end when too few bytes arrive within the timeout.

Store clients limit either the duration of a whole request, which a large range on a slow line
exceeds, or the pause between two bytes, which a server that sends one byte per second never
exceeds. Here the limit is progress: at least `SLOWEST` bytes per second in each timeout period.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError
from threading import Lock, Thread
from typing import Any, NamedTuple

from storage.closing import Closing

SLOWEST = 1 << 10  # bytes per second


class StalledError(Exception):
    """Too few bytes arrived within the timeout."""


class ObjectRange(NamedTuple):
    """A range of an object. size : bytes of the whole object"""

    size: int
    data: bytearray


class Requests(Closing):
    """Range reads of one object for any number of threads, run in a separate thread.

    `obstore` waits in native code, which cannot be interrupted, unless it is called from an event
    loop. A separate loop also serves callers whose thread already runs one.
    """

    def __init__(
        self, get: Callable[[Any], Any], seconds: float, again: Callable[[Exception], bool]
    ) -> None:
        """get : starts a request for a range; signature of `obstore.get_async`
        seconds : period without progress that ends a request
        again : whether a request that failed with this error is retried
        """
        self._get = get
        self._seconds = seconds
        self._again = again
        self._least = max(1, round(SLOWEST * seconds))  # bytes per period
        self._lock = Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="store", daemon=True)
        self._thread.start()

    def read(self, wanted: Any) -> ObjectRange:
        """Return a range, given as `obstore` describes it. Safe to call from several threads.

        A failed request is retried once within the current timeout period.
        Raises `StalledError` without progress, and the error of `obstore` if the request fails.
        """
        with self._lock:
            if self._closed:
                raise CancelledError
            work = asyncio.run_coroutine_threadsafe(self._read(wanted), self._loop)
        try:
            return work.result()
        except BaseException:  # such as Ctrl-C: the caller no longer waits
            work.cancel()
            raise

    async def _read(self, wanted: Any) -> ObjectRange:
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                try:
                    return await self._once(wanted, limit)
                except Exception as error:
                    if not self._again(error):
                        raise
                    return await self._once(wanted, limit)
        except TimeoutError as error:
            if limit.expired():
                raise StalledError(
                    f"fewer than {self._least:,} bytes in {self._seconds:g} s"
                ) from error
            raise

    async def _once(self, wanted: Any, limit: asyncio.Timeout) -> ObjectRange:
        found = await self._get(wanted)
        start, end = found.range
        data, at = bytearray(end - start), 0
        # pieces of at least this size, except the last: each is the progress of one period
        async for piece in found.stream(self._least):
            view = memoryview(piece)
            data[at : at + len(view)] = view
            at += len(view)
            limit.reschedule(self._loop.time() + self._seconds)
        if at != end - start:
            raise OSError(f"{at:,} bytes received of {end - start:,}")
        return ObjectRange(int(found.meta["size"]), data)

    def close(self) -> None:
        """Cancel all pending requests."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()
        self._loop.close()

    def _stop(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        ended = asyncio.gather(*tasks, return_exceptions=True)
        ended.add_done_callback(lambda _: self._loop.stop())
