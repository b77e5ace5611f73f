"""The processes that `srun` starts of a command: a scheduler, the driver, and workers, by rank."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from mapper.distributed.engine_settings import environment
from mapper.errors import UsageError
from storage.extras import DISTRIBUTION

SCHEDULER, DRIVER = 0, 1  # ranks; all others are workers
GONE_AFTER = "120"  # seconds in which a worker finds the scheduler, or ends
LAST_CLIENT = "mapper.distributed.last_client"


@dataclass(slots=True)
class SlurmStep:
    """A process of a step of a SLURM job.

    file : in which the scheduler says where it is, seen by all of them
    reached : whether the driver has found it
    """

    rank: int
    tasks: int
    file: Path
    reached: bool = False

    @property
    def drives(self) -> bool:
        return self.rank == DRIVER

    @property
    def workers(self) -> int:
        return self.tasks - 2

    def serve(self, threads: int | None, memory: int | None) -> NoReturn:
        """Become the scheduler or a worker, until the driver ends.

        threads, memory : of a worker; by default what SLURM has given to each process
        """
        common = ["--scheduler-file", str(self.file), "--no-dashboard"]
        if self.rank == SCHEDULER:
            self.file.unlink(missing_ok=True)
            words = ["dask_scheduler", "--port", "0", "--preload", LAST_CLIENT, *common]
        else:
            threads = threads or int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
            words = ["dask_worker", "--nworkers", "1", "--nthreads", str(threads), *common]
            words += ["--memory-limit", str(memory or _given_memory() or "auto")]
            words += ["--death-timeout", GONE_AFTER]
            words += ["--name", str(self.rank), "--local-directory", _local_folder()]
        command = [sys.executable, "-m", f"distributed.cli.{words[0]}", *words[1:]]
        sys.stdout.flush()
        os.execve(sys.executable, command, {**os.environ, **environment()})


def slurm_step(output: Path) -> SlurmStep:
    """Which process of its step this one is; raises `UsageError` if it is of none.

    output : of the command, in a folder that all processes see
    """
    if find_spec("distributed") is None:
        raise UsageError(
            f"--workers needs the extra distributed: pip install '{DISTRIBUTION}[distributed]'"
        )
    try:
        names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID")
        rank, tasks, job, step = (int(os.environ[name]) for name in names)
    except (KeyError, ValueError) as error:
        raise UsageError(
            "--workers srun is for processes that srun starts: `srun -n 18 mapper run ...` has 16 "
            "workers"
        ) from error
    if tasks < 3:
        raise UsageError(
            f"--workers srun: a scheduler, the driver and a worker are 3 processes, srun has "
            f"started {tasks}; give srun -n 3 or more"
        )
    return SlurmStep(rank, tasks, output.absolute().parent / f".mapper-{job}.{step}.json")


def _given_memory() -> int | None:
    """Bytes that SLURM has given to a process; None if it does not say."""
    each = int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
    given = os.environ.get("SLURM_MEM_PER_CPU", "")
    return (each * int(given) << 20) if given.isdecimal() and int(given) else None


def _local_folder() -> str:
    return os.environ.get("SLURM_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
