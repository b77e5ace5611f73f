"""Cost of a call of workers with empty tasks, for `bench_workers.py`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mapper.distributed.start import start_workers
from mapper.executors.shard import State
from mapper.executors.worker_interface import Asked
from mapper.graph.network_rows import NetworkRows
from mapper.monitoring.monitor import Monitor
from storage.blobs.access import StoreAccess
from storage.store.network import NetworkFile


def nothing(*_: Any) -> None:
    """Do nothing (an empty task)."""


def milliseconds_of_a_step(path: Path, folder: Path, calls: int) -> float:
    """Return the median milliseconds of a call of two workers, each with a chunk of cached rows."""
    with NetworkFile(path) as network:
        source = NetworkRows(path, network.identity, StoreAccess(), 0, 1, network.connections)
        chunks, entries = network.block_count, network.connections
    took = []
    with start_workers(Asked(2), folder) as workers, Monitor() as monitor:
        executor = workers.executor(source, chunks, entries, monitor)
        executor.begin(State.none())
        for _ in range(calls):
            start = time.perf_counter()
            list(executor.each(nothing, range(2)))
            took.append(time.perf_counter() - start)
        workers.close()
    return 1000 * sorted(took)[calls // 2]
