"""Stages of a compilation in order, with time measurement.

Code of a stage runs inside `stage`, at any call depth. The clock of the innermost stage runs,
clocks of outer stages pause:

    clock = Clock()
    with clock.running():
        with stage("instructions"):
            with stage("parameters"):
                ...

Without a running clock nothing is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mapper.monitoring.callbacks import OnProgress, ignore

ORDER = (
    "read", "optimise", "quantise", "verify", "partition", "execution order", "feature memory",
    "weight memory", "dense weights", "parameters", "packet headers", "host memory",
    "tiles and cores", "instructions", "cycles", "memory images", "check", "judge", "dumps",
    "usage report",
)  # fmt: skip
"""Weights of dense layers count separately from weights of other convolutions."""


class Clock:
    """Measures stages, which may repeat and nest.

    on_stage : called at the end of each outermost stage, for it and its inner stages, with the name
        and the time of this run in seconds
    on_begin : called at the start of each outermost stage with its name
    """

    def __init__(
        self, on_stage: Callable[[str, float], None] = ignore,
        on_begin: Callable[[str], None] = ignore,
    ) -> None:  # fmt: skip
        self._on_stage, self._on_begin = on_stage, on_begin
        self._seconds: dict[str, float] = {}
        self._names: list[str] = []  # active stages, outermost first
        self._since = 0.0

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of all stages so far, in order."""
        return {name: self._seconds[name] for name in ORDER if name in self._seconds}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make `stage` measure with this clock."""
        token = _running.set(self)
        try:
            yield
        finally:
            _running.reset(token)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if name not in ORDER:
            raise ValueError(f"unknown stage {name}")
        before = self.seconds if not self._names else {}
        if not self._names:
            self._on_begin(name)
        self._count()
        self._names.append(name)
        try:
            yield
        finally:
            self._count()
            self._names.pop()
        if not self._names:
            for one, spent in self.seconds.items():
                if (more := spent - before.get(one, 0.0)) > 0 or one == name:
                    self._on_stage(one, more)

    def _count(self) -> None:
        """Add the time since the last change to the innermost stage."""
        now = time.perf_counter()
        if self._names:
            name = self._names[-1]
            self._seconds[name] = self._seconds.get(name, 0.0) + now - self._since
        self._since = now


def clock_of(on_progress: OnProgress) -> Clock:
    """Return a clock that calls `on_progress` at the start and the end of each outermost stage."""
    begun = ""

    def begin(name: str) -> None:
        nonlocal begun
        begun = name
        on_progress(name, 0.0)

    def end(name: str, _: float) -> None:
        if name == begun:
            on_progress(name, 1.0)

    return Clock(end, begin)


_running: ContextVar[Clock | None] = ContextVar("clock", default=None)


@contextmanager
def stage(name: str, whole: bool = False) -> Iterator[None]:
    """Measure a stage; whole : include all inner stages, which only try alternatives."""
    clock = _running.get()
    if clock is None:
        yield
        return
    with clock.stage(name):
        if not whole:
            yield
            return
        token = _running.set(None)
        try:
            yield
        finally:
            _running.reset(token)
