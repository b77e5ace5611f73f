"""Owner: the actor on a worker, with its rows, a copy of the state, and threads.

It holds no unique data: another worker can read the rows from the store again, and the driver has
the state.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.distributed.broadcast import Broadcast, BroadcastNode
from mapper.distributed.engine import KEEP, MALLOC
from mapper.distributed.state_log import Update, updated
from mapper.executors.executor import LocalShardExecutor, WorkerTask
from mapper.executors.sent import nbytes
from mapper.executors.shard import State
from mapper.executors.shared import SharedPlace
from mapper.executors.worker_interface import RowSource
from mapper.monitoring.resources import peak_rss_bytes
from mapper.version import version
from storage.scratch.scratch import Scratch


class Answer(NamedTuple):
    """Answer of a worker: a value, or an error that the driver raises. Other errors end the worker.

    cpu_seconds, seconds : processor time and wall time of the call
    entries : number of entries read
    """

    value: Any
    error: Exception | None = None
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    entries: int = 0


class About(NamedTuple):
    """Description of a process; its versions must match the driver.

    keeps_memory : whether the allocator keeps large free blocks
    """

    host: str
    versions: tuple[tuple[str, str], ...]
    peak_rss_bytes: int
    keeps_memory: bool


def about() -> About:
    """Describe this process."""
    versions = (("mapper", version()), ("numpy", np.__version__), ("numba", numba.__version__))
    keeps = all(os.environ.get(name, "").isdecimal() for name in MALLOC) and all(
        int(os.environ[name]) >= KEEP for name in MALLOC
    )
    return About(socket.gethostname(), versions, peak_rss_bytes(), keeps)


class Owner:
    """Rows of some shards in a private folder; one owner per worker."""

    def __init__(
        self, source: RowSource, threads: int, folder: str, shared: SharedPlace | None
    ) -> None:
        """folder : on a local disk; shared : folder this worker must see, if rows are exchanged."""
        self._version = 0
        self._state = State.none()
        self._team = ThreadTeam(threads)
        self._folder = tempfile.TemporaryDirectory(prefix="mapper-", dir=folder)
        self._scratch = Scratch(Path(self._folder.name) / "scratch", lasting=False)
        self._source, self._shared = source, shared
        self._executor: LocalShardExecutor | None = None

    def open(self) -> Answer:
        """Open the rows."""
        try:
            if self._shared is not None:
                self._shared.require_seen()
            self._executor = LocalShardExecutor(self._source.open(self._scratch), self._team)
        except Exception as error:
            return Answer(None, error)
        return Answer(None)

    def update(self, update: Update) -> Answer:
        """Update the state to a version; older updates are ignored."""
        if update.version > self._version:
            whole = update.whole is not None
            self._state = updated(self._state, update)
            self._version = update.version
            if whole and self._executor is not None:
                self._executor.begin(self._state)
        return Answer(None)

    def broadcast(self, update: Update, down: Sequence[BroadcastNode]) -> Answer:
        """Update the state and pass the update on; answers the workers below that have it."""
        start = time.process_time()
        broadcast = Broadcast(update, nbytes(update), down)
        try:
            self.update(update)
        except Exception as error:
            return Answer(None, error)
        cpu_seconds = time.process_time() - start
        found, below = broadcast.arrived()
        return Answer(found, cpu_seconds=cpu_seconds + below)

    def run(self, update: Update | None, task: WorkerTask) -> Answer:
        """Run a task; the value has its answer, and the number of entries of each chunk read."""
        start, began = time.process_time(), time.perf_counter()
        entries: list[int] = []
        try:
            if update is not None:
                self.update(update)
            assert self._executor is not None, "the owner is not open"
            value = task.answer(self._executor, entries.append), entries
            cpu_seconds, seconds = time.process_time() - start, time.perf_counter() - began
            return Answer(value, None, cpu_seconds, seconds, sum(entries))
        except Exception as error:
            return Answer(None, error)

    def close(self) -> Answer:
        """Delete all files and return the description of this process."""
        self._team.close()
        self._scratch.close()
        self._folder.cleanup()
        return Answer(about())
