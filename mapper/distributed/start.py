"""Parsing of `--workers`, and start of the engine if it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.distributed.slurm_step import SlurmStep
from mapper.errors import UsageError, shown
from mapper.executors.worker_interface import PATIENCE, SYSTEMS, Asked, batch_jobs
from mapper.monitoring.callbacks import ignore
from storage.extras import DISTRIBUTION

if TYPE_CHECKING:
    from mapper.distributed.dask import DaskWorkers

MOST_PROCESSES = 1024  # limit of local processes
WORDS = (
    "give a number of processes, the address of a Dask scheduler (tcp://host:port), its file "
    f"(.json), srun, or jobs of a batch system: {', '.join(f'{name}:N' for name in SYSTEMS)}"
)
SRUN = "srun"


def parse_workers(text: str) -> int | str:
    """Parse the value of `--workers`; raise `ValueError` that lists the accepted forms."""
    if text.isdecimal() and len(text) < 10 and 1 <= int(text) <= MOST_PROCESSES:
        return int(text)
    if "://" in text or text == SRUN or batch_jobs(text) is not None:
        return text
    if text.endswith(".json"):
        if not Path(text).is_file():
            raise ValueError(f"{text}: no such file; expected a scheduler file")
        return text
    raise ValueError(f"{shown(text)} is not a valid choice of workers; {WORDS}")


def check_workers(given: Any) -> Any:
    """Validate workers given from Python, also a Dask client; raises `UsageError`."""
    if given is None or isinstance(given, SlurmStep) or type(given).__name__ == "Client":
        return given
    if given == SRUN:
        raise UsageError("workers: srun is a command-line value; give the scheduler's file")
    try:
        return parse_workers(str(given) if isinstance(given, str | int) else "")
    except ValueError as error:
        raise UsageError(f"workers: {error}") from error


def ask_workers(
    given: Any,
    threads: int,
    each: int | None = None,
    memory: int | None = None,
    patience: float | None = None,
    shared: Path | None = None,
) -> Asked | None:
    """Return the requested workers; None without workers.

    threads : total of all workers that are started, unless `each` sets the threads per worker
    Raises `UsageError` for options that do not apply to running workers.
    """
    where = check_workers(given)
    named = [name for name, value in (("--worker-threads", each), ("--worker-memory", memory))
             if value is not None]  # fmt: skip
    started = isinstance(where, int | SlurmStep) or (
        isinstance(where, str) and batch_jobs(where) is not None
    )
    if named and not started:
        raise UsageError(
            f"{named[0]} applies only to workers that mapper starts: give --workers N or SYSTEM:N"
        )
    if where is None:
        for name, value in (("--patience", patience), ("--shared", shared)):
            if value is not None:
                raise UsageError(f"{name} requires --workers; add it, or drop this option")
        return None
    if each is None and isinstance(where, int):
        each = max(1, threads // where)
    return Asked(where, each, memory, patience or PATIENCE, shared)


def start_workers(
    asked: Asked, folder: Path, check: Callable[[], None] = ignore
) -> AbstractContextManager[DaskWorkers]:
    """Start the workers of a run (`DaskWorkers`); raise `UsageError` if that fails."""
    try:
        engine = import_module("mapper.distributed.dask")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("cryptography", "dask", "distributed"):
            raise
        raise UsageError(
            f"--workers needs the extra distributed: pip install '{DISTRIBUTION}[distributed]'"
        ) from error
    found: AbstractContextManager[DaskWorkers] = engine.DaskWorkers(asked, folder, check)
    return found


@contextmanager
def ending(workers: Any) -> Iterator[None]:
    """End the other processes of a `SlurmStep` when this block ends; no-op for other workers.

    If the driver has not connected to them, as after an error in the command line, it waits for
    them first.
    """
    try:
        yield
    finally:
        if isinstance(workers, SlurmStep) and not workers.reached:
            from mapper.distributed.clusters import shut_down

            shut_down(workers.file, workers.workers)
