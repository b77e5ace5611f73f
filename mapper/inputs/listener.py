"""Callbacks for events before the mapping of an input: notes, progress, compilation."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from mapper.monitoring.callbacks import OnFraction, ignore

if TYPE_CHECKING:
    from mapper.planning.plan import Plan

LOG = logging.getLogger("mapper")


class Listener:
    """Default listener without output: notes go to the log `mapper`."""

    def note(self, line: str) -> None:
        """Report that something was dropped, merged, ignored or assumed."""
        LOG.info(line)

    def task(self, text: str) -> AbstractContextManager[OnFraction]:
        """Report the start of a long task; yields a function that receives fractions 0 .. 1."""
        return nullcontext(ignore)

    def compile(self, works: list[str], threads: int) -> None:
        """Compile the kernels of these kinds of task if necessary, see `mapper.kernels.warmup`."""
        from mapper.kernels.warmup import compile_kernels

        compile_kernels(works, threads)

    def planned(self, plan: Plan) -> None:
        """Report the plan of the run that follows."""
