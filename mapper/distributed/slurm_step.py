"""Roles of the processes that `srun` starts: scheduler, driver and workers, by rank."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from mapper.concurrency.processes import python_command
from mapper.distributed.engine import NO_DASHBOARD, PROTOCOL, environment
from mapper.errors import UsageError
from storage.extras import DISTRIBUTION

SCHEDULER, DRIVER = 0, 1  # ranks; all others are workers
GONE_AFTER = 120  # seconds after which a worker without a scheduler ends
LOOKS_EVERY = 0.2  # seconds between looks for the scheduler
LAST_CLIENT = "mapper.distributed.clusters"  # has `dask_setup`


@dataclass(slots=True)
class SlurmStep:
    """A process of a step of a SLURM job.

    folder : certificate of the step and file of its scheduler, seen by all processes
    reached : whether the driver has connected
    """

    rank: int
    tasks: int
    folder: Path
    reached: bool = False

    @property
    def file(self) -> Path:
        """The scheduler's file."""
        return self.folder / "scheduler.json"

    @property
    def drives(self) -> bool:
        return self.rank == DRIVER

    @property
    def workers(self) -> int:
        return self.tasks - 2

    def serve(self, threads: int | None, memory: int | None) -> NoReturn:
        """Become the scheduler or a worker until the driver ends.

        threads, memory : of a worker; default: the allocation of SLURM per process
        """
        from mapper.distributed.certificates import make_certificate, tls_settings

        common = ["--scheduler-file", str(self.file), *NO_DASHBOARD]
        if self.rank == SCHEDULER:
            shutil.rmtree(self.folder, ignore_errors=True)  # of a killed step of the same name
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            make_certificate(self.folder)
            words = ["dask_scheduler", "--protocol", PROTOCOL, "--port", "0", *common]
            words += ["--preload", LAST_CLIENT]
        else:
            self._wait()
            threads = threads or int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
            words = ["dask_worker", "--nworkers", "1", "--nthreads", str(threads), *common]
            words += ["--memory-limit", str(memory or _given_memory() or "auto")]
            words += ["--death-timeout", str(GONE_AFTER)]
            words += ["--name", str(self.rank), "--local-directory", _local_folder()]
        program, *arguments = words
        command = [*python_command(f"distributed.cli.{program}", "m.main()"), *arguments]
        sys.stdout.flush()
        more = environment(tls_settings(self.folder))
        os.execve(sys.executable, command, {**os.environ, **more})

    def _wait(self) -> None:
        """Wait until the scheduler has started; raise `UsageError` if its folder is not private."""
        from mapper.distributed.certificates import require_private

        until = time.monotonic() + GONE_AFTER
        while not self.file.exists():
            if time.monotonic() > until:
                raise UsageError(
                    f"--workers srun: no scheduler has started in {self.folder.parent}"
                )
            time.sleep(LOOKS_EVERY)
        require_private(self.folder)


def slurm_step(output: Path) -> SlurmStep:
    """Return the role of this process in its step; raise `UsageError` outside of a step.

    output : of the command, in a folder that all processes see
    """
    if find_spec("distributed") is None or find_spec("cryptography") is None:
        raise UsageError(
            f"--workers needs the extra distributed: pip install '{DISTRIBUTION}[distributed]'"
        )
    try:
        names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID")
        rank, tasks, job, step = (int(os.environ[name]) for name in names)
    except (KeyError, ValueError) as error:
        raise UsageError(
            "--workers srun: not started by srun; `srun -n 18 mapper run ...` starts 16 workers"
        ) from error
    if tasks < 3:
        raise UsageError(
            f"--workers srun: at least 3 processes are needed (scheduler, driver, worker), srun "
            f"started {tasks}; use srun -n 3 or more"
        )
    return SlurmStep(rank, tasks, output.absolute().parent / f".mapper-{job}.{step}")


def _given_memory() -> int | None:
    """Return the memory that SLURM grants to a process, in bytes; None if it is not set."""
    each = int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
    given = os.environ.get("SLURM_MEM_PER_CPU", "")
    return (each * int(given) << 20) if given.isdecimal() and int(given) else None


def _local_folder() -> str:
    return os.environ.get("SLURM_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
