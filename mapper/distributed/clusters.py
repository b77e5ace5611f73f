"""Dask clusters that mapper starts: local processes, or jobs of a batch system."""

from __future__ import annotations

import logging
import shlex
import shutil
import time
from contextlib import suppress
from importlib import import_module
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, Scheduler, Security, Status
from distributed.diagnostics.plugin import SchedulerPlugin

from mapper.distributed.certificates import tls_settings
from mapper.distributed.engine import HERE, NO_DASHBOARD, PROTOCOL, environment
from mapper.errors import RESUME, ResumableError, UsageError
from mapper.executors.worker_interface import Asked
from storage.extras import DISTRIBUTION
from storage.system.processes import block_interrupts, can_fork

COMES_WITHIN = 120.0  # seconds; limit for srun to start all processes, and for a local one
TRIES = 3  # of starting local processes
QUIET = {"dashboard": False, "dashboard_address": f"{HERE}:0"}  # of a scheduler
CLASSES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "htcondor": "HTCondorCluster",
}


def security_of(certificates: Path) -> Security:
    """Return the settings of connections that require the certificate in a folder."""
    with dask.config.set(tls_settings(certificates)):
        return Security()


def local_cluster(count: int, asked: Asked, folder: Path, certificates: Path) -> LocalCluster:
    """Start `count` local worker processes.

    Ctrl-C in the terminal signals the whole process group. Workers block SIGINT, so that only the
    driver handles it: it may still need its workers to write a result.

    folder : scratch directory of the workers; certificates : see `certificates`
    Raises `ResumableError` if no process starts.
    """
    cluster = LocalCluster(
        n_workers=0, threads_per_worker=asked.threads or 1, processes=True, host=HERE,
        scheduler_kwargs=QUIET, silence_logs=logging.CRITICAL, death_timeout=COMES_WITHIN,
        local_directory=str(folder), memory_limit=asked.memory or _machine_memory(),
        security=security_of(certificates),
    )  # fmt: skip
    try:
        cluster.sync(_block_interrupts)
        _start(cluster, count)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _start(cluster: LocalCluster, count: int) -> None:
    """Start local processes, again if they end before they have connected, as when killed."""
    reason = ""
    for _ in range(TRIES):
        while len(cluster.worker_spec) < count:
            cluster.worker_spec.update(cluster.new_worker_spec())
        try:
            cluster.sync(lambda: cluster)  # as `scale`, but awaited
        except (OSError, RuntimeError) as error:
            reason = _last_line(error)
        for name, nanny in list(cluster.workers.items()):
            if nanny.status != Status.running:  # it is closed, and another one takes its place
                del cluster.worker_spec[name], cluster.workers[name]
        if len(cluster.worker_spec) == count:
            return
    if not cluster.worker_spec:
        raise ResumableError(f"--workers: no process has started ({reason}); {RESUME}")


async def _block_interrupts() -> None:
    """Block SIGINT in the thread that starts worker processes; these inherit the mask.

    Replacements of lost workers inherit it as well. Ignoring SIGINT only while the first workers
    start would make this process miss interrupts in that time.
    """
    if can_fork():
        # otherwise, started before any worker, it would unblock SIGINT again
        resource_tracker.ensure_running()
    block_interrupts()


def batch_cluster(system: str, asked: Asked, logs: Path, certificates: Path) -> Any:
    """Return a cluster of a batch system without jobs; `submit` starts them.

    Unset options come from the user's jobqueue configuration. Raises `UsageError` if the extra is
    not installed, the batch system is missing on this machine, or the configuration is incomplete.

    logs : folder for job output, unless the configuration names one
    certificates : see `certificates`; in a folder that all jobs see
    """
    try:
        kind = getattr(import_module("dask_jobqueue"), CLASSES[system])
    except ModuleNotFoundError as error:
        if error.name != "dask_jobqueue":
            raise
        raise UsageError(
            f"--workers {system}:N needs the extra jobqueue: pip install '{DISTRIBUTION}[jobqueue]'"
        ) from error
    submit = shlex.split(kind.job_cls.submit_command)[0]
    if shutil.which(submit) is None:
        raise UsageError(
            f"--workers {system}:N: `{submit}` is not installed on this machine; run mapper "
            "on a submit host"
        )

    def configured(name: str, default: Any) -> Any:
        return dask.config.get(f"jobqueue.{system}.{name}", None) or default

    tls = tls_settings(certificates)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment(tls).items()]
    options: dict[str, Any] = {
        "processes": 1,  # per job; its threads form one team
        "job_script_prologue": [*configured("job-script-prologue", []), *exports],
        "log_directory": configured("log-directory", str(logs)),
        "scheduler_options": {**configured("scheduler-options", {}), **QUIET},
        "worker_extra_args": [*configured("worker-extra-args", []), *NO_DASHBOARD],
        "protocol": PROTOCOL,
    }
    if asked.threads is not None:
        options["cores"] = asked.threads
    if asked.memory is not None:
        options["memory"] = f"{asked.memory}B"
    for name, option in (("cores", "threads"), ("memory", "memory")):
        if name not in options and not configured(name, None):
            raise UsageError(
                f"--workers {system}:N: the job size is unknown; set jobqueue.{system}.{name} in "
                f"~/.config/dask/jobqueue.yaml, or give --worker-{option}"
            )
    try:
        # jobs read the paths of the keys from the environment: arguments would not be quoted
        with dask.config.set(tls):
            return kind(**options)
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        raise UsageError(f"--workers {system}:N: {_last_line(error)}") from error


def submit(cluster: Any, system: str, count: int) -> None:
    """Submit jobs; raise `UsageError` with the batch system's message if it refuses them."""
    for _ in range(count):
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        cluster.sync(lambda: cluster)  # as `scale`, but awaited
    except (OSError, RuntimeError, ValueError) as error:
        for job in cluster.workers.values():
            if job.job_id is None:  # the cluster cannot be closed otherwise
                job.status = Status.closed
        raise UsageError(f"--workers {system}:{count}: {_last_line(error)}") from error


class LastClient(SchedulerPlugin):  # type: ignore[misc]  # mypy does not read Dask
    """Scheduler plugin: closes the scheduler when the last client disconnects.

    Then its file and the certificate are removed with their folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        if not [name for name in scheduler.clients if name not in (client, "fire-and-forget")]:
            scheduler.loop.call_later(1, scheduler.close)

    async def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def dask_setup(scheduler: Any) -> None:
    """Add the plugin; Dask calls this when a scheduler starts with `--preload`."""
    scheduler.add_plugin(LastClient(Path(scheduler.scheduler_file).parent))


def shut_down(file: Path, workers: int) -> None:
    """Shut down the scheduler that writes `file`, and its workers, once they have connected."""
    until = time.monotonic() + COMES_WITHIN
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    if not file.exists():
        return
    given = {"scheduler_file": str(file), "timeout": COMES_WITHIN, "set_as_default": False}
    given["security"] = security_of(file.parent)
    with suppress(OSError, ValueError, RuntimeError), Client(**given) as client:
        with suppress(TimeoutError):  # a worker stopped during its start logs a traceback
            client.wait_for_workers(workers, timeout=COMES_WITHIN)
        client.shutdown()


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _machine_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().total)
