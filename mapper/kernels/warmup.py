"""Compile the kernels once per installation, before their first use.

`warmup.json` next to this file lists the kernels that Python calls, the types of their arguments,
and which kernels each kind of task needs; `scripts/kernels.py` records it. These kernels are
compiled into numba's cache by parallel processes. A kernel that is missing from the list is
compiled at its first call.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.kernels import parallel_compilation
from mapper.kernels.lean_loading import lean_loading
from mapper.kernels.parallel_compilation import (
    PACKAGES,
    KernelTable,
    KernelTeam,
    alone,
    load_kernel,
)
from mapper.monitoring.callbacks import OnFraction, ignore

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.planning.plan import Plan
    from mapper.settings import Settings

TABLE = Path(__file__).with_name("warmup.json")
LOG = logging.getLogger("mapper")


# Kernels that a task needs


def read_table() -> KernelTable:
    return parallel_compilation.read_table(TABLE)


def works_of_run(settings: Settings, plan: Plan, chip: Chip, constrained: bool) -> list[str]:
    """Return the kinds of task in a run with this plan."""
    found = ["run/classic"]
    if settings.method != "classic":
        how = "nets" if plan.nets_held else "levels" if plan.levels else "streamed"
        found = _multilevel(settings, how, chip.usable_count)
        if how == "streamed" and not plan.held:
            found.append("scratch")
    constrained |= settings.bounds_fill
    if constrained or (chip.synapse_limit, chip.axons_in, chip.out_limit) != (None, None, None):
        found.append("limits")
    return found


def works_of_partition(settings: Settings, plan: Plan) -> list[str]:
    """Return the kinds of task in a partition with this plan, without a chip."""
    name = settings.preset
    if plan.levels:
        return [f"partition/{name}"]
    return [f"run/{name}/cut/streamed", *([] if plan.held else ["scratch"])]


def works_of_compilation(placed: Collection[Settings], cores: int) -> list[str]:
    """Return the kinds of task in compiling a model for several cores.

    placed : settings of the mapper that places the parts; empty if parts are not placed
    """
    found = ["compile", "generate"]  # networks of parts are built and written
    for settings in placed:
        found += _multilevel(settings, "levels", cores)
    return [*found, "limits"] if placed else found


def _multilevel(settings: Settings, how: str, cores: int) -> list[str]:
    """Return the kinds of task in a multilevel run for this number of cores."""
    from mapper.placement.annealing.dense import SPARSE

    found = [f"run/{settings.preset}/{settings.objective}/{how}"]
    if cores > SPARSE + 1:  # groups may turn out dense
        found.append(f"place/{settings.placement}")
    return found


def works_of_presets(presets: Collection[str]) -> list[str]:
    """Return all kinds of task of these presets, and all that do not depend on a preset."""
    return [
        work
        for work in read_table().works
        if work.partition("/")[0] not in ("run", "place", "partition")
        or work.split("/")[1] in presets
    ]


# Compiled kernels


def _marker() -> Path:
    """Return the file that lists the kernels compiled for this code and interpreter.

    Its name begins with a hash of the code's path, so that installations do not share it.
    """
    folder = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = Path(folder) if folder else Path.home() / ".cache"
    return home / "mapper" / _marker_name()


@cache
def _marker_name() -> str:
    """Return the name of the marker; the code of a running process does not change."""
    import llvmlite
    import numba

    place = hashlib.sha256(f"{Path(__file__).parents[1]} {sys.prefix}".encode())
    digest = hashlib.sha256(repr((sys.version, numba.__version__, llvmlite.__version__)).encode())
    for package in map(import_module, PACKAGES):
        folder = Path(str(package.__file__)).parent
        for source in sorted(folder.rglob("*.py")):
            status = source.stat()
            digest.update(f"{source}{status.st_mtime_ns}{status.st_size}".encode())
    return f"compiled-{place.hexdigest()[:8]}-{digest.hexdigest()[:16]}"


def forget_kernels() -> None:
    """Remove numba's compiled kernels of these packages.

    numba notices a change in the file of a kernel, but not a change in another file that defines a
    kernel called from there.
    """
    import pkgutil

    for package in map(import_module, PACKAGES):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            name = found.name.rsplit(".", 1)[-1]
            source = Path(getattr(found.module_finder, "path", "")) / f"{name}.py"
            if not source.is_file() or b"njit" not in source.read_bytes():
                continue  # may import packages that are missing
            module = import_module(found.name)
            stats = [getattr(value, "stats", None) for value in vars(module).values()]
            folders = {getattr(stat, "cache_path", None) for stat in stats}
            for folder in filter(None, folders):
                for file in Path(folder).glob(f"{name}.*.nb?"):
                    file.unlink(missing_ok=True)


def _begin(marker: Path) -> None:
    """Delete markers of older code and create an empty one."""
    marker.parent.mkdir(parents=True, exist_ok=True)
    for old in marker.parent.glob(f"{marker.name.rpartition('-')[0]}-*"):
        old.unlink(missing_ok=True)
    marker.touch()


def trust_kernels() -> None:
    """Mark all compiled kernels as current: the first use of this code removes none of them."""
    with suppress(OSError, RuntimeError):  # no marker: they are compiled again
        marker = _marker()
        if not marker.exists():
            _begin(marker)


def missing_kernels(works: Iterable[str]) -> list[str]:
    """Return the kernels of these kinds of task that this installation has not compiled yet."""
    table = read_table()
    wanted = dict.fromkeys(kernel for work in works for kernel in table.works.get(work, ()))
    try:
        done = set(_marker().read_text(encoding="utf-8").split("\n"))
    except (OSError, RuntimeError):
        done = set()
    return [kernel for kernel in wanted if _line(kernel) not in done]


def numba_lock() -> Path:
    """Return the lock file of processes that write to numba's cache."""
    return _marker().with_name("lock-saves")


def _line(kernel: str) -> str:
    """Return the marker line of a kernel: its name and the processor; nodes may share a home."""
    import numba
    from llvmlite import binding

    return f"{kernel} {numba.config.CPU_NAME or binding.get_host_cpu_name()}"  # type: ignore[attr-defined]


# Compiling


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of `compile_kernels`.

    kernels : number of kernels compiled or found in numba's cache
    failed : kernels left to be compiled at their first call
    processes : number of parallel processes
    """

    kernels: int
    failed: list[str]
    processes: int
    seconds: float


def compile_kernels(
    works: Iterable[str],
    threads: int,
    on_start: Callable[[int], None] = ignore,
    on_progress: OnFraction = ignore,
    on_wait: Callable[[], None] = ignore,
) -> Compiled:
    """Fill numba's cache with all kernels that these kinds of task need.

    threads : maximum number of parallel processes
    on_start : called with the number of kernels to compile, if there are any
    on_progress : called with the share that is done
    on_wait : called if another process is compiling
    """
    import numba

    started = time.monotonic()
    works = list(works)
    if numba.config.DISABLE_JIT or not missing_kernels(works):  # type: ignore[attr-defined]
        return Compiled(0, [], 0, 0.0)
    try:
        marker = _marker()
        marker.parent.mkdir(parents=True, exist_ok=True)
        with alone(marker.with_name(f"lock-{marker.name.split('-')[1]}"), on_wait):
            if not marker.exists():  # otherwise the kernels compiled since are valid
                forget_kernels()
                _begin(marker)
            kernels = missing_kernels(works)
            if not kernels:  # another process compiled them
                return Compiled(0, [], 0, 0.0)
            on_start(len(kernels))
            LOG.info("compiling %d kernels, once after installation", len(kernels))

            def note(kernel: str) -> None:
                with marker.open("a", encoding="utf-8") as file:
                    file.write(f"{_line(kernel)}\n")

            team = KernelTeam(TABLE, kernels, numba_lock(), note, on_progress)
            team.run(threads)
    except (OSError, RuntimeError):  # no home, disk full, no processes: compiled at first use
        return Compiled(0, [], 0, 0.0)
    found = Compiled(team.done, team.failed, team.size, time.monotonic() - started)
    LOG.info("compiled %d kernels in %.0f s", found.kernels, found.seconds)
    return found


def load_kernels(works: Iterable[str]) -> None:
    """Read the compiled kernels of these kinds of task from numba's cache.

    Otherwise the first call of each kernel reads it in the middle of a stage: 49 kernels and the
    initialisation of numba take a third of a second, as long as the mapping of a small network.
    """
    import numba

    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
    works, table = list(works), read_table()
    names = dict.fromkeys(kernel for work in works for kernel in table.works.get(work, ()))
    if names.keys() <= _LOADED:
        return
    with lean_loading():
        for name in names.keys() - _LOADED - set(missing_kernels(works)):
            with suppress(Exception):  # its first call reports the error
                load_kernel(name, table.kernels[name])
            _LOADED.add(name)


_LOADED: set[str] = set()
"""Kernels that this process has read from numba's cache."""
