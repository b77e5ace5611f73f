"""Ends a scheduler whose driver is gone, however that ended, and with it the workers."""

from __future__ import annotations

from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin


class LastClient(SchedulerPlugin):  # type: ignore[misc]  # the engine is not read by mypy
    """Closes the scheduler when the last client has gone."""

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        if not [name for name in scheduler.clients if name not in (client, "fire-and-forget")]:
            scheduler.loop.call_later(1, scheduler.close)


def dask_setup(scheduler: Any) -> None:
    """The engine calls this where a scheduler starts with `--preload`."""
    scheduler.add_plugin(LastClient())
