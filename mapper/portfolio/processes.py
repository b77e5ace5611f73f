"""Runs side by side on this machine: one process for each place, which does run after run.

A process loads the compiled kernels once. It is told of runs by its standard input and answers by
its standard output, in pickles. Where there is nobody to tell it anything any more, it ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO

from mapper.errors import BAD_INPUT
from mapper.inputs.listener import Listener
from mapper.portfolio.executor import Executor, OnNote, Outcome, UnkeptStop, perform
from mapper.portfolio.run import RunTask
from mapper.runtime.callbacks import ignore
from mapper.runtime.monitor import Monitor
from mapper.runtime.resources import all_cores
from storage.errors import StorageWarning

ATTEMPTS = 3  # of a run whose process has died
WAKE = 0.1  # seconds that the main thread sleeps: not every system wakes it for a signal


class ProcessExecutor(Executor):
    """So many processes, each with one run at a time. A run whose process dies is done again, from
    its last step on.

    on_note : what runs have to say; it is called by the thread that takes the outcomes
    """

    def __init__(self, places: int, on_note: OnNote = ignore) -> None:
        self._places, self._on_note = places, on_note
        self._waiting: deque[tuple[RunTask, int]] = deque()
        self._news: SimpleQueue[Outcome | tuple[str, str]] = SimpleQueue()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def outcomes(self, tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        self._waiting.extend((task, 1) for task in tasks)
        for place in range(min(self._places, len(tasks))):
            thread = threading.Thread(target=self._serve, args=(place,), daemon=True)
            self._threads.append(thread)
            thread.start()
        left = len(tasks)
        while left:
            try:
                found = self._news.get(timeout=WAKE)
            except Empty:  # so that this thread hears of Ctrl-C
                continue
            if isinstance(found, Outcome):
                left -= 1
                yield found
            else:
                self._on_note(*found)

    def close(self) -> None:
        """End the processes, at work or not."""
        with self._lock:
            self._closed = True
            for process in self._processes.values():
                process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self, place: int) -> None:
        """Have a process do run after run; another takes the place of one that dies."""
        if hasattr(signal, "pthread_sigmask"):  # processes hear of Ctrl-C by being ended
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while True:
            with self._lock:
                if self._closed or not self._waiting:
                    process = self._processes.pop(place, None)
                    break
                task, attempt = self._waiting.popleft()
            try:
                self._news.put(self._ask(self._process(place), task))
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                failed = self._lost(place, task, attempt, error)
                if failed is not None:
                    self._news.put(failed)
        if process is not None:
            _end(process)

    def _process(self, place: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise EOFError
            process = self._processes.get(place)
            if process is None:
                process = self._processes[place] = _start()
            return process

    def _ask(self, process: subprocess.Popen[bytes], task: RunTask) -> Outcome:
        """The outcome of a task; what its process says before goes to the news."""
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(task, process.stdin)
        process.stdin.flush()
        while not isinstance(found := pickle.load(process.stdout), Outcome):
            self._news.put(found)
        return found

    def _lost(self, place: int, task: RunTask, attempt: int, error: Exception) -> Outcome | None:
        """The process of a run has died: the run waits again, or has failed."""
        with self._lock:
            process = self._processes.pop(place, None)
            if self._closed:
                if process is not None:
                    self._processes[place] = process
                return None
        how = f"could not be started ({error})" if process is None else _end(process)
        name = task.output.name
        if attempt < ATTEMPTS:
            self._news.put((name, f"note: {name}: its process {how}; the run is done again"))
            with self._lock:
                self._waiting.appendleft((task, attempt + 1))
            return None
        text = f"its process {how}, {ATTEMPTS} times; give fewer --workers, or less --memory"
        return Outcome(name, None, text, BAD_INPUT)


def _start() -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    start = f"import sys; sys.path.insert(0, {str(root)!r}); import {__name__} as p; p.work()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _end(process: subprocess.Popen[bytes]) -> str:
    """Let go of a process that has nothing to do or has died; returns how it ended."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):
            pipe.close()
    code = process.wait()
    if code >= 0:
        return f"has ended with code {code}"
    try:
        return f"was killed ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed (signal {-code})"


# What the process does


def work() -> None:
    """Do the runs that standard input tells of, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever has started it ends it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no answer
    tasks: SimpleQueue[RunTask] = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, tasks), daemon=True).start()
    while True:
        task = tasks.get()
        name = task.output.name
        told = _Told(name, answers)
        with warnings.catch_warnings():
            warnings.simplefilter("always", StorageWarning)
            warnings.showwarning = told.warned
            outcome = perform(task, lambda log: Monitor(log=log, stop=UnkeptStop()), told)
        _send(answers, outcome)


def _read(pipe: BinaryIO, tasks: SimpleQueue[RunTask]) -> None:
    """Take tasks; at the end of the pipe the process ends, whatever it is at."""
    try:
        while True:
            tasks.put(pickle.load(pipe))
    except BaseException:
        os._exit(0)


def _send(answers: BinaryIO, answer: Outcome | tuple[str, str]) -> None:
    pickle.dump(answer, answers)
    answers.flush()


class _Told(Listener):
    """What a run has to say goes to whoever has started the process."""

    def __init__(self, name: str, answers: BinaryIO) -> None:
        self._name, self._answers = name, answers

    def note(self, line: str) -> None:
        _send(self._answers, (self._name, line))

    def compile(self, works: list[str], threads: int) -> None:
        """One process compiles, with all cores; the others wait for it."""
        from mapper.warmup import compile_kernels

        def on_start(count: int) -> None:
            self.note(f"compiling {count} kernels, once after installation ...")

        found = compile_kernels(works, all_cores(), on_start)
        if found.processes:
            self.note(f"compiling kernels: done in {found.seconds:.0f} s")

    def warned(
        self, message: Warning | str, category: type[Warning], *where: Any, **more: Any
    ) -> None:
        if issubclass(category, StorageWarning):
            self.note(f"note: {message}")
