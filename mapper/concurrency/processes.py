"""Further Python processes, for work that threads cannot do at the same time."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

WAKE = 0.1  # seconds between wake-ups of the main thread: signals do not wake it on every system


def python_command(module: str, call: str) -> list[str]:
    """Return the command of a process that imports a module of this project as `m` and evaluates a
    call."""
    root = Path(__file__).parents[2]
    start = f"import sys; sys.path.insert(0, {str(root)!r}); import {module} as m; {call}"
    return [sys.executable, "-P", "-c", start]


def answers() -> BinaryIO:
    """In such a process: return its standard output, and print to standard error from now on.

    Ctrl-C is left to the parent process, which ends this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    found = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return found


class Calls:
    """A function of a module, called with each of some arguments in separate processes.

    The processes end with the `with` statement, and with this process. Function, arguments and
    results are pickled; an argument that cannot be has no result.
    """

    def __init__(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> None:
        self._results: list[Any] = [None] * len(arguments)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        for at, argument in enumerate(arguments):
            try:
                task = pickle.dumps((function, argument))
            except RecursionError:  # references nested too deeply: as if the process failed
                continue
            process = subprocess.Popen(
                python_command(__name__, "m.call()"), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self._processes.append(process)
            given = process, at, task
            self._threads.append(threading.Thread(target=self._ask, args=given, daemon=True))
            self._threads[-1].start()

    def __enter__(self) -> Calls:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for process in self._processes:
            process.kill()
            process.wait()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):  # unsent data is lost with the process
                    pipe.close()

    def results(self) -> list[Any]:
        """Wait for all results, and return them in order; None where a process failed."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(WAKE)
        return self._results

    def _ask(self, process: subprocess.Popen[bytes], at: int, task: bytes) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError, EOFError, pickle.UnpicklingError):  # the process has died
            process.stdin.write(task)
            process.stdin.flush()
            self._results[at] = pickle.load(process.stdout)


def call() -> None:
    """Code of a process of `Calls`."""
    output = answers()
    function, argument = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pickle.dump(function(argument), output)
    output.flush()


def _end_with_parent() -> None:
    """End this process when its standard input is closed."""
    sys.stdin.buffer.read()
    os._exit(0)
