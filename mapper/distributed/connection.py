"""Connection to Dask: finds a scheduler or starts one, and checks its workers."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Security

from mapper.distributed.certificates import KEY, make_certificate, require_private
from mapper.distributed.clusters import (
    COMES_WITHIN,
    batch_cluster,
    local_cluster,
    security_of,
    submit,
)
from mapper.distributed.engine import KEEP, MALLOC, SETTINGS, all_lost
from mapper.distributed.owner import About, about
from mapper.distributed.slurm_step import SlurmStep
from mapper.errors import RESUME, ResumableError, UsageError
from mapper.executors.shared import folder_of_run
from mapper.executors.worker_interface import Asked, batch_jobs
from mapper.monitoring.callbacks import ignore
from storage.closing import Closing

ANSWERS_WITHIN = 15  # seconds; limit for a scheduler to answer and to have a worker
LOOKS_EVERY = 0.2  # seconds between polls of the connected workers
FOLDER = "workers"  # scratch directory of local workers
LOGS = "worker-logs"  # output of batch jobs


class DaskConnection(Closing):
    """Connection to Dask workers, started by this process or already running.

    client : of the scheduler
    patience : seconds that a run waits while it has no workers
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
        if not where.endswith(".json"):
            return self._client(where, address=where)
        folder = Path(where).parent
        if (folder / KEY).exists():
            return self._client(where, scheduler_file=where, security=_trusted(folder))
        return self._client(where, scheduler_file=where)

    def _client(self, shown: str, **given: Any) -> Client:
        _require_key(shown, **given)
        try:
            client = Client(
                **given, timeout=ANSWERS_WITHIN, direct_to_workers=True, set_as_default=False
            )
        except (OSError, ValueError) as error:  # a timeout is an OSError
            raise UsageError(
                f"--workers {shown}: no scheduler answers there; start one with `dask scheduler`"
            ) from error
        if client.scheduler.address.startswith("tcp://"):
            self.note = (
                f"note: --workers: {client.scheduler.address} runs code for every account that "
                "reaches it; start the scheduler with a certificate (mapper docs howto/workers)"
            )
        self._hush()
        self._held.callback(quietly, client.close)
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
        certificates = folder / "certificate"
        make_certificate(certificates)
        self._held.enter_context(dask.config.set({**SETTINGS, "temporary-directory": str(folder)}))
        self._hush()
        return self._client_of(local_cluster(count, asked, folder, certificates))

    def _client_of(self, cluster: Any) -> Client:
        self._held.callback(quietly, cluster.close)
        client = Client(cluster, direct_to_workers=True, set_as_default=False)
        self._held.callback(quietly, client.close)
        return client

    def _submitted(self, system: str, count: int, asked: Asked, folder: Path) -> Client:
        """Submit batch jobs and return their client; both are closed with this object."""
        self._held.enter_context(dask.config.set({**SETTINGS, "temporary-directory": str(folder)}))
        certificates = folder_of_run("certificate", asked.shared, folder)
        certificates.parent.mkdir(parents=asked.shared is None, exist_ok=True)
        self._held.callback(shutil.rmtree, certificates, ignore_errors=True)
        make_certificate(certificates)
        cluster = batch_cluster(system, asked, folder / LOGS, certificates)
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
        self._held.callback(shutil.rmtree, step.folder, ignore_errors=True)
        given = {"security": _trusted(step.folder)} if step.file.exists() else {}
        client = self._client("srun", scheduler_file=str(step.file), **given)
        step.reached = True  # the scheduler now ends when this client disconnects: `LastClient`
        there = self._wait_for(client, step.workers, COMES_WITHIN)
        if there < step.workers:
            self.note = f"note: --workers: {there} of {step.workers} workers have connected"
        return client

    def _wait_for(self, client: Client, count: int, seconds: float) -> int:
        """Wait until `count` workers are connected, or time is up; return the number of workers."""
        until = time.monotonic() + seconds
        while True:
            self._check()
            there = len(self.known_to(client))
            if there >= count or time.monotonic() > until:
                return there
            time.sleep(LOOKS_EVERY)

    def _require_same(self) -> None:
        """Raise `UsageError` if no workers are connected, or if versions differ from the driver."""
        until = time.monotonic() + ANSWERS_WITHIN
        try:
            while not (found := self.run_on_all(about)):
                self._check()
                if time.monotonic() > until:
                    raise UsageError(
                        f"--workers: the scheduler at {self.client.scheduler.address} has no "
                        "workers; start some with `dask worker`"
                    )
                time.sleep(LOOKS_EVERY)
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
            self.run_on_all(work, *arguments, workers=sorted(one.values()))

    def run_on_all(
        self, work: Callable[..., Any], *arguments: Any, workers: list[str] | None = None
    ) -> dict[str, Any]:
        """Run `work` on all workers, or some; return the answers by address.

        Raises errors of `work`, or `ResumableError` if the scheduler is lost. Lost workers have no
        answer; they are replaced later.
        """
        found: dict[str, Any] = {}
        try:
            found = self.client.run(work, *arguments, workers=workers, on_error="return")
        except (OSError, RuntimeError):
            self.workers()
        for answer in found.values():
            if isinstance(answer, Exception) and not isinstance(answer, OSError | RuntimeError):
                raise answer
        return {one: answer for one, answer in found.items() if not isinstance(answer, Exception)}

    def threads(self) -> int:
        """Return the largest thread count of a worker."""
        return max(int(one["nthreads"]) for one in self.some_workers().values())

    def limits(self) -> list[tuple[str, int]]:
        """Return the host and the memory limit of each worker, in bytes; 0 if unlimited."""
        return [
            (self._hosts.get(address, address), int(about_it.get("memory_limit") or 0))
            for address, about_it in sorted(self.some_workers().items())
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
        return self.known_to(self.client)

    def some_workers(self) -> dict[str, Any]:
        """Return `workers()` once there are some; raises `ResumableError` if none comes in time."""
        until = time.monotonic() + self.patience
        while not (found := self.workers()):
            self._check()
            if time.monotonic() > until:
                raise all_lost()
            time.sleep(LOOKS_EVERY)
        return found

    def known_to(self, client: Client) -> dict[str, Any]:
        gone = self.gone(client)
        try:
            # the cached copy of the client does not list the workers
            if client.status == "running":
                identity = client.sync(client.scheduler.identity, n_workers=-1)
                return dict(identity["workers"])
        except (OSError, RuntimeError) as error:
            raise gone from error
        raise gone

    def gone(self, client: Client) -> ResumableError:
        return ResumableError(
            f"--workers: the scheduler at {client.scheduler.address} was lost; start another "
            f"and {RESUME}"
        )

    def close(self) -> None:
        self._held.close()


def _require_key(
    shown: str, address: str = "", scheduler_file: str = "", security: Security | None = None
) -> None:
    """Raise `UsageError` if a scheduler requires a certificate, and there is none.

    Dask would raise `TypeError` and leave a client, whose `__del__` can block the next one.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):  # Dask reports a damaged file
        address = address or json.loads(Path(scheduler_file).read_bytes())["address"]
    if not str(address).startswith("tls://"):
        return
    if (security or Security()).get_connection_args("client").get("ssl_context") is None:
        raise UsageError(
            f"--workers {shown}: the scheduler requires a certificate; give its file in the folder "
            f"of certificate.pem and {KEY}, or set distributed.comm.tls of Dask"
        )


def _trusted(folder: Path) -> Security:
    """Return the settings of connections to a scheduler by its folder; see `require_private`."""
    require_private(folder)
    return security_of(folder)


def quietly(close: Callable[[], None]) -> None:
    """Close a resource that may have failed already; ignore errors."""
    with suppress(Exception):
        close()
