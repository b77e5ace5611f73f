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

from mapper.runtime.callbacks import ignore
from mapper.runtime.kernel_types import types_of
from mapper.runtime.lean_compilation import spare_work, spare_wrappers
from mapper.runtime.resources import available_bytes

WORKER_BYTES = 600 << 20  # peak memory of a process that compiles
MOST_WORKERS = 8  # few modules take long to compile, so that more processes save no time
SECONDS = 0.3  # compile time of a kernel that the table does not time
PACKAGES = ("mapper", "storage", "chipsim")


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Kernels that Python calls.

    kernels : signatures of each, by "module.function"; see `mapper.runtime.kernel_types`
    works : the kernels of each kind of work, by its name
    seconds : compile times of the slow ones, by name
    """

    kernels: dict[str, list[str]]
    works: dict[str, list[str]]
    seconds: dict[str, float]


@cache
def read_table(path: Path) -> KernelTable:
    return KernelTable(**json.loads(path.read_bytes()))


@contextmanager
def alone(lock: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file, where the file system has locks.

    on_wait : called once if another process holds it
    """
    try:
        import fcntl
    except ImportError:  # Windows: two processes do the same work, with the same result
        yield
        return
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # some network file systems
            pass
        yield


class KernelTeam:
    """Processes that compile, each a module at a time, the slowest modules first.

    done, size : kernels compiled so far; processes
    failed : kernels to compile at their first call
    """

    def __init__(
        self,
        table: Path,
        kernels: Iterable[str],
        lock: Path,
        on_done: Callable[[str], None] = ignore,
        on_progress: Callable[[float], None] = ignore,
    ) -> None:
        """
        table : a file with a `KernelTable`; kernels : those of its names that are compiled
        lock : a file that only one process of the team holds while it writes numba's index
        on_done : receives each kernel that was compiled, one call at a time
        on_progress : receives the share of the work that is done
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
        """Compile all; the kernels of a process that dies are `failed`.

        processes : at most; fewer where modules or memory are few
        """
        if not self._tasks:
            return
        most = min(processes, MOST_WORKERS, len(self._tasks), available_bytes() // WORKER_BYTES)
        self.size = max(1, most)
        root = Path(__file__).parents[2]
        start = (
            f"import sys; sys.path.insert(0, {str(root)!r}); import {__name__} as k; "
            f"k.work({str(self._table)!r}, {str(self._numba_lock)!r})"
        )
        team: list[subprocess.Popen[str]] = []
        threads = []
        try:
            for _ in range(self.size):
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", start],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    text=True, encoding="utf-8",
                )  # fmt: skip
                team.append(process)
                threads.append(threading.Thread(target=self._feed, args=(process,), daemon=True))
                threads[-1].start()
            for thread in threads:
                while thread.is_alive():  # so that this thread receives Ctrl-C
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
                    with suppress(OSError):  # what could not be written is lost with the process
                        pipe.close()
        self.failed += [kernel for task in self._tasks for kernel in task]

    def _feed(self, process: subprocess.Popen[str]) -> None:
        """Pass a process one module after another, and record what it has compiled."""
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            with self._lock:
                if not self._tasks:
                    return
                task = self._tasks.pop()
            left = list(task)
            with suppress(OSError, ValueError):  # it has died
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
    """Compile, in a process of a team: reads lines of kernels, answers with a line for each."""
    import gc
    import signal

    from numba.core import caching

    index_file: Any = caching.IndexDataCacheFile
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it ends it
    gc.disable()  # a tenth of the time
    answers, sys.stdout = sys.stdout, sys.stderr
    # Two processes may compile a kernel that others call, and numba reads and rewrites the index of
    # a source file without a lock.
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
    """Load or compile a kernel for the types of the table; returns whether that went well."""
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
