"""Dask plugin that closes a scheduler, and so its workers, when the driver disconnects."""

from __future__ import annotations

from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin


class LastClient(SchedulerPlugin):  # type: ignore[misc]  # mypy does not read Dask
    """Scheduler plugin: closes the scheduler when the last client disconnects."""

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        if not [name for name in scheduler.clients if name not in (client, "fire-and-forget")]:
            scheduler.loop.call_later(1, scheduler.close)


def dask_setup(scheduler: Any) -> None:
    """Add the plugin; Dask calls this when a scheduler starts with `--preload`."""
    scheduler.add_plugin(LastClient())
