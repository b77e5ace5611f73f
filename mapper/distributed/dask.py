"""Dask engine: runs owners and tasks on the workers of a connection.

Only this module, `mapper.distributed.connection` and `mapper.distributed.clusters` import Dask.
Each worker runs one actor, an `Owner`; `mapper.distributed.owners` handles the loss of workers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from distributed import Actor, CancelledError, KilledWorker

from mapper.distributed.connection import LOOKS_EVERY, DaskConnection, quietly
from mapper.distributed.engine import LostError, new_account, result_of, result_within
from mapper.distributed.owner import Owner, about
from mapper.distributed.remote import RemoteShardExecutor
from mapper.errors import MapperError, ResumableError, nothing_kept
from mapper.executors.shared import SharedFolder, require_seen
from mapper.executors.worker_interface import Asked, RowSource
from mapper.monitoring.callbacks import ignore
from mapper.monitoring.monitor import Monitor

EXCHANGED = 1 << 28  # bytes of rows per worker in an exchange, unless a plan sets another limit
TASKS = 4  # block ranges per thread


class Elsewhere(NamedTuple):
    """Reference to an `Owner` on another worker; implements `Reach`."""

    address: str
    key: str

    def broadcast(self, *arguments: Any) -> Any:
        """Call `broadcast` through an actor created in this thread, where it finds its worker."""
        return Actor(Owner, self.address, self.key).broadcast(*arguments)


class DaskWorkers(DaskConnection):
    """Dask workers of a run; implements `Workers` and `Engine`."""

    def __init__(self, asked: Asked, folder: Path, check: Callable[[], None] = ignore) -> None:
        super().__init__(asked, folder, check)
        self.exchanged = EXCHANGED
        self._given, self._work = asked.shared, folder
        self._shared: SharedFolder | None = None
        self.stages: dict[str, dict[str, float]] = {}
        self.lost: list[str] = []
        self.moved = 0
        self._executor: RemoteShardExecutor | None = None
        self._peaks: dict[str, int] = {}

    def addresses(self) -> list[str]:
        return sorted(self.workers())

    def some_addresses(self) -> list[str]:
        return sorted(self.some_workers())

    def share(self, exchanged: int) -> SharedFolder:
        """Return the shared folder and set the memory limit of exchanges.

        exchanged : bytes of rows per worker in an exchange
        Raises `UsageError` as `shared` does.
        """
        self.exchanged = exchanged
        return self.shared

    @property
    def shared(self) -> SharedFolder:
        """The folder that all workers see; created on first use.

        Raises `UsageError` if it is not writable, or if a worker does not see it.
        """
        if self._shared is None:
            made = SharedFolder(self._given, self._work)
            self._held.callback(made.close)
            self.run_on_all(made.place.require_seen)
            self._shared = made
        return self._shared

    def executor(
        self, source: RowSource, chunks: int, entries: int, monitor: Monitor
    ) -> RemoteShardExecutor:
        if self._executor is not None:
            self._executor.close()  # its state and rows are no longer needed
        self._executor = RemoteShardExecutor(self, source, chunks, entries, monitor)
        return self._executor

    def own(self, address: str, source: RowSource) -> Any:
        about_it = self.workers().get(address)
        if about_it is None:
            raise LostError(address)
        folder = self._folder or about_it["local_directory"]
        place = self.shared.place if source.exchanged else None
        try:
            with self.client.as_current():  # the actor uses the current client
                made = self.client.submit(
                    Owner, source, about_it["nthreads"], folder, place, actor=True,
                    workers=[address], allow_other_workers=False, pure=False,
                )  # fmt: skip
                owner = result_of(made, address, self)
                answer = result_of(owner.open(), address, self)
        except (OSError, RuntimeError) as error:
            raise LostError(address) from error
        if answer.error is not None:
            raise answer.error
        return owner

    def reach(self, address: str, owner: Any) -> Elsewhere:
        return Elsewhere(address, owner.key)

    def ranges(self, work: Callable[..., Any], count: int, *arguments: Any) -> Iterator[Any]:
        """Yield `work(range, *arguments)` of consecutive ranges that cover 0 .. count-1, in order.

        If a worker is lost, another one repeats its range, at most three times. Errors of `work`
        are raised here; raises `MapperError` if all workers or the scheduler are lost.
        """
        for path in arguments:
            if isinstance(path, Path):
                self.run_on_all(require_seen, path)
        pieces = TASKS * sum(int(one["nthreads"]) for one in self.some_workers().values())
        ends = np.linspace(0, count, min(max(1, count), pieces) + 1).astype(int).tolist()
        with self.client.as_current(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about large arguments
            given = [self._once(one) for one in arguments]
            futures = [
                self.client.submit(work, range(low, high), *given, pure=False, retries=0)
                for low, high in pairwise(ends)
            ]
        try:
            with nothing_kept():
                while futures:
                    yield self._result(futures.pop(0))
        finally:
            quietly(lambda: self.client.cancel(futures, force=True))

    def _once(self, argument: Any) -> Any:
        """Return an array as a task result, which is sent to each worker once instead of per range.

        Dask computes it again if all workers that hold it are lost. Other arguments are returned
        unchanged.
        """
        if not isinstance(argument, np.ndarray):
            return argument
        return self.client.submit(_itself, argument, pure=False)

    def _result(self, future: Any) -> Any:
        """Return the result of a task; Dask repeats the task if its worker is lost."""
        until = time.monotonic() + self.patience
        while True:
            self._check()
            try:
                return result_within(future, 1.0)
            except OSError as error:  # a timeout, or a connection that was lost with its process
                if future.status == "error":
                    raise
                if self.workers():  # raises if the scheduler is lost
                    until = time.monotonic() + self.patience
                    if not isinstance(error, TimeoutError):
                        time.sleep(LOOKS_EVERY)
                elif time.monotonic() > until:
                    raise MapperError(
                        "--workers: all workers were lost; add workers and start again"
                    ) from error
            except KilledWorker as error:
                raise MapperError(
                    f"--workers: {error.allowed_failures} workers were lost on the same blocks, "
                    f"the last at {error.last_worker.address}; give workers more memory"
                ) from error
            except CancelledError as error:
                raise self.gone(self.client) from error

    def account(self, stage: str, **amounts: float) -> None:
        """Add to the totals of a stage; see `new_account`."""
        sums = self.stages.setdefault(stage, new_account())
        for name, amount in amounts.items():
            sums[name] += amount

    def facts(self) -> dict[str, Any]:
        there: dict[str, Any] = {}
        with suppress(ResumableError):  # the mapping is complete, even if workers are lost now
            there = self.workers()
            for address, other in self.run_on_all(about).items():
                self._hosts[address] = other.host
                self._peaks[address] = other.peak_rss_bytes
        return {
            "count": len(there),
            "hosts": sorted({self._hosts.get(address, address) for address in there}),
            "threads": sum(one["nthreads"] for one in there.values()),
            "peak_rss_bytes": [self._peaks[address] for address in sorted(self._peaks)],
            "replaced": len(self.lost),
            "moved": self.moved,
            "stages": [
                {"name": name, **{key: round(value, 4) for key, value in sums.items()}}
                for name, sums in self.stages.items()
            ],
        }

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()
        super().close()


def _itself(array: Any) -> Any:
    return array
