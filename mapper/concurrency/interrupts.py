"""Ctrl-C, or a time limit, ends a run early: a stop flag that all tasks poll, and the best mapping
so far.

Tasks run in a separate thread while the main thread waits, so that Ctrl-C is handled at once,
whatever kernel is running. Tasks check the flag between kernels. A thread still inside a long
kernel after `GRACE` seconds is abandoned: the command finishes with the last kept mapping, and the
process ends together with that kernel (`leave`).
"""

from __future__ import annotations

import atexit
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
from threading import enumerate as threads_alive
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from mapper.concurrency.stop_flag import StopFlag, StoppedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mapper.concurrency.threads import ThreadTeam

GRACE = 0.4  # seconds that a command waits for running tasks
WAKE = 0.1  # seconds between wake-ups of the main thread: not every system wakes it for a signal

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Result = TypeVar("Result")
Keep: TypeAlias = "Callable[[ThreadTeam], NDArray[np.int32]]"

_left: list[Event] = []  # set when an abandoned thread has ended
_open: list[ExitStack] = []  # resources in use by abandoned threads


class Stop(StopFlag):
    """Stop flag of a run, and the best mapping so far.

    ::

        stop = Stop(GRACE)
        try:
            core = stop.run(work)  # which calls stop.keep now and then
        except KeyboardInterrupt:
            ...  # stop.kept returns the last kept mapping
    """

    def __init__(self, grace: float | None = None) -> None:
        """grace : seconds that tasks get to end by themselves; None waits without limit"""
        super().__init__()
        self._grace = grace
        self._ended: list[Event] = []  # one per thread
        self._due = math.inf
        self.kept: Keep | None = None
        self.late = False  # the time limit has ended the run

    def limit(self, seconds: float | None) -> None:
        """Ask all tasks to end after some seconds, but not before a mapping is kept."""
        self._due = math.inf if seconds is None else time.monotonic() + seconds

    def keep(self, make: Keep) -> None:
        """Record the best mapping so far; raise `StoppedError` if all tasks should end.

        make : computes the core of every item, with its own team, if needed; the arrays that it
            uses must not change
        """
        self.kept = make
        self.check()

    def run(self, work: Callable[[], Result], *, patient: bool = False) -> Result:
        """Run `work` in a separate thread; return its result or raise its error.

        Ctrl-C, here or in the work, or the time limit, asks all tasks to end; `StoppedError` is
        raised once they do, or after the grace period. patient : the first Ctrl-C only sets the
        flag, the second starts the grace period
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
                    result, error = done.get(timeout=self._wait(end))
                    break
                except Empty:
                    pass
                except KeyboardInterrupt:  # raised by a handler that the caller installed
                    presses.append(signal.SIGINT)
                if len(presses) > heard:
                    heard = len(presses)
                    first = not self.asked
                    self.ask()
                    if not (patient and first) and self._grace is not None:
                        end = time.monotonic() + self._grace
                if self._is_due():
                    self.late = True
                    self.ask()
                    if self._grace is not None:
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
            del error  # frees the frames of the work, which hold its arrays

    def _wait(self, end: float) -> float:
        """Return seconds until the next event that the main thread must not miss."""
        due = math.inf if self.asked else self._due
        return max(0.0, min(WAKE, min(end, due) - time.monotonic()))

    def _is_due(self) -> bool:
        """Return whether the time limit has passed, and nothing has asked the tasks to end yet."""
        return time.monotonic() >= self._due and self.kept is not None and not self.asked

    def at_work(self, patience: float = 0.1) -> bool:
        """Return whether a thread is still inside a long kernel after some seconds."""
        end = time.monotonic() + patience
        return not all(ended.wait(max(0.0, end - time.monotonic())) for ended in self._ended)

    @contextmanager
    def holding(self) -> Iterator[ExitStack]:
        """Yield an exit stack, which stays open if an abandoned thread may use its contexts."""
        with ExitStack() as stack:
            try:
                yield stack
            finally:
                if self.at_work():
                    _left.extend(self._ended)
                    _open.append(stack.pop_all())


@contextmanager
def _listening() -> Iterator[list[int]]:
    """Collect signals in a list that would otherwise raise `KeyboardInterrupt`."""
    presses: list[int] = []
    if current_thread() is not main_thread():  # only the main thread receives signals
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


def leave(code: int) -> int:
    """End the process with this exit code, after the functions registered with `atexit`.

    An orderly end would wait for abandoned threads, and frees each compiled kernel: half a second
    for a small network. Returns the code if other threads must end first, or a profiler its work.
    """
    if all(ended.is_set() for ended in _left):
        here = current_thread()
        waited = any(one is not here and not one.daemon for one in threads_alive())
        if waited or sys.getprofile() or sys.gettrace():
            return code
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed
            stream.flush()
    os._exit(code)
