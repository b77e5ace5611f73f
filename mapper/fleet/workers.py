"""Processes that look at rows for the driver, as the pipeline sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mapper.fleet.fleet import Fleet
from mapper.runtime.monitor import Monitor

if TYPE_CHECKING:
    from mapper.graph.rows import Rows
    from storage.scratch.scratch import Scratch


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
