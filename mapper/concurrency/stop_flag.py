"""Stop flag: tasks check it between kernels and end when it is set."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

SLICE = 1 << 18  # annealing proposals between checks of the flag: tenths of a second


class StoppedError(KeyboardInterrupt):
    """The run was asked to end."""


class StopFlag:
    """Flag that asks all tasks of a run to end."""

    def __init__(self) -> None:
        self._asked = Event()
        self.phase = ""  # of the running stage, for display

    @property
    def asked(self) -> bool:
        """Whether all tasks should end; cheap, and safe from any thread."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Ask all running tasks to end."""
        self._asked.set()

    def begin(self, phase: str) -> None:
        """Set the phase of a long stage, for progress; raises `StoppedError` as `check` does."""
        self.phase = phase
        self.check()

    def check(self) -> None:
        """Raise `StoppedError` if all tasks should end."""
        if self.asked:
            raise StoppedError


def slices(proposals: int, stop: StopFlag | None) -> Iterator[int]:
    """Yield numbers that add up to `proposals`; check the stop flag before each."""
    for done in range(0, proposals, SLICE):
        if stop is not None:
            stop.check()
        yield min(SLICE, proposals - done)
