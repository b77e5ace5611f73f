"""Where runs are done: what an executor takes and gives, and the one that works in this process.

An executor gets all runs and gives their outcomes as they come. It knows nothing of folders,
tables and what is best: that is for `mapper.portfolio.runner`.
"""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mapper.errors import BAD_INPUT, known_error
from mapper.inputs.listener import Listener
from mapper.portfolio.figures import Figures, figures_of
from mapper.portfolio.run import RunTask, run_into_folder
from mapper.runtime.monitor import Monitor
from mapper.runtime.stopping import GRACE, Keep, Stop
from storage.closing import Closing

OnNote = Callable[[str, str], None]
"""Gets the name of a run, and what it has to say."""


class Outcome(NamedTuple):
    """What became of a run.

    name : of its folder; figures : None if it failed, and then the rest says why
    trace : of an error that nobody has foreseen
    """

    name: str
    figures: Figures | None
    error: str = ""
    exit_code: int = 0
    trace: str = ""


class Executor(Closing):
    """Does runs, as many at a time as it has places.

    `close` ends those at work, as a killed process ends: they can be resumed.
    """

    @abstractmethod
    def outcomes(self, tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        """What becomes of each task, in order of completion; a failed run is an outcome, too."""


class UnkeptStop(Stop):
    """Of a run among many: a mapping that was cut short would be compared with whole ones."""

    def keep(self, make: Keep) -> None:
        self.check()


class LocalExecutor(Executor):
    """One run after the other, in this process.

    make_monitor : gets the path of a log and the flag that ends the run
    listener_of : gets the name of a run
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
            if stop.asked:  # while it wrote its results: it is complete, and the last one
                raise KeyboardInterrupt

    def close(self) -> None:
        pass


def perform(task: RunTask, make_monitor: Callable[[Path], Monitor], listener: Listener) -> Outcome:
    """Do a run; only Ctrl-C is raised. `task.output.name` names it."""
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
