"""Options of workers, and start of the workers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.errors import UsageError

if TYPE_CHECKING:
    from mapper.distributed.dask import DaskWorkers
    from mapper.executors.worker_interface import Ranges


def workers(text: str) -> int | str:
    """Parse --workers: a number of processes, an address, a file or slurm:N."""
    from mapper.distributed.start import parse_workers

    try:
        return parse_workers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


WORKERS = "N, tcp://HOST:PORT, FILE.json, slurm:N"


def add_workers(group: argparse._ActionsContainer, more: str = "") -> None:
    """Add --workers."""
    group.add_argument("--workers", type=workers, metavar="W", help=WORKERS + more)


@contextmanager
def workers_of(
    options: argparse.Namespace, threads: int = 1, *, use: bool = True
) -> Iterator[DaskWorkers | None]:
    """Start or connect the workers of --workers; yield them, or None without --workers.

    threads : total threads of local workers started by number
    use : False yields None in any case
    """
    import tempfile

    from mapper.distributed.start import SRUN, ask_workers, start_workers
    from mapper.executors.worker_interface import batch_jobs

    if not use:
        yield None
        return
    if options.workers == SRUN:
        raise UsageError("--workers srun is for `mapper run`; give the scheduler's file")
    asked = ask_workers(options.workers, threads, getattr(options, "worker_threads", None))
    if asked is None:
        yield None
        return
    # jobs read their certificate in the working directory, as they do not see /tmp of this host
    place = Path.cwd() if batch_jobs(str(options.workers)) else None
    with (
        tempfile.TemporaryDirectory(prefix=".mapper-", dir=place) as folder,
        start_workers(asked, Path(folder)) as found,
    ):
        if found.note:
            terminal.say(options, found.note)
        yield found


@contextmanager
def ranges_of(options: argparse.Namespace) -> Iterator[Ranges | None]:
    """Yield an executor of tasks over blocks of a network, or None without --workers."""
    with workers_of(options) as found:
        yield None if found is None else found.ranges


def add_worker_size(group: argparse._ActionsContainer) -> None:
    """Add the options of threads and memory per worker."""
    group.add_argument(
        "--worker-threads",
        type=common.positive,
        metavar="N",
        help="threads per worker (default: a share of --threads)",
    )
    group.add_argument(
        "--worker-memory",
        type=common.size,
        metavar="SIZE",
        help="memory per worker; a worker restarts above it",
    )
