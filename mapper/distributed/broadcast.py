"""Broadcast of updates through a binary tree of workers, to reduce the traffic of the driver.

Answers name the workers that received the update; the others get it from the driver with their next
call. Results do not depend on the broadcast.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from mapper.distributed.state_log import Update

FROM_BYTES = 1 << 20  # bytes; smaller updates arrive sooner with the next call
FROM_WORKERS = 4  # workers that need the same update
FAN_OUT = 2
WAITS = 30.0  # seconds per level of the tree, plus
SLOWEST = 1e7  # transfer time at this rate, bytes per second


class Reach(Protocol):
    """Reference to an owner, used by other workers."""

    def broadcast(self, update: Update, down: Sequence[BroadcastNode]) -> Any:
        """Return the future of `Owner.broadcast`."""


class BroadcastNode(NamedTuple):
    """Node of the tree: a worker's number, its reference, and the nodes that it sends to."""

    worker: int
    reach: Reach
    down: tuple[BroadcastNode, ...]

    @property
    def height(self) -> int:
        """Number of levels from this node down."""
        return 1 + max((node.height for node in self.down), default=0)


def tree(workers: Sequence[tuple[int, Reach]]) -> tuple[BroadcastNode, ...]:
    """Return the nodes that the driver sends to, with all others below them."""

    def nodes(first: int) -> tuple[BroadcastNode, ...]:
        places = range(first, min(first + FAN_OUT, len(workers)))
        return tuple(
            BroadcastNode(*workers[place], nodes(FAN_OUT * (place + 1))) for place in places
        )

    return nodes(0)


class Broadcast:
    """An update on its way to the nodes below a worker."""

    def __init__(self, update: Update, size: int, down: Sequence[BroadcastNode]) -> None:
        """size : bytes of the update."""
        self._level = WAITS + size / SLOWEST
        self._began = time.monotonic()
        self._calls: list[tuple[BroadcastNode, Any]] = []
        for node in down:
            with suppress(OSError, RuntimeError):  # the worker is lost
                self._calls.append((node, node.reach.broadcast(update, node.down)))

    def arrived(self) -> tuple[list[int], float]:
        """Return the workers that have received the update, and their processor time in seconds.

        Workers that are lost, too slow or failing are left out, and so are the nodes below them.
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
