"""Executor interface: how many runs are executed, and the executor in this process.

An executor receives all runs and yields their outcomes as they complete. Folders, tables and the
choice of the best run belong to `mapper.portfolio.runner`.
"""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mapper.concurrency.interrupts import GRACE, Keep, Stop
from mapper.errors import BAD_INPUT, known_error
from mapper.inputs.listener import Listener
from mapper.monitoring.monitor import Monitor
from mapper.portfolio.figures import Figures, figures_of
from mapper.portfolio.run import RunTask, run_into_folder
from storage.closing import Closing

OnNote = Callable[[str, str], None]
"""Called with the name of a run and a note about it."""


class Outcome(NamedTuple):
    """The outcome of a run.

    name : name of the run's folder
    figures : None if the run failed; the other fields then give the reason
    trace : traceback of an unexpected error
    """

    name: str
    figures: Figures | None
    error: str = ""
    exit_code: int = 0
    trace: str = ""


class Executor(Closing):
    """Executes runs, as many at a time as it has slots.

    `close` kills running tasks, which can be resumed later.
    """

    @abstractmethod
    def outcomes(self, tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        """Yield the outcome of each task in order of completion; failed runs also have one."""


class UnkeptStop(Stop):
    """A stop flag that keeps no partial mapping: it would be compared with complete ones."""

    def keep(self, make: Keep) -> None:
        self.check()


class LocalExecutor(Executor):
    """Executes one run at a time, in this process.

    make_monitor : called with the path of a log and the flag that ends the run
    listener_of : called with the name of a run
    """

    def __init__(
        self,
        make_monitor: Callable[[Path, Stop], Monitor],
        listener_of: Callable[[str], Listener],
    ) -> None:
        self._make_monitor, self._listener_of = make_monitor, listener_of

    def outcomes(self, tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        for task in tasks:
            stop = UnkeptStop(GRACE)

            def make_monitor(log: Path, stop: Stop = stop) -> Monitor:
                return self._make_monitor(log, stop)

            outcome = perform(task, make_monitor, self._listener_of(task.output.name))
            yield outcome
            if stop.asked:  # Ctrl-C while results were written: this run is complete
                raise KeyboardInterrupt

    def close(self) -> None:
        pass


def perform(task: RunTask, make_monitor: Callable[[Path], Monitor], listener: Listener) -> Outcome:
    """Execute a run, named `task.output.name`; only Ctrl-C is raised."""
    name = task.output.name
    try:
        finished = run_into_folder(task, make_monitor, listener)
        return Outcome(name, figures_of(finished.report))
    except Exception as error:
        known = known_error(error)
        if known is not None:
            return Outcome(name, None, *known)
        text = f"{type(error).__name__}: {error}"
        return Outcome(name, None, text, BAD_INPUT, traceback.format_exc())
