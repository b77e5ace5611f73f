"""Workers of a Dask cluster; the only module that knows the engine.

Each has one actor, an `Owner`; see `mapper.fleet.remote` for what becomes of the shards of one that
is lost.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster

from mapper.errors import ResumableError, UsageError
from mapper.fleet.owner import Owner, about
from mapper.fleet.remote import LostError, RemoteFleet, new_account, result_of
from mapper.fleet.workers import Asked, RowSource
from mapper.runtime.monitor import Monitor
from storage.closing import Closing

HERE = "127.0.0.1"  # nobody else is to talk to processes of this machine
ANSWERS_WITHIN = 15  # seconds in which a scheduler answers, and has a worker
FOLDER = "workers"  # of rows of workers that are started
KEEP = 1 << 28  # bytes of a free block that a process keeps: blocks of rows come again at once

SETTINGS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": KEEP,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": KEEP,
    "distributed.comm.compression": False,  # what is sent is packed
    "distributed.worker.memory.target": False,  # mapper plans its memory itself
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.worker-ttl": "30s",
    "distributed.admin.tick.limit": "1h",  # kernels are long; nobody need hear of it
}


class DaskWorkers(Closing):
    """Workers that this process starts, or that are there already; see `Workers`."""

    def __init__(self, asked: Asked, folder: Path) -> None:
        """Start workers, or go to those that there are.

        folder : for the rows of workers that are started

        Raises `UsageError` if nobody answers, or another version does.
        """
        self._held = ExitStack()
        self._folder = ""
        self.patience = asked.patience
        try:
            self.client = self._connect(asked, folder / FOLDER)
            self._require_same()
        except BaseException:
            self._held.close()
            raise
        self.stages: dict[str, dict[str, float]] = {}
        self.lost: list[str] = []
        self._fleets: list[RemoteFleet] = []
        self._peaks: dict[str, int] = {}

    def _connect(self, asked: Asked, folder: Path) -> Client:
        where = asked.where
        if isinstance(where, Client):
            return where
        if isinstance(where, int):
            return self._started(where, asked, folder)
        try:
            given = {"scheduler_file": where} if where.endswith(".json") else {"address": where}
            client = Client(
                **given, timeout=ANSWERS_WITHIN, direct_to_workers=True, set_as_default=False
            )
        except (OSError, ValueError) as error:  # a timeout is an OSError
            raise UsageError(
                f"--workers {where}: no scheduler answers there; start one with `dask scheduler`"
            ) from error
        self._hush()
        self._held.callback(_quietly, client.close)
        return client

    def _hush(self) -> None:
        """Let the engine say nothing: what matters of it is told by errors and notes."""
        for name in list(logging.root.manager.loggerDict):
            if name.partition(".")[0] == "distributed":
                logger = logging.getLogger(name)
                self._held.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.CRITICAL + 1)

    def _started(self, count: int, asked: Asked, folder: Path) -> Client:
        """A client of processes that are started here, and end with this one."""
        shutil.rmtree(folder, ignore_errors=True)  # rows of a run that was killed
        self._held.callback(shutil.rmtree, folder, ignore_errors=True)
        self._folder = str(folder)
        folder.mkdir(parents=True)
        self._held.enter_context(dask.config.set({**SETTINGS, "temporary-directory": str(folder)}))
        cluster = LocalCluster(
            n_workers=count, threads_per_worker=asked.threads, processes=True,
            host=HERE, dashboard_address=f"{HERE}:0", worker_dashboard_address=f"{HERE}:0",
            silence_logs=logging.CRITICAL,
            local_directory=str(folder), memory_limit=asked.memory or _machine_memory(),
        )  # fmt: skip
        self._held.callback(_quietly, cluster.close)
        client = Client(cluster, direct_to_workers=True, set_as_default=False)
        self._held.callback(_quietly, client.close)
        return client

    def _require_same(self) -> None:
        """Raise `UsageError` if there are no workers, or those of another version."""
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=ANSWERS_WITHIN)
        if not self.workers():
            raise UsageError(
                f"--workers: the scheduler at {self.client.scheduler.address} has no workers; "
                "start some with `dask worker`"
            )
        try:
            found = self.client.run(about)
        except ImportError as error:
            raise UsageError(
                f"--workers: a worker cannot load mapper ({error}); install the same version there"
            ) from error
        own = about()
        for address, other in found.items():
            for (name, here), (_, there) in zip(own.versions, other.versions, strict=True):
                if here != there:
                    raise UsageError(
                        f"--workers: {name} is {there} on {other.host} ({address}), {here} here; "
                        "install the same version"
                    )
        self._hosts = {address: other.host for address, other in found.items()}

    def workers(self) -> dict[str, Any]:
        """What the scheduler knows of each worker, by address; raises `ResumableError`."""
        client = self.client
        try:
            if client.status == "running":  # not the client's own copy, which names no workers
                identity = client.sync(client.scheduler.identity, n_workers=-1)
                return dict(identity["workers"])
        except (OSError, RuntimeError) as error:
            raise self._headless() from error
        raise self._headless()

    def _headless(self) -> ResumableError:
        return ResumableError(
            f"--workers: the scheduler at {self.client.scheduler.address} is gone; start another "
            "and go on with --resume"
        )

    def addresses(self) -> list[str]:
        return sorted(self.workers())

    def fleet(self, source: RowSource, chunks: int, entries: int, monitor: Monitor) -> RemoteFleet:
        made = RemoteFleet(self, source, chunks, entries, monitor)
        self._fleets.append(made)
        return made

    def own(self, address: str, source: RowSource) -> Any:
        about_it = self.workers().get(address)
        if about_it is None:
            raise LostError(address)
        folder = self._folder or about_it["local_directory"]
        try:
            with self.client.as_current():  # the actor takes the client that it finds
                made = self.client.submit(
                    Owner, source, about_it["nthreads"], folder, actor=True, workers=[address],
                    allow_other_workers=False, pure=False,
                )  # fmt: skip
                owner = result_of(made, address, self)
                answer = result_of(owner.open(), address, self)
        except (OSError, RuntimeError) as error:
            raise LostError(address) from error
        if answer.error is not None:
            raise answer.error
        return owner

    def account(self, stage: str, **amounts: float) -> None:
        """Add to what a stage has taken, see `new_account`."""
        sums = self.stages.setdefault(stage, new_account())
        for name, amount in amounts.items():
            sums[name] += amount

    def facts(self) -> dict[str, Any]:
        there: dict[str, Any] = {}
        with suppress(ResumableError):  # the mapping is made, whoever is left
            there = self.workers()
        with suppress(Exception):  # who is lost at the end has nothing to say
            for address, other in self.client.run(about).items():
                self._hosts[address] = other.host
                self._peaks[address] = other.peak_rss_bytes
        return {
            "count": len(there),
            "hosts": sorted({self._hosts.get(address, address) for address in there}),
            "threads": sum(one["nthreads"] for one in there.values()),
            "peak_rss_bytes": [self._peaks[address] for address in sorted(self._peaks)],
            "replaced": len(self.lost),
            "stages": [
                {"name": name, **{key: round(value, 4) for key, value in sums.items()}}
                for name, sums in self.stages.items()
            ],
        }

    def close(self) -> None:
        for fleet in self._fleets:
            fleet.close()
        self._held.close()


def _machine_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().total)


def _quietly(close: Callable[[], None]) -> None:
    """Close what may be half gone."""
    with suppress(Exception):
        close()
