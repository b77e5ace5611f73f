"""Time limit of a placement, checked between the slices of every long step."""

from __future__ import annotations

import time

from mapper.concurrency.stop_flag import StopFlag


class TimeUpError(Exception):
    """The time is up, or Ctrl-C was pressed; the results so far remain."""


class Clock:
    """A time limit from now on; without a limit, results do not depend on time.

    limit : seconds, or None
    stop : flag that ends everything at once
    """

    def __init__(self, limit: float | None = None, stop: StopFlag | None = None) -> None:
        self._stop = stop or StopFlag()
        self._end = None if limit is None else time.monotonic() + limit

    def __reduce__(self) -> tuple[type[Clock], tuple[float | None]]:
        """Pickle the remaining time, for another process; it cannot see the stop flag."""
        return Clock, (None if self._end is None else max(0.0, self._end - time.monotonic()),)

    @property
    def limited(self) -> bool:
        return self._end is not None

    def over(self) -> bool:
        return self._stop.asked or (self._end is not None and time.monotonic() >= self._end)

    def begin(self, phase: str) -> None:
        """Set the name of the current phase, for progress."""
        self._stop.phase = phase

    def check(self) -> None:
        """Raise `TimeUpError` if the time is up."""
        if self.over():
            raise TimeUpError


ENDLESS = Clock()
