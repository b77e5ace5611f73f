"""Settings of Dask for processes that mapper or the user starts."""

from __future__ import annotations

import os
from typing import Any

# bytes; larger free blocks go back to the system, and blocks of rows are reused at once
KEEP = 1 << 28
MALLOC = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
CACHE = "NUMBA_CACHE_DIR"

SETTINGS: dict[str, Any] = {
    **{f"distributed.nanny.pre-spawn-environ.{name}": KEEP for name in MALLOC},
    "distributed.comm.compression": False,  # messages are already compressed
    "distributed.worker.memory.target": False,  # mapper plans its memory itself
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.worker-ttl": "30s",
    "distributed.admin.tick.limit": "1h",  # kernels run long without a tick; suppress the warning
}


def environment() -> dict[str, str]:
    """Return the settings as environment variables of a Dask process."""
    found = {name: str(KEEP) for name in MALLOC}
    for name, value in SETTINGS.items():
        if not name.startswith("distributed.nanny."):
            key = name.upper().replace(".", "__").replace("-", "_")
            found[f"DASK_{key}"] = str(value)
    found["DASK_LOGGING__DISTRIBUTED"] = "critical"
    if CACHE in os.environ:
        found[CACHE] = os.environ[CACHE]
    return found
