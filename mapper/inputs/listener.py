"""Callbacks for events before the mapping of an input: notes, progress, compilation."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from mapper.errors import name_arguments
from mapper.monitoring.callbacks import OnFraction, OnProgress, ignore

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

    @contextmanager
    def stage(self, text: str) -> Iterator[OnFraction]:
        """Report a task from its start, 0, to its end, 1."""
        with self.task(text) as told:
            told(0.0)
            yield told
            told(1.0)

    def compile(self, works: list[str], threads: int) -> None:
        """Compile the kernels of these kinds of task if necessary, see `mapper.kernels.warmup`."""
        from mapper.kernels.warmup import compile_kernels

        compile_kernels(works, threads)

    def planned(self, plan: Plan) -> None:
        """Report the plan of the run that follows."""


QUIET = Listener()


class ProgressListener(Listener):
    """Reports the fraction of each stage to a function."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress

    def task(self, text: str) -> AbstractContextManager[OnFraction]:
        return nullcontext(lambda fraction: self._on_progress(self._stage(text), fraction))

    def _stage(self, text: str) -> str:
        """Return the name of the stage of a task."""
        return "import"

    def compile(self, works: list[str], threads: int) -> None:
        from mapper.kernels.warmup import compile_kernels

        self._on_progress("compile kernels", 0.0)
        compile_kernels(
            works, threads, on_progress=lambda share: self._on_progress("compile kernels", share)
        )
        self._on_progress("compile kernels", 1.0)


class NotesListener(ProgressListener):
    """Also keeps all notes, with options of the command as arguments of Python.

    notes : a line for each, in order
    """

    def __init__(self, on_progress: OnProgress = ignore) -> None:
        super().__init__(on_progress)
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        super().note(line)
        self.notes.append(name_arguments(line.removeprefix("note: ")))

    def _stage(self, text: str) -> str:
        return text
