"""Who hears what happens to an input before it is mapped: notes, progress, compilation."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mapper.runtime.plan import Plan

LOG = logging.getLogger("mapper")


class Listener:
    """Hears of everything, and shows nothing: notes go to the log `mapper`."""

    def note(self, line: str) -> None:
        """Something was dropped, merged, ignored or assumed."""
        LOG.info(line)

    def task(self, text: str) -> AbstractContextManager[Callable[[float], None]]:
        """Something begins that takes time; gives a function that takes fractions 0 .. 1."""
        return nullcontext(lambda fraction: None)

    def compile(self, works: list[str], threads: int) -> None:
        """Compile what kinds of work need, see `mapper.warmup`, if this is their first use."""
        from mapper.warmup import compile_kernels

        compile_kernels(works, threads)

    def planned(self, plan: Plan) -> None:
        """The run that follows has this plan."""
