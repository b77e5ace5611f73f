"""Interface of worker processes, as used by the pipeline."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mapper.executors.executor import ShardExecutor
from mapper.executors.shard import ChunkedRows
from mapper.monitoring.callbacks import Advance, ignore
from mapper.monitoring.monitor import Monitor

if TYPE_CHECKING:
    from mapper.executors.sections import Sections, SendTask
    from storage.scratch.scratch import Scratch


PATIENCE = 600.0
SYSTEMS = ("slurm", "pbs", "lsf", "sge", "oar", "htcondor")


def batch_jobs(where: str) -> tuple[str, int] | None:
    """Parse `SYSTEM:N` into the batch system and the number of jobs; None for anything else."""
    system, colon, count = where.partition(":")
    if colon and system in SYSTEMS and count.isdecimal() and len(count) < 10 and int(count):
        return system, int(count)
    return None


class Asked(NamedTuple):
    """Workers requested for a run.

    where : number of processes, address of a scheduler, its file, jobs as SYSTEM:N, a `SlurmStep`,
        or a client, which the caller owns
    threads, memory : per worker that is started; bytes; None for the memory of the machine or the
        configuration of the batch system
    patience : seconds that a run waits while it has no workers
    shared : folder that all workers see; None for the output folder
    """

    where: Any
    threads: int | None = 1
    memory: int | None = None
    patience: float = PATIENCE
    shared: Path | None = None

    @property
    def together(self) -> int:
        """Number of workers that share the memory limit that each of them reports."""
        return self.where if isinstance(self.where, int) and self.memory is None else 1


class RowSource(Protocol):
    """Source of rows; picklable.

    exchanged : whether workers exchange rows through the shared folder
    """

    @property
    def exchanged(self) -> bool: ...

    def open(self, scratch: Scratch) -> ChunkedRows:
        """Return the rows, cached in scratch once read; raises the errors of reading."""


class WorkerShardExecutor(ShardExecutor):
    """Executor on workers that can also contract the graph and run on the coarser one."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """Bytes per worker for rows received from others."""

    @abstractmethod
    def sections(self, vertices: int, entries: int) -> Sections:
        """Return run files to be written, for a graph of about this size."""

    @abstractmethod
    def send(
        self, task: SendTask, shards: Sequence[int], advance: Advance = ignore
    ) -> NDArray[np.int64]:
        """Let the owners of some shards run their part of a task; return entries by section.

        task : without shards; advance : called with the number of entries of each chunk
        Raises `ResumableError` if this executor is closed.
        """

    @abstractmethod
    def above(
        self,
        source: RowSource,
        chunks: int,
        entries: int,
        together: int,
        again: Callable[[list[int]], object],
    ) -> WorkerShardExecutor:
        """Return an executor of the same workers for rows built from run files, until it is closed.

        chunks, entries : size of the rows; together : number of chunks built at a time
        again : rewrites the files of some shards
        """

    @abstractmethod
    def close(self) -> None:
        """Delete the files of these rows on workers."""


class Workers(Protocol):
    """Workers of a run."""

    def executor(
        self, source: RowSource, chunks: int, entries: int, monitor: Monitor
    ) -> WorkerShardExecutor:
        """Return an executor of the workers for these rows; the previous one is closed.

        chunks, entries : number of chunks and entries of the rows
        """

    def facts(self) -> dict[str, Any]:
        """Return the entry `workers` of report.json."""


Ranges = Callable[..., Iterator[Any]]
"""Called with a function, the number of blocks, and arguments; yields `work(range, *arguments)` of
consecutive ranges that cover all blocks, in order."""


def all_at_once(work: Callable[..., Any], blocks: int, *arguments: Any) -> Iterator[Any]:
    """Run all blocks as one range in this process."""
    yield work(range(blocks), *arguments)
