"""Interface of the engine that starts and reaches worker processes, and its settings of Dask."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mapper.errors import RESUME, ResumableError

if TYPE_CHECKING:
    from mapper.distributed.broadcast import Reach
    from mapper.executors.shared import SharedFolder
    from mapper.executors.worker_interface import RowSource

LOOKS_EVERY = 2.0  # seconds between checks that a worker without answer is alive
# bytes; larger free blocks go back to the system, and blocks of rows are reused at once
KEEP = 1 << 28
MALLOC = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
CACHE = "NUMBA_CACHE_DIR"
HERE = "127.0.0.1"  # loopback interface
PROTOCOL = "tls://"
NO_DASHBOARD = ("--no-dashboard", "--dashboard-address", f"{HERE}:0")

SETTINGS: dict[str, Any] = {
    **{f"distributed.nanny.pre-spawn-environ.{name}": KEEP for name in MALLOC},
    "distributed.comm.compression": False,  # messages are already compressed
    "distributed.worker.memory.target": False,  # mapper plans its memory itself
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.worker-ttl": "30s",
    "distributed.admin.tick.limit": "1h",  # kernels run long without a tick; suppress the warning
    # a worker that restarts slowly is waited for, not given up
    "distributed.deploy.lost-worker-timeout": "1d",
    # nothing is served over HTTP, which has no certificates
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


def environment(more: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings, and more of them, as environment variables of a Dask process."""
    found = {name: str(KEEP) for name in MALLOC}
    for name, value in (SETTINGS | dict(more)).items():
        if not name.startswith("distributed.nanny."):
            key = name.upper().replace(".", "__").replace("-", "_")
            found[f"DASK_{key}"] = str(value)
    found["DASK_LOGGING__DISTRIBUTED"] = "critical"
    if CACHE in os.environ:
        found[CACHE] = os.environ[CACHE]
    return found


def new_account() -> dict[str, float]:
    """Return the totals of a stage, all zero.

    calls : number of calls to all workers; seconds : wall time that the driver waited for them
    cpu_seconds : processor time of the workers; bytes_to, bytes_from : traffic to and from workers
    bytes_shared : bytes written by workers into the shared folder
    """
    amounts = ("calls", "seconds", "cpu_seconds", "bytes_to", "bytes_from", "bytes_shared")
    return dict.fromkeys(amounts, 0)


def all_lost() -> ResumableError:
    """Return the error for a run without workers."""
    return ResumableError(f"--workers: all workers were lost; start new ones and {RESUME}")


class LostError(Exception):
    """A worker was lost: it does not answer."""


class Engine(Protocol):
    """Interface of an engine: starts worker processes and reaches them.

    patience : seconds that a run waits while it has no workers
    lost : addresses of lost workers
    moved : number of shards moved from stragglers to other workers
    shared : folder that all workers see
    exchanged : bytes of rows per worker in an exchange
    """

    patience: float
    lost: list[str]
    moved: int
    exchanged: int

    @property
    def shared(self) -> SharedFolder: ...

    def addresses(self) -> list[str]:
        """Return the addresses of live workers, ascending; raises `ResumableError` if unknown."""

    def some_addresses(self) -> list[str]:
        """Return `addresses()` once there are some; raises `ResumableError` after `patience`."""

    def own(self, address: str, source: RowSource) -> Any:
        """Create an `Owner` on a worker; its methods return futures.

        Raises `LostError` if the worker is lost, or the error of opening the rows.
        """

    def reach(self, address: str, owner: Any) -> Reach:
        """Return a reference through which other workers reach an owner; it can be pickled."""

    def account(self, stage: str, **amounts: float) -> None:
        """Add to the totals of a stage; see `new_account`."""


def result_within(future: Any, seconds: float) -> Any:
    """Return the result of a future; raise `TimeoutError` if it takes longer than `seconds`.

    Dask raises `UnboundLocalError` instead if the timeout first cancels its own wait
    (`distributed.utils.sync` stores only exceptions of the class `Exception`).
    """
    try:
        return future.result(timeout=seconds)
    except UnboundLocalError as error:
        raise TimeoutError(f"no result within {seconds:g} s") from error


def result_of(
    future: Any, address: str, engine: Engine, check: Callable[[], None] = lambda: None
) -> Any:
    """Return the result of a worker's call; raise `LostError`, or an error of `check`.

    future : of the call; None if the call could not be sent
    check : called about once per second while waiting
    """
    looked = time.monotonic()
    ended = False
    while future is not None:
        try:
            return result_within(future, 1.0)
        except TimeoutError as error:
            if ended:  # the timeout is the call's own error
                raise LostError(address) from error
            ended = future.done()  # it may have finished just after the timeout
            if ended:
                continue
            check()
            if time.monotonic() - looked > LOOKS_EVERY:
                if address not in engine.addresses():  # its connection may still be open
                    raise LostError(address) from error
                looked = time.monotonic()
        except (OSError, RuntimeError) as error:
            raise LostError(address) from error
    raise LostError(address)
