"""Parallel runs on this machine: one process per slot, each executing one run at a time.

A process loads the compiled kernels once. It receives runs on its standard input and answers on its
standard output, as pickles. It ends when its standard input is closed.
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
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO

from mapper.concurrency.processes import WAKE, answers, python_command
from mapper.errors import BAD_INPUT
from mapper.inputs.listener import Listener
from mapper.monitoring.callbacks import ignore
from mapper.monitoring.monitor import Monitor
from mapper.monitoring.resources import all_cores
from mapper.portfolio.executor import Executor, OnNote, Outcome, UnkeptStop, perform
from mapper.portfolio.run import RunTask
from storage.blobs.access import StoreAccess, current_access, store_access
from storage.errors import StorageWarning
from storage.system.processes import block_interrupts

ATTEMPTS = 3  # attempts at a run whose process dies


class ProcessExecutor(Executor):
    """A fixed number of processes, each with one run at a time.

    A run whose process dies is resumed from its last step in another process.

    on_note : called with notes of runs, in the thread that iterates over the outcomes
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
            except Empty:  # lets this thread handle Ctrl-C
                continue
            if isinstance(found, Outcome):
                left -= 1
                yield found
            else:
                self._on_note(*found)

    def close(self) -> None:
        """Kill all processes, also busy ones."""
        with self._lock:
            self._closed = True
            for process in self._processes.values():
                process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self, place: int) -> None:
        """Send runs to a process until none are left; replace a process that dies."""
        block_interrupts()  # on Ctrl-C the main thread kills the processes
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
                command = python_command(__name__, "m.work()")
                process = self._processes[place] = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            return process

    def _ask(self, process: subprocess.Popen[bytes], task: RunTask) -> Outcome:
        """Send a task to a process; queue its notes and return its outcome."""
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump((task, current_access()), process.stdin)
        process.stdin.flush()
        while not isinstance(found := pickle.load(process.stdout), Outcome):
            self._news.put(found)
        return found

    def _lost(self, place: int, task: RunTask, attempt: int, error: Exception) -> Outcome | None:
        """Handle the death of a process: queue its run again, or return a failed outcome."""
        with self._lock:
            process = self._processes.pop(place, None)
            if self._closed:
                if process is not None:
                    self._processes[place] = process
                return None
        how = f"could not be started ({error})" if process is None else _end(process)
        name = task.output.name
        if attempt < ATTEMPTS:
            self._news.put((name, f"note: {name}: its process {how}; the run is repeated"))
            with self._lock:
                self._waiting.appendleft((task, attempt + 1))
            return None
        text = f"its process {how}, {ATTEMPTS} times; use fewer --workers or less --memory"
        return Outcome(name, None, text, BAD_INPUT)


def _end(process: subprocess.Popen[bytes]) -> str:
    """Close the pipes of an idle or dead process and wait for it; return how it ended."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):
            pipe.close()
    code = process.wait()
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed (signal {-code})"


# Code of the process


def work() -> None:
    """Execute the runs that arrive on standard input, until it is closed."""
    output = answers()
    tasks: SimpleQueue[tuple[RunTask, StoreAccess]] = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, tasks), daemon=True).start()
    while True:
        task, access = tasks.get()
        name = task.output.name
        told = _Told(name, output)
        with warnings.catch_warnings(), store_access(access):
            warnings.simplefilter("always", StorageWarning)
            warnings.showwarning = told.warned
            outcome = perform(task, lambda log: Monitor(log=log, stop=UnkeptStop()), told)
        _send(output, outcome)


def _read(pipe: BinaryIO, tasks: SimpleQueue[tuple[RunTask, StoreAccess]]) -> None:
    """Queue tasks from the pipe; when it is closed, end the process at once."""
    try:
        while True:
            tasks.put(pickle.load(pipe))
    except BaseException:
        os._exit(0)


def _send(answers: BinaryIO, answer: Outcome | tuple[str, str]) -> None:
    pickle.dump(answer, answers)
    answers.flush()


class _Told(Listener):
    """Sends the notes of a run to the parent process."""

    def __init__(self, name: str, answers: BinaryIO) -> None:
        self._name, self._answers = name, answers

    def note(self, line: str) -> None:
        _send(self._answers, (self._name, line))

    def compile(self, works: list[str], threads: int) -> None:
        """Compile kernels in one process with all cores, while the others wait for it."""
        from mapper.kernels.warmup import compile_kernels

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
