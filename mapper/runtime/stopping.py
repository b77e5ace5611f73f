"""Ending a run early: one flag that all work looks at, and the mapping that is kept then.

The work of a run is done by a thread of its own while the main thread waits, so that Ctrl-C is
heard at once, whatever kernel is running. Work looks at the flag between any two kernels, and ends.
What is still inside a long kernel after `GRACE` seconds is left behind: the command finishes with
the mapping that was kept last, and the process ends with that kernel (`leave`).
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mapper.runtime.threads import ThreadTeam

GRACE = 0.4  # seconds that a command gives to what is at work
WAKE = 0.1  # seconds that the main thread sleeps: not every system wakes it for a signal
SLICE = 1 << 18  # proposals of annealing between two looks at the flag: tenths of a second

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Result = TypeVar("Result")
Keep: TypeAlias = "Callable[[ThreadTeam], NDArray[np.int32]]"

_left: list[Event] = []  # set when a thread that was left behind has ended
_open: list[ExitStack] = []  # what they work with


class StoppedError(KeyboardInterrupt):
    """The run was asked to end."""


class Stop:
    """Whether a run is to end early, and the best mapping so far.

    ::

        stop = Stop(GRACE)
        try:
            core = stop.run(work)  # which calls stop.keep now and then
        except KeyboardInterrupt:
            ...  # stop.kept makes the last mapping that was kept
    """

    def __init__(self, grace: float | None = None) -> None:
        """grace : seconds that work gets to end by itself; None waits for it, however long"""
        self._grace = grace
        self._asked = Event()
        self._ended: list[Event] = []  # of each thread
        self.kept: Keep | None = None
        self.phase = ""  # of the stage at work, for people

    @property
    def asked(self) -> bool:
        """Whether everything is to end; by any thread, at little cost."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Ask everything at work to end."""
        self._asked.set()

    def begin(self, phase: str) -> None:
        """Name the phase of a long stage, for progress; raises `StoppedError` as `check` does."""
        self.phase = phase
        self.check()

    def check(self) -> None:
        """Raise `StoppedError` if everything is to end."""
        if self.asked:
            raise StoppedError

    def keep(self, make: Keep) -> None:
        """Take down the best mapping so far; raises `StoppedError` if everything is to end.

        make : makes the core of every item, with a team of its own, if it comes to that; arrays
            that it uses must not change
        """
        self.kept = make
        self.check()

    def run(self, work: Callable[[], Result], *, patient: bool = False) -> Result:
        """What `work` returns or raises; a thread of its own does it.

        On Ctrl-C here or in the work everything is asked to end; `StoppedError` is raised once it
        does, or the time of grace is over. Patient: only the second Ctrl-C is heard, the first is
        but taken down.
        """
        done: SimpleQueue[tuple[Result | None, BaseException | None]] = SimpleQueue()
        ended = Event()

        def body() -> None:
            try:
                done.put((work(), None))
            except BaseException as error:
                done.put((None, error))
            finally:
                ended.set()

        with _listening() as presses:
            heard, end = 0, math.inf
            start_new_thread(body, ())
            self._ended.append(ended)
            while True:
                try:
                    result, error = done.get(timeout=max(0.0, min(WAKE, end - time.monotonic())))
                    break
                except Empty:
                    pass
                except KeyboardInterrupt:  # of a handler that others have installed
                    presses.append(signal.SIGINT)
                if len(presses) > heard:
                    heard = len(presses)
                    first = not self.asked
                    self.ask()
                    if not (patient and first) and self._grace is not None:
                        end = time.monotonic() + self._grace
                if time.monotonic() >= end:
                    raise StoppedError
            if len(presses) > heard:
                self.ask()
        if error is None:
            return result  # type: ignore[return-value]
        if isinstance(error, KeyboardInterrupt):
            self.ask()
        try:
            raise error
        finally:
            del error  # and with it the frames of the work, which hold its arrays

    def at_work(self, patience: float = 0.1) -> bool:
        """Whether a thread is inside a long kernel still, after some seconds of patience."""
        end = time.monotonic() + patience
        return not all(ended.wait(max(0.0, end - time.monotonic())) for ended in self._ended)

    @contextmanager
    def holding(self) -> Iterator[ExitStack]:
        """A stack of contexts, left open if a thread that was left behind may be using them."""
        with ExitStack() as stack:
            try:
                yield stack
            finally:
                if self.at_work():
                    _left.extend(self._ended)
                    _open.append(stack.pop_all())


@contextmanager
def _listening() -> Iterator[list[int]]:
    """Signals that would raise `KeyboardInterrupt` somewhere are put into a list instead."""
    presses: list[int] = []
    if current_thread() is not main_thread():  # signals are for the main thread alone
        yield presses
        return
    ours = [one for one in SIGNALS if signal.getsignal(one) is signal.default_int_handler]
    try:
        for one in ours:
            signal.signal(one, lambda number, _: presses.append(number))
        yield presses
    finally:
        for one in ours:
            signal.signal(one, signal.default_int_handler)


def slices(proposals: int, stop: Stop | None) -> Iterator[int]:
    """Numbers that add up to `proposals`, with a look at the flag before each."""
    for done in range(0, proposals, SLICE):
        if stop is not None:
            stop.check()
        yield min(SLICE, proposals - done)


def leave(code: int) -> int:
    """The exit code, unless a thread was left behind: then the process ends here, without it."""
    if not all(ended.is_set() for ended in _left):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    return code
