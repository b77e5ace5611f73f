"""Dask engine: connects to a cluster or starts one, and runs owners and tasks on its workers.

Only this module, `mapper.distributed.clusters` and `mapper.distributed.last_client` import Dask.
Each worker runs one actor, an `Owner`; `mapper.distributed.owners` handles the loss of workers.
"""

from __future__ import annotations

import logging
import shutil
import socket
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
from distributed import Actor, CancelledError, Client, KilledWorker

from mapper.distributed.clusters import COMES_WITHIN, batch_cluster, local_cluster, submit
from mapper.distributed.engine import LostError, new_account, result_of, result_within
from mapper.distributed.engine_settings import KEEP, MALLOC, SETTINGS
from mapper.distributed.owner import About, Owner, about
from mapper.distributed.remote import RemoteShardExecutor
from mapper.distributed.slurm_step import SlurmStep
from mapper.errors import RESUME, MapperError, ResumableError, UsageError, nothing_kept
from mapper.executors.shared import SharedFolder
from mapper.executors.workers import Asked, RowSource, batch_jobs, require_seen
from mapper.monitoring.callbacks import ignore
from mapper.monitoring.monitor import Monitor
from storage.closing import Closing

ANSWERS_WITHIN = 15  # seconds; limit for a scheduler to answer and to have a worker
LOOKS_EVERY = 0.2  # seconds between polls of the connected workers
FOLDER = "workers"  # scratch directory of local workers
LOGS = "worker-logs"  # output of batch jobs
EXCHANGED = 1 << 28  # bytes of rows per worker in an exchange, unless a plan sets another limit
TASKS = 4  # block ranges per thread


class Elsewhere(NamedTuple):
    """Reference to an `Owner` on another worker; implements `Reach`."""

    address: str
    key: str

    def relay(self, *arguments: Any) -> Any:
        """Call `relay` through an actor created in this thread, where it finds its worker."""
        return Actor(Owner, self.address, self.key).relay(*arguments)


class DaskWorkers(Closing):
    """Dask workers, started by this process or already running; implements `Workers` and `Engine`.

    note : message for the user about the workers; may be empty
    """

    def __init__(self, asked: Asked, folder: Path, check: Callable[[], None] = ignore) -> None:
        """Start workers, or connect to running ones.

        folder : scratch directory of workers that are started
        check : called while waiting for workers
        Raises `UsageError` if no scheduler answers, or if a worker has other versions.
        """
        self._held = ExitStack()
        self._folder, self._check = "", check
        self.patience, self.note = asked.patience, ""
        try:
            self.client = self._connect(asked, folder)
            self._require_same()
        except BaseException:
            self._held.close()
            raise
        self.exchanged = EXCHANGED
        self._given, self._work = asked.shared, folder
        self._shared: SharedFolder | None = None
        self.stages: dict[str, dict[str, float]] = {}
        self.lost: list[str] = []
        self.moved = 0
        self._executor: RemoteShardExecutor | None = None
        self._peaks: dict[str, int] = {}

    def _connect(self, asked: Asked, folder: Path) -> Client:
        where = asked.where
        if isinstance(where, Client):
            return where
        if isinstance(where, int):
            return self._started(where, asked, folder / FOLDER)
        if isinstance(where, SlurmStep):
            return self._of_step(where)
        job = batch_jobs(where)
        if job is not None:
            return self._submitted(*job, asked, folder)
        given = {"scheduler_file": where} if where.endswith(".json") else {"address": where}
        return self._client(where, **given)

    def _client(self, shown: str, **given: Any) -> Client:
        try:
            client = Client(
                **given, timeout=ANSWERS_WITHIN, direct_to_workers=True, set_as_default=False
            )
        except (OSError, ValueError) as error:  # a timeout is an OSError
            raise UsageError(
                f"--workers {shown}: no scheduler answers there; start one with `dask scheduler`"
            ) from error
        self._hush()
        self._held.callback(_quietly, client.close)
        return client

    def _hush(self) -> None:
        """Silence the loggers of Dask: errors and notes of mapper report the relevant events."""
        for name in list(logging.root.manager.loggerDict):
            if name.partition(".")[0] == "distributed":
                logger = logging.getLogger(name)
                self._held.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.CRITICAL + 1)

    def _started(self, count: int, asked: Asked, folder: Path) -> Client:
        """Start local processes and return their client; both are closed with this object."""
        shutil.rmtree(folder, ignore_errors=True)  # left by a killed run
        self._held.callback(shutil.rmtree, folder, ignore_errors=True)
        self._folder = str(folder)
        folder.mkdir(parents=True)
        self._held.enter_context(dask.config.set({**SETTINGS, "temporary-directory": str(folder)}))
        return self._client_of(local_cluster(count, asked, folder))

    def _client_of(self, cluster: Any) -> Client:
        self._held.callback(_quietly, cluster.close)
        client = Client(cluster, direct_to_workers=True, set_as_default=False)
        self._held.callback(_quietly, client.close)
        return client

    def _submitted(self, system: str, count: int, asked: Asked, folder: Path) -> Client:
        """Submit batch jobs and return their client; both are closed with this object."""
        self._held.enter_context(dask.config.set({**SETTINGS, "temporary-directory": str(folder)}))
        cluster = batch_cluster(system, asked, folder / LOGS)
        client = self._client_of(cluster)
        self._hush()
        submit(cluster, system, count)
        there = self._wait_for(client, count, asked.patience)
        if not there:
            raise UsageError(
                f"--workers {system}:{count}: no job has started within {asked.patience:g} s; give "
                "a longer --patience or another queue"
            )
        if there < count:
            self.note = f"note: --workers: {there} of {count} jobs have started; the run continues"
        return client

    def _of_step(self, step: SlurmStep) -> Client:
        """Return a client of the processes that srun has started along with this one."""
        until = time.monotonic() + COMES_WITHIN
        while not step.file.exists() and time.monotonic() < until:
            self._check()
            time.sleep(LOOKS_EVERY)
        client = self._client("srun", scheduler_file=str(step.file))
        step.reached = True  # the scheduler now ends when this client disconnects: `last_client`
        there = self._wait_for(client, step.workers, COMES_WITHIN)
        if there < step.workers:
            self.note = f"note: --workers: {there} of {step.workers} workers have connected"
        return client

    def _wait_for(self, client: Client, count: int, seconds: float) -> int:
        """Wait until `count` workers are connected, or time is up; return the number of workers."""
        until = time.monotonic() + seconds
        while True:
            self._check()
            there = len(self._known_to(client))
            if there >= count or time.monotonic() > until:
                return there
            time.sleep(LOOKS_EVERY)

    def _require_same(self) -> None:
        """Raise `UsageError` if no workers are connected, or if versions differ from the driver."""
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
        self.note = self.note or self._odd_settings(found)

    def _odd_settings(self, found: dict[str, About]) -> str:
        """Return a note if workers started by the user lack the recommended allocator settings."""
        odd = sorted({other.host for other in found.values() if not other.keeps_memory})
        if not odd:
            return ""
        return (
            f"note: --workers: slow on {', '.join(odd)}: large blocks are returned to the system; "
            f"start them with {' '.join(f'{name}={KEEP}' for name in MALLOC)}"
        )

    def prepare(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Run `work` on one worker of each remote host before anything else."""
        one = {host: address for address, host in sorted(self._hosts.items(), reverse=True)}
        one.pop(socket.gethostname(), None)
        if one:
            with suppress(OSError, RuntimeError):  # lost workers are replaced later
                self.client.run(work, *arguments, workers=sorted(one.values()))

    def threads(self) -> int:
        """Return the largest thread count of a worker."""
        return max(int(one["nthreads"]) for one in self.workers().values())

    def limits(self) -> list[tuple[str, int]]:
        """Return the host and the memory limit of each worker, in bytes; 0 if unlimited."""
        return [
            (self._hosts.get(address, address), int(about_it.get("memory_limit") or 0))
            for address, about_it in sorted(self.workers().items())
        ]

    def task_memory(self, memory: int) -> int:
        """Return the bytes per task with all threads busy: half of the memory of a worker.

        memory : bytes available to all workers of a host together
        """
        limits = self.limits()
        hosts = Counter(host for host, _ in limits)
        least = min(min(memory // hosts[host], limit or memory) for host, limit in limits)
        return least // 2 // self.threads()

    def workers(self) -> dict[str, Any]:
        """Return the scheduler's data on each worker, by address; raises `ResumableError`."""
        return self._known_to(self.client)

    def _known_to(self, client: Client) -> dict[str, Any]:
        gone = self._gone(client)
        try:
            # the cached copy of the client does not list the workers
            if client.status == "running":
                identity = client.sync(client.scheduler.identity, n_workers=-1)
                return dict(identity["workers"])
        except (OSError, RuntimeError) as error:
            raise gone from error
        raise gone

    def _gone(self, client: Client) -> ResumableError:
        return ResumableError(
            f"--workers: the scheduler at {client.scheduler.address} was lost; start another "
            f"and {RESUME}"
        )

    def addresses(self) -> list[str]:
        return sorted(self.workers())

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
            with suppress(OSError, RuntimeError):  # lost workers are replaced later
                self.client.run(made.place.require_seen)
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
                self._require_seen(path)
        pieces = TASKS * sum(int(one["nthreads"]) for one in self.workers().values())
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
            _quietly(lambda: self.client.cancel(futures, force=True))

    def _once(self, argument: Any) -> Any:
        """Return an array as a task result, which is sent to each worker once instead of per range.

        Dask computes it again if all workers that hold it are lost. Other arguments are returned
        unchanged.
        """
        if not isinstance(argument, np.ndarray):
            return argument
        return self.client.submit(_itself, argument, pure=False)

    def _require_seen(self, path: Path) -> None:
        """Raise `UsageError` if a worker does not see a path; lost workers are ignored."""
        for found in self.client.run(require_seen, path, on_error="return").values():
            if isinstance(found, UsageError):
                raise found

    def _result(self, future: Any) -> Any:
        """Return the result of a task; Dask repeats the task if its worker is lost."""
        until = time.monotonic() + self.patience
        while True:
            self._check()
            try:
                return result_within(future, 1.0)
            except TimeoutError as error:
                if future.status == "error":
                    raise
                if self.workers():  # raises if the scheduler is lost
                    until = time.monotonic() + self.patience
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
                raise self._gone(self.client) from error

    def account(self, stage: str, **amounts: float) -> None:
        """Add to the totals of a stage; see `new_account`."""
        sums = self.stages.setdefault(stage, new_account())
        for name, amount in amounts.items():
            sums[name] += amount

    def facts(self) -> dict[str, Any]:
        there: dict[str, Any] = {}
        with suppress(ResumableError):  # the mapping is complete, even if workers are lost now
            there = self.workers()
        with suppress(Exception):  # a worker lost at the end is not counted
            for address, other in self.client.run(about).items():
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
        self._held.close()


def _itself(array: Any) -> Any:
    return array


def _quietly(close: Callable[[], None]) -> None:
    """Close a resource that may have failed already; ignore errors."""
    with suppress(Exception):
        close()
