"""How long a placement may take: asked between the pieces of every long step."""

from __future__ import annotations

import time


class TimeUpError(Exception):
    """The time is up; what was found before stays."""


class Clock:
    """A limit of seconds from now on; without one nothing depends on the time.

    limit : seconds, or None
    """

    def __init__(self, limit: float | None = None) -> None:
        self._end = None if limit is None else time.monotonic() + limit

    @property
    def limited(self) -> bool:
        return self._end is not None

    def over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def check(self) -> None:
        """Raise `TimeUpError` if the time is up."""
        if self.over():
            raise TimeUpError


ENDLESS = Clock()
