"""Clusters that mapper starts: processes of this machine, or jobs of a batch system."""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import time
from contextlib import suppress
from importlib import import_module
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, Status

from mapper.distributed.engine_settings import environment
from mapper.distributed.workers import Asked
from mapper.errors import UsageError
from storage.extras import DISTRIBUTION

HERE = "127.0.0.1"  # nobody else is to talk to processes of this machine
COMES_WITHIN = 120.0  # seconds in which srun has started all processes
QUIET = {"dashboard": False, "dashboard_address": ":0"}
CLASSES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "htcondor": "HTCondorCluster",
}


def local_cluster(count: int, asked: Asked, folder: Path) -> LocalCluster:
    """Processes of this machine; folder : for their rows.

    Ctrl-C on the terminal reaches all processes. Only the driver is to hear it: it may need its
    workers to end with what it has.
    """
    cluster = LocalCluster(
        n_workers=0, threads_per_worker=asked.threads or 1, processes=True,
        host=HERE, dashboard_address=f"{HERE}:0", worker_dashboard_address=f"{HERE}:0",
        silence_logs=logging.CRITICAL,
        local_directory=str(folder), memory_limit=asked.memory or _machine_memory(),
    )  # fmt: skip
    try:
        cluster.sync(_block_interrupts)
        cluster.scale(count)
        cluster.wait_for_workers(count)
    except BaseException:
        cluster.close()
        raise
    return cluster


async def _block_interrupts() -> None:
    """Block SIGINT in this thread, which starts all processes: these inherit it.

    Those that come in the place of lost ones do, too; to ignore it while the first ones start would
    make this process deaf for as long.
    """
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        resource_tracker.ensure_running()  # else a process started first unblocks it again
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def batch_cluster(system: str, asked: Asked, logs: Path) -> Any:
    """A cluster of a batch system, without any job yet: see `submit`.

    What is not asked for is as the user's jobqueue configuration says. Raises `UsageError` if the
    extra is not installed, the system is not there, or the configuration lacks something.

    logs : folder for what jobs write, unless the configuration names one
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
            f"--workers {system}:N: there is no `{submit}` on this machine; start it where jobs "
            "are submitted"
        )

    def configured(name: str, default: Any) -> Any:
        return dask.config.get(f"jobqueue.{system}.{name}", None) or default

    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment().items()]
    options: dict[str, Any] = {
        "processes": 1,  # of each job; its threads are a team
        "job_script_prologue": [*configured("job-script-prologue", []), *exports],
        "log_directory": configured("log-directory", str(logs)),
        "scheduler_options": {**QUIET, **configured("scheduler-options", {})},
    }
    if asked.threads is not None:
        options["cores"] = asked.threads
    if asked.memory is not None:
        options["memory"] = f"{asked.memory}B"
    for name, option in (("cores", "threads"), ("memory", "memory")):
        if name not in options and not configured(name, None):
            raise UsageError(
                f"--workers {system}:N: neither jobqueue.{system}.{name} of your configuration "
                f"(~/.config/dask/jobqueue.yaml) nor --worker-{option} says what a job takes"
            )
    try:
        return kind(**options)
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        raise UsageError(f"--workers {system}:N: {_last_line(error)}") from error


def submit(cluster: Any, system: str, count: int) -> None:
    """Submit jobs; raises `UsageError` with what the batch system says if it refuses them."""
    for _ in range(count):
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        cluster.sync(cluster._correct_state)  # what `scale` does without waiting for it
    except (OSError, RuntimeError, ValueError) as error:
        for job in cluster.workers.values():
            if job.job_id is None:  # or else the cluster cannot be closed
                job.status = Status.closed
        raise UsageError(f"--workers {system}:{count}: {_last_line(error)}") from error


def shut_down(file: Path, workers: int) -> None:
    """End the scheduler that writes this file, and its workers, once they have come."""
    until = time.monotonic() + COMES_WITHIN
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    given = {"scheduler_file": str(file), "timeout": COMES_WITHIN, "set_as_default": False}
    with suppress(OSError, ValueError, RuntimeError), Client(**given) as client:
        with suppress(TimeoutError):  # who is ended while it starts says so, at length
            client.wait_for_workers(workers, timeout=COMES_WITHIN)
        client.shutdown()
    file.unlink(missing_ok=True)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _machine_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().total)
