"""Settings of the engine, for processes that are started here or elsewhere."""

from __future__ import annotations

import os
from typing import Any

KEEP = 1 << 28  # bytes of a free block that a process keeps: blocks of rows come again at once
MALLOC = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
CACHE = "NUMBA_CACHE_DIR"

SETTINGS: dict[str, Any] = {
    **{f"distributed.nanny.pre-spawn-environ.{name}": KEEP for name in MALLOC},
    "distributed.comm.compression": False,  # what is sent is packed
    "distributed.worker.memory.target": False,  # mapper plans its memory itself
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.worker-ttl": "30s",
    "distributed.admin.tick.limit": "1h",  # kernels are long; nobody need hear of it
}


def environment() -> dict[str, str]:
    """The settings as variables of the environment of a process of the engine."""
    found = {name: str(KEEP) for name in MALLOC}
    for name, value in SETTINGS.items():
        if not name.startswith("distributed.nanny."):
            key = name.upper().replace(".", "__").replace("-", "_")
            found[f"DASK_{key}"] = str(value)
    found["DASK_LOGGING__DISTRIBUTED"] = "critical"
    if CACHE in os.environ:
        found[CACHE] = os.environ[CACHE]
    return found
