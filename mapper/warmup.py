"""Compiling the kernels once per installation, before they are used, and saying so.

`warmup.json` beside this file lists the kernels that Python calls, with the types of their
arguments, and which of them each kind of work needs; `scripts/kernels.py` records it. So just these
are compiled, by processes side by side, into numba's cache. A kernel that is missing from the list
is compiled when it is used, as without all of this.
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
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.runtime import kernel_workers
from mapper.runtime.callbacks import ignore
from mapper.runtime.kernel_workers import KernelTable, KernelTeam, alone, load_kernel

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.runtime.plan import Plan
    from mapper.settings import Settings

TABLE = Path(__file__).with_name("warmup.json")
LOG = logging.getLogger("mapper")


# What work needs


def read_table() -> KernelTable:
    return kernel_workers.read_table(TABLE)


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


def numba_lock() -> Path:
    """Return the lock file of processes that write to numba's cache."""
    return _marker().with_name("lock-saves")


def _line(kernel: str) -> str:
    """Of a marker: a kernel, and the processor that it is for; nodes may share a home."""
    import numba
    from llvmlite import binding

    return f"{kernel} {numba.config.CPU_NAME or binding.get_host_cpu_name()}"  # type: ignore[attr-defined]


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
        with alone(marker.with_name(f"lock-{marker.name.split('-')[1]}"), on_wait):
            if not marker.exists():  # else what has been compiled since is good
                forget_kernels()
                _begin(marker)
            kernels = missing_kernels(works)
            if not kernels:  # another process was at it
                return Compiled(0, [], 0, 0.0)
            on_start(len(kernels))
            LOG.info("compiling %d kernels, once after installation", len(kernels))

            def note(kernel: str) -> None:
                with marker.open("a", encoding="utf-8") as file:
                    file.write(f"{_line(kernel)}\n")

            team = KernelTeam(TABLE, kernels, numba_lock(), note, on_progress)
            team.run(threads)
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
                load_kernel(name, table.kernels[name])
