"""Processes that look at rows for the driver, as the pipeline sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mapper.fleet.fleet import Fleet
from mapper.runtime.monitor import Monitor

if TYPE_CHECKING:
    from mapper.graph.rows import Rows
    from storage.scratch.scratch import Scratch


PATIENCE = 600.0


class Asked(NamedTuple):
    """Which workers a run is to have.

    where : how many processes, the address of a scheduler, its file, or a client, which stays the
        caller's
    threads, memory : of each worker that is started; bytes, None for what the machine has
    patience : seconds that a run waits without any worker
    """

    where: Any
    threads: int = 1
    memory: int | None = None
    patience: float = PATIENCE


class RowSource(Protocol):
    """Where rows are from; goes to other processes."""

    def open(self, scratch: Scratch) -> Rows:
        """The rows, kept in scratch once they have been read; raises what reading raises."""


class Workers(Protocol):
    """Workers of a run."""

    def fleet(self, source: RowSource, chunks: int, entries: int, monitor: Monitor) -> Fleet:
        """Let the workers look at rows from now on.

        chunks, entries : how many chunks and entries the rows have
        """

    def facts(self) -> dict[str, Any]:
        """The `workers` of report.json."""
