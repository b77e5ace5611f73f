"""Compiling the kernels once per installation, before they are used, and saying so.

`warmup.json` beside this file lists the kernels that Python calls, with the types of their
arguments, and which of them each kind of work needs; `scripts/kernels.py` records it. So just these
are compiled, by processes side by side, into numba's cache. A kernel that is missing from the list
is compiled when it is used, as without all of this.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mapper.runtime.callbacks import ignore
from mapper.runtime.kernel_types import types_of
from mapper.runtime.lean_compilation import spare_work, spare_wrappers

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.runtime.memory_plan import Plan
    from mapper.settings import Settings

WORKER_BYTES = 600 << 20  # of a process that compiles, at most
MOST_WORKERS = 8  # modules with much to compile are no more
LOG = logging.getLogger("mapper")


# What work needs


@dataclass(frozen=True, slots=True)
class Table:
    """`warmup.json`.

    kernels : types of the arguments of each, one text a signature, by "module.function"
    works : the kernels of each kind of work, by its name
    seconds : of those that take long to compile, by name
    """

    kernels: dict[str, list[str]]
    works: dict[str, list[str]]
    seconds: dict[str, float]


@cache
def read_table() -> Table:
    return Table(**json.loads(Path(__file__).with_name("warmup.json").read_bytes()))


def works_of_run(settings: Settings, plan: Plan, chip: Chip, constrained: bool) -> list[str]:
    """The kinds of work that a run with this plan is made of."""
    found = ["run/classic"]
    if settings.method != "classic":
        how = "nets" if plan.nets_held else "levels" if plan.levels else "streamed"
        found = _multilevel(settings, how, chip.usable_count)
    if constrained or (chip.synapse_limit, chip.axons_in, chip.out_limit) != (None, None, None):
        found.append("limits")
    return found


def works_of_compilation(settings: Settings | None, cores: int) -> list[str]:
    """The kinds of work of a model that is compiled for several cores.

    settings : that the mapper places its parts with; None if it does not
    """
    found = ["compile", "generate"]  # networks of parts are made and written
    if settings is not None:
        found += [*_multilevel(settings, "levels", cores), "limits"]
    return found


def _multilevel(settings: Settings, how: str, cores: int) -> list[str]:
    """The kinds of work of a run by levels, for so many cores."""
    from mapper.placement.annealing.dense import SPARSE

    found = [f"run/{settings.preset}/{settings.objective}/{how}"]
    if cores > SPARSE + 1:  # groups may be dense, which shows when they are made
        found.append(f"place/{settings.placement}")
    return found


def works_of_presets(presets: Collection[str]) -> list[str]:
    """All kinds of work of these presets, and all that have nothing to do with presets."""
    return [
        work
        for work in read_table().works
        if work.partition("/")[0] not in ("run", "place") or work.split("/")[1] in presets
    ]


# What has been compiled


def _marker() -> Path:
    """A file that names what of this very code has been compiled for this interpreter.

    Its name begins with a hash of where the code is, so that installations do not share it.
    """
    import llvmlite
    import numba

    import chipsim
    import mapper
    import storage

    place = hashlib.sha256(f"{Path(mapper.__file__).parent} {sys.prefix}".encode())
    digest = hashlib.sha256(repr((sys.version, numba.__version__, llvmlite.__version__)).encode())
    for package in (mapper, storage, chipsim):
        folder = Path(str(package.__file__)).parent
        for source in sorted(folder.rglob("*.py")):
            status = source.stat()
            digest.update(f"{source}{status.st_mtime_ns}{status.st_size}".encode())
    cache = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = Path(cache) if cache else Path.home() / ".cache"
    return home / "mapper" / f"compiled-{place.hexdigest()[:8]}-{digest.hexdigest()[:16]}"


def forget_kernels() -> None:
    """Remove what numba has compiled of these packages.

    It notices when the file of a kernel changes, but not when a kernel that is called from there
    does, in a file of its own.
    """
    import pkgutil

    import chipsim
    import mapper
    import storage

    for package in (mapper, storage, chipsim):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            name = found.name.rsplit(".", 1)[-1]
            source = Path(getattr(found.module_finder, "path", "")) / f"{name}.py"
            if not source.is_file() or b"njit" not in source.read_bytes():
                continue  # what has no kernels may need packages that are not there
            module = import_module(found.name)
            stats = [getattr(value, "stats", None) for value in vars(module).values()]
            folders = {getattr(stat, "cache_path", None) for stat in stats}
            for folder in filter(None, folders):
                for file in Path(folder).glob(f"{name}.*.nb?"):
                    file.unlink(missing_ok=True)


def _begin(marker: Path) -> None:
    """Say that no older kernels are left, and that nothing has been compiled yet."""
    marker.parent.mkdir(parents=True, exist_ok=True)
    for old in marker.parent.glob(f"{marker.name.rpartition('-')[0]}-*"):
        old.unlink(missing_ok=True)
    marker.touch()


def trust_kernels() -> None:
    """Say that all compiled kernels are of this very code: the first use of it forgets none."""
    with suppress(OSError, RuntimeError):  # as without: they are compiled again
        marker = _marker()
        if not marker.exists():
            _begin(marker)


def missing_kernels(works: Iterable[str]) -> list[str]:
    """Kernels of some kinds of work that this installation has not compiled yet."""
    table = read_table()
    wanted = dict.fromkeys(kernel for work in works for kernel in table.works.get(work, ()))
    try:
        done = set(_marker().read_text(encoding="utf-8").split("\n"))
    except (OSError, RuntimeError):
        done = set()
    return [kernel for kernel in wanted if _line(kernel) not in done]


def _line(kernel: str) -> str:
    """Of a marker: a kernel, and the processor that it is for; nodes may share a home."""
    import numba
    from llvmlite import binding

    return f"{kernel} {numba.config.CPU_NAME or binding.get_host_cpu_name()}"  # type: ignore[attr-defined]


@contextmanager
def _alone(marker: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Only one process of an installation compiles at a time, where the file system has locks."""
    try:
        import fcntl
    except ImportError:  # Windows: two processes do the same, no worse
        yield
        return
    with marker.with_name(f"lock-{marker.name.split('-')[1]}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # some network file systems
            pass
        yield


# Compiling


@dataclass(frozen=True, slots=True)
class Compiled:
    """What `compile_kernels` did.

    kernels : compiled, or found in numba's cache; failed : left to be compiled when they are used
    processes : side by side
    """

    kernels: int
    failed: list[str]
    processes: int
    seconds: float


def compile_kernels(
    works: Iterable[str],
    threads: int,
    on_start: Callable[[int], None] = ignore,
    on_progress: Callable[[float], None] = ignore,
    on_wait: Callable[[], None] = ignore,
) -> Compiled:
    """Fill numba's cache with all that some kinds of work need.

    threads : processes side by side, at most
    on_start : gets the number of kernels to compile, if there are any
    on_progress : gets the share that is done; on_wait : is called if another process compiles
    """
    import numba

    started = time.monotonic()
    works = list(works)
    if numba.config.DISABLE_JIT or not missing_kernels(works):  # type: ignore[attr-defined]
        return Compiled(0, [], 0, 0.0)
    try:
        marker = _marker()
        marker.parent.mkdir(parents=True, exist_ok=True)
        with _alone(marker, on_wait):
            if not marker.exists():  # else what has been compiled since is good
                forget_kernels()
                _begin(marker)
            kernels = missing_kernels(works)
            if not kernels:  # another process was at it
                return Compiled(0, [], 0, 0.0)
            on_start(len(kernels))
            LOG.info("compiling %d kernels, once after installation", len(kernels))
            team = _Team(kernels, marker, on_progress)
            team.run(_processes(threads, team.tasks))
    except (OSError, RuntimeError):  # no home, no room, no processes: compiled when they are used
        return Compiled(0, [], 0, 0.0)
    found = Compiled(team.done, team.failed, team.size, time.monotonic() - started)
    LOG.info("compiled %d kernels in %.0f s", found.kernels, found.seconds)
    return found


def load_kernels(works: Iterable[str]) -> None:
    """Read the kernels of some kinds of work from numba's cache, as far as they have been compiled.

    Else the first call of each would, in the midst of a stage: 49 kernels and what numba prepares
    for the first of them take a third of a second, as long as a small network takes to be mapped.
    """
    import numba

    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
    works, table = list(works), read_table()
    missing = set(missing_kernels(works))
    for name in dict.fromkeys(kernel for work in works for kernel in table.works.get(work, ())):
        if name not in missing:
            with suppress(Exception):  # as without: its first call says what is wrong
                _get(name, table.kernels[name])


def _get(name: str, signatures: Iterable[str]) -> None:
    """Read a kernel from numba's cache, or compile it."""
    module, _, function = name.rpartition(".")
    kernel = getattr(import_module(module), function)
    for types in signatures:
        kernel.compile(types_of(types))


def _processes(threads: int, tasks: Collection[object]) -> int:
    from mapper.runtime.resources import available_bytes

    return max(1, min(threads, MOST_WORKERS, len(tasks), available_bytes() // WORKER_BYTES))


class _Team:
    """Processes that compile, each a module at a time, those that take longest first."""

    def __init__(self, kernels: list[str], marker: Path, advance: Callable[[float], None]) -> None:
        seconds = read_table().seconds
        modules: dict[str, list[str]] = {}
        for kernel in kernels:
            modules.setdefault(kernel.rpartition(".")[0], []).append(kernel)
        self._work = {kernel: seconds.get(kernel, 0.3) for kernel in kernels}
        self.tasks = sorted(
            modules.values(), key=lambda task: sum(self._work[kernel] for kernel in task)
        )
        self.failed: list[str] = []
        self.done = self.size = 0
        self._spent = 0.0
        self._marker, self._advance = marker, advance
        self._lock = threading.Lock()

    def run(self, size: int) -> None:
        """Compile all; a process that dies leaves its module to be compiled when it is used."""
        self.size = size
        root = Path(__file__).parents[1]
        start = f"import sys; sys.path.insert(0, {str(root)!r}); import {__name__} as k; k.work()"
        processes: list[subprocess.Popen[str]] = []
        threads = []
        try:
            for _ in range(size):
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", start],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    text=True, encoding="utf-8",
                )  # fmt: skip
                processes.append(process)
                threads.append(threading.Thread(target=self._feed, args=(process,), daemon=True))
                threads[-1].start()
            for thread in threads:
                while thread.is_alive():  # so that this thread hears of Ctrl-C
                    thread.join(0.1)
                    self._advance(min(1.0, self._spent / sum(self._work.values())))
        finally:
            for process in processes:
                process.kill()
                process.wait()
            for thread in threads:
                thread.join()
            for process in processes:
                for pipe in filter(None, (process.stdin, process.stdout)):
                    with suppress(OSError):  # what could not be written is lost with the process
                        pipe.close()
        self.failed += [kernel for task in self.tasks for kernel in task]

    def _feed(self, process: subprocess.Popen[str]) -> None:
        """Give a process module after module, and take down what it has compiled."""
        assert process.stdin is not None
        assert process.stdout is not None
        while True:
            with self._lock:
                if not self.tasks:
                    return
                task = self.tasks.pop()
            left = list(task)
            with suppress(OSError, ValueError):  # it has died
                print(*task, file=process.stdin, flush=True)
                while left and (line := process.stdout.readline()):
                    said, kernel = line.split()
                    self._take_down(kernel, said == "done")
                    left.remove(kernel)
            with self._lock:
                self.failed += left
            if left:
                return

    def _take_down(self, kernel: str, compiled: bool) -> None:
        with self._lock:
            self._spent += self._work[kernel]
            if not compiled:
                self.failed.append(kernel)
                return
            self.done += 1
            with self._marker.open("a", encoding="utf-8") as file:
                file.write(f"{_line(kernel)}\n")


def work() -> None:
    """A process that compiles: takes lines of names of kernels, answers with a line for each."""
    import gc
    import signal

    from numba.core import caching

    index_file: Any = caching.IndexDataCacheFile
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who has started it ends it
    gc.disable()  # a tenth of the time
    news, sys.stdout = sys.stdout, sys.stderr
    # A kernel that others call may be compiled by two processes, and numba reads the list of what
    # is compiled of it, and writes it again, as if it were alone.
    save, lock = index_file.save, _marker().with_name("numba-saves")

    def save_alone(self: Any, key: Any, data: Any) -> None:
        with _alone(lock, ignore):
            save(self, key, data)

    index_file.save = save_alone
    lean = spare_work(read_table().kernels)
    for line in sys.stdin:
        for kernel in line.split():
            _send(news, kernel, _compile(kernel, lean))


def _send(news: TextIO, kernel: str, compiled: bool) -> None:
    print("done" if compiled else "failed", kernel, file=news, flush=True)


def _compile(name: str, lean: bool) -> bool:
    """Compile a kernel for the types of the table, unless numba has it; returns whether it has."""
    kernels = read_table().kernels
    try:
        import_module(name.rpartition(".")[0])
        spare_wrappers(("mapper", "storage", "chipsim"), kernels, lean)
        _get(name, kernels[name])
    except Exception:
        return False
    return True
