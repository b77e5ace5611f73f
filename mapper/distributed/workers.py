"""Processes that look at rows for the driver, as the pipeline sees them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mapper.distributed.executor import ShardExecutor
from mapper.distributed.shard import Work
from mapper.errors import UsageError
from mapper.runtime.callbacks import Advance, ignore
from mapper.runtime.monitor import Monitor

if TYPE_CHECKING:
    from mapper.distributed.sections import Pairs, Sections
    from mapper.graph.rows import Rows
    from storage.scratch.scratch import Scratch


PATIENCE = 600.0
SYSTEMS = ("slurm", "pbs", "lsf", "sge", "oar", "htcondor")


def batch_jobs(where: str) -> tuple[str, int] | None:
    """The batch system and number of jobs that `SYSTEM:N` names; None if it is something else."""
    system, colon, count = where.partition(":")
    if colon and system in SYSTEMS and count.isdecimal() and len(count) < 10 and int(count):
        return system, int(count)
    return None


class Asked(NamedTuple):
    """Which workers a run is to have.

    where : how many processes, the address of a scheduler, its file, jobs as SYSTEM:N, a
        `SlurmStep`, or a client, which stays the caller's
    threads, memory : of each worker that is started; bytes, None for what the machine has, or what
        the batch system is configured for
    patience : seconds that a run waits without any worker
    shared : a folder that all of them see; None for the output folder
    """

    where: Any
    threads: int | None = 1
    memory: int | None = None
    patience: float = PATIENCE
    shared: Path | None = None

    @property
    def together(self) -> int:
        """How many workers have the memory that each says it has, all of them together."""
        return self.where if isinstance(self.where, int) and self.memory is None else 1


def require_seen(path: Path, shown: str = "", content: str | None = None) -> None:
    """Raise `UsageError` if this process, a worker, does not see a file.

    shown : as which the message names it; content : of the file, or it is another
    """
    try:
        seen = path.exists() if content is None else path.read_text() == content
    except OSError:
        seen = False
    if not seen:
        raise UsageError(
            f"{shown or path}: the worker on {socket.gethostname()} does not see it; put it where "
            "all workers do"
        )


class RowSource(Protocol):
    """Where rows are from; goes to other processes.

    exchanged : whether rows go from one worker to another, through the folder that all see
    """

    @property
    def exchanged(self) -> bool: ...

    def open(self, scratch: Scratch) -> Rows:
        """The rows, kept in scratch once they have been read; raises what reading raises."""


class WorkerShardExecutor(ShardExecutor, Protocol):
    """Workers who look at a graph, and can have one whose vertices are clusters of its own."""

    @property
    def memory(self) -> int:
        """Bytes of a worker for what comes from others."""

    def sections(self, vertices: int, entries: int) -> Sections:
        """Run files for a graph of so many vertices and about so many entries, to be written."""

    def send(
        self,
        sections: Sections,
        shards: Sequence[int],
        work: Work[Pairs],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> NDArray[np.int64]:
        """Let who has some shards write the pairs that a work makes of them: entries by section.

        advance : called with the entries of each chunk
        Raises `ResumableError` if this executor is closed.
        """

    def above(
        self,
        source: RowSource,
        chunks: int,
        entries: int,
        together: int,
        again: Callable[[list[int]], object],
    ) -> WorkerShardExecutor:
        """Let the same workers look at rows made of run files, until that executor is closed.

        chunks, entries : how many these have; together : chunks that are made at a time
        again : lets the files of some shards be written again
        """

    def close(self) -> None:
        """Leave nothing of these rows on workers."""


class Workers(Protocol):
    """Workers of a run."""

    def executor(
        self, source: RowSource, chunks: int, entries: int, monitor: Monitor
    ) -> WorkerShardExecutor:
        """Let the workers look at rows from now on, and at no others any more.

        chunks, entries : how many chunks and entries the rows have
        """

    def facts(self) -> dict[str, Any]:
        """The `workers` of report.json."""
