"""Updates that go from worker to worker: the driver sends them to two, and so does each of these.

Nothing depends on it but the bytes out of the driver: who gets an update in this way is named in
the answers, and all others get it from the driver with their next call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from mapper.distributed.state_log import Update

FROM_BYTES = 1 << 20  # of an update; smaller ones are there sooner without another call
FROM_WORKERS = 4  # that need the same
FAN_OUT = 2
WAITS = 30.0  # seconds for each level below, and
SLOWEST = 1e7  # bytes a second more


class Reach(Protocol):
    """What an owner is reached by from other workers."""

    def relay(self, update: Update, down: Sequence[Node]) -> Any:
        """The future of what its method gives."""


class Node(NamedTuple):
    """A worker, by its number and how others reach it, and to whom it passes on what it gets."""

    worker: int
    reach: Reach
    down: tuple[Node, ...]

    @property
    def height(self) -> int:
        """Levels from here down."""
        return 1 + max((node.height for node in self.down), default=0)


def tree(workers: Sequence[tuple[int, Reach]]) -> tuple[Node, ...]:
    """Those to whom the driver sends, and all others below these."""

    def nodes(first: int) -> tuple[Node, ...]:
        places = range(first, min(first + FAN_OUT, len(workers)))
        return tuple(Node(*workers[place], nodes(FAN_OUT * (place + 1))) for place in places)

    return nodes(0)


class Passing:
    """An update on its way to those below a worker."""

    def __init__(self, update: Update, size: int, down: Sequence[Node]) -> None:
        """size : bytes of the update"""
        self._level = WAITS + size / SLOWEST
        self._began = time.monotonic()
        self._calls: list[tuple[Node, Any]] = []
        for node in down:
            with suppress(OSError, RuntimeError):  # it is lost
                self._calls.append((node, node.reach.relay(update, node.down)))

    def arrived(self) -> tuple[list[int], float]:
        """Workers that have it by now, and the processor time that this took them.

        Who is lost, too slow, or fails is not among them, nor are those below it.
        """
        found: list[int] = []
        cpu_seconds = 0.0
        for node, future in self._calls:
            left = self._began + self._level * node.height - time.monotonic()
            with suppress(Exception):
                answer = future.result(timeout=max(0.0, left))
                if answer.error is None:
                    found += [node.worker, *answer.value]
                    cpu_seconds += answer.cpu_seconds
        return found, cpu_seconds
