"""Processes that compile the kernels of a table into numba's cache, one module at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from mapper.concurrency.processes import python_command
from mapper.kernels.lean_compilation import spare_work, spare_wrappers
from mapper.kernels.types import types_of
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.monitoring.resources import available_bytes
from storage.system.files import lock_file

WORKER_BYTES = 600 << 20  # bytes; peak memory of a compiling process
MOST_WORKERS = 8  # few modules take long to compile, so more processes save no time
SECONDS = 0.3  # compile time of a kernel without an entry in the table
PACKAGES = ("mapper", "storage", "chipsim")


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Kernels that Python calls.

    kernels : signatures per kernel, by "module.function"; see `mapper.kernels.types`
    works : kernels per kind of work, by its name
    seconds : compile times of slow kernels, by name
    """

    kernels: dict[str, list[str]]
    works: dict[str, list[str]]
    seconds: dict[str, float]


@cache
def read_table(path: Path) -> KernelTable:
    return KernelTable(**json.loads(path.read_bytes()))


@contextmanager
def alone(lock: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file, if the file system supports locks.

    on_wait : called once if another process holds the lock
    """
    with lock.open("w") as file:
        try:
            lock_file(file.fileno())
        except (BlockingIOError, PermissionError):
            on_wait()
            lock_file(file.fileno(), wait=True)
        except OSError:  # some network file systems
            pass
        yield


class KernelTeam:
    """Processes that compile one module at a time, the slowest modules first.

    done, size : number of kernels compiled so far; number of processes
    failed : kernels that will be compiled at their first call
    """

    def __init__(
        self,
        table: Path,
        kernels: Iterable[str],
        lock: Path,
        on_done: Callable[[str], None] = ignore,
        on_progress: OnFraction = ignore,
    ) -> None:
        """table : path of a `KernelTable`; kernels : names of the kernels to compile

        lock : file that a process of the team locks while it writes numba's index
        on_done : called with each compiled kernel, one call at a time
        on_progress : called with the completed fraction of the work
        """
        seconds = read_table(table).seconds
        modules: dict[str, list[str]] = {}
        for kernel in kernels:
            modules.setdefault(kernel.rpartition(".")[0], []).append(kernel)
        self._work = {
            kernel: seconds.get(kernel, SECONDS) for task in modules.values() for kernel in task
        }
        self._tasks = sorted(
            modules.values(), key=lambda task: sum(self._work[kernel] for kernel in task)
        )
        self.failed: list[str] = []
        self.done = self.size = 0
        self._spent = 0.0
        self._table, self._numba_lock = table, lock
        self._on_done, self._on_progress = on_done, on_progress
        self._lock = threading.Lock()

    def run(self, processes: int) -> None:
        """Compile all kernels; the kernels of a process that dies are `failed`.

        processes : upper limit; fewer run if modules or memory are few
        """
        if not self._tasks:
            return
        most = min(processes, MOST_WORKERS, len(self._tasks), available_bytes() // WORKER_BYTES)
        self.size = max(1, most)
        call = f"m.work({str(self._table)!r}, {str(self._numba_lock)!r})"
        team: list[subprocess.Popen[str]] = []
        threads = []
        try:
            for _ in range(self.size):
                process = subprocess.Popen(
                    python_command(__name__, call),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    text=True, encoding="utf-8",
                )  # fmt: skip
                team.append(process)
                threads.append(threading.Thread(target=self._feed, args=(process,), daemon=True))
                threads[-1].start()
            for thread in threads:
                while thread.is_alive():  # polls, so that this thread receives Ctrl-C
                    thread.join(0.1)
                    self._on_progress(min(1.0, self._spent / sum(self._work.values())))
        finally:
            for process in team:
                process.kill()
                process.wait()
            for thread in threads:
                thread.join()
            for process in team:
                for pipe in filter(None, (process.stdin, process.stdout)):
                    # data that could not be written is lost with the process
                    with suppress(OSError):
                        pipe.close()
        self.failed += [kernel for task in self._tasks for kernel in task]

    def _feed(self, process: subprocess.Popen[str]) -> None:
        """Send modules to a process one by one, and record the kernels that it has compiled."""
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            with self._lock:
                if not self._tasks:
                    return
                task = self._tasks.pop()
            left = list(task)
            with suppress(OSError, ValueError):  # the process has died
                print(*task, file=process.stdin, flush=True)
                while left and (line := process.stdout.readline()):
                    outcome, kernel = line.split()
                    self._record(kernel, outcome == "done")
                    left.remove(kernel)
            with self._lock:
                self.failed += left
            if left:
                return

    def _record(self, kernel: str, compiled: bool) -> None:
        with self._lock:
            self._spent += self._work[kernel]
            if not compiled:
                self.failed.append(kernel)
                return
            self.done += 1
            self._on_done(kernel)


def work(table: str, lock: str) -> None:
    """Compile in a process of a team: read lines of kernels, answer one line per kernel."""
    import gc
    import signal

    from numba.core import caching

    index_file: Any = caching.IndexDataCacheFile
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    gc.disable()  # saves a tenth of the time
    answers, sys.stdout = sys.stdout, sys.stderr
    # Two processes may compile a kernel that others call, and numba updates the index of a source
    # file without a lock.
    save = index_file.save

    def save_alone(self: Any, key: Any, data: Any) -> None:
        with alone(Path(lock), ignore):
            save(self, key, data)

    index_file.save = save_alone
    kernels = read_table(Path(table)).kernels
    lean = spare_work(kernels)
    for line in sys.stdin:
        for kernel in line.split():
            _answer(answers, kernel, _compile(kernel, kernels, lean))


def _answer(answers: TextIO, kernel: str, compiled: bool) -> None:
    print("done" if compiled else "failed", kernel, file=answers, flush=True)


def _compile(name: str, kernels: dict[str, list[str]], lean: bool) -> bool:
    """Load or compile a kernel for the types of the table; return whether it succeeded."""
    try:
        import_module(name.rpartition(".")[0])
        spare_wrappers(PACKAGES, kernels, lean)
        load_kernel(name, kernels[name])
    except Exception:
        return False
    return True


def load_kernel(name: str, signatures: Collection[str]) -> None:
    """Load a kernel from numba's cache, or compile it."""
    module, _, function = name.rpartition(".")
    kernel = getattr(import_module(module), function)
    for types in signatures:
        kernel.compile(types_of(types))
