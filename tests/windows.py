"""Simulate Windows in a process: names of POSIX are missing, and open files keep their names.

    python -m tests.windows mapper run net.bin --chip 4x4
    python -m tests.windows FILE.py

Names are deleted after the standard library and the dependencies have been imported, which have
their own twins on Windows.
"""

from __future__ import annotations

import errno
import importlib
import os
import runpy
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

MISSING = {
    "os": "pread preadv pwrite pwritev fork register_at_fork link getuid geteuid getgid getegid"
    " sched_getaffinity posix_fallocate fdatasync O_CLOEXEC O_DIRECTORY O_TMPFILE setsid killpg"
    " getpgid mkfifo",
    "signal": "pthread_sigmask setitimer alarm pause SIGPROF",
}
IMPORTED = ("numba", "scipy.sparse", "rich.progress", "multiprocessing", "platformdirs.unix")
NO_MODULES = ("fcntl", "resource", "pwd", "grp")
flock = importlib.import_module("fcntl").flock


def simulate() -> None:
    """Take away everything that Windows lacks."""
    for name in IMPORTED:
        importlib.import_module(name)
    for module, names in MISSING.items():
        for name in names.split():
            if hasattr(sys.modules[module], name):
                delattr(sys.modules[module], name)
    for name in NO_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # its import fails
    sys.modules["msvcrt"] = _msvcrt()
    _keep_names_of_open_files()
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[assignment]
    _open_no_folders()


def _msvcrt() -> ModuleType:
    """Return locks of bytes after the content, which end with the process."""
    made: Any = ModuleType("msvcrt")
    made.LK_NBLCK = 2

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (made.LK_NBLCK, 1)
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 1 << 30, "content must stay readable"
        try:
            flock(descriptor, 2 | 4)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    made.locking = locking
    return made  # type: ignore[no-any-return]


def open_files() -> set[str]:
    """Return the files that this process has open."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(entry.readlink()))
        except OSError:  # the descriptor of this folder
            continue
    return found


def _keep_names_of_open_files() -> None:
    """Let files and folders with open files be neither removed, renamed nor replaced."""

    def guarded(name: str) -> Any:
        call = getattr(os, name)

        def checked(*paths: Any, **more: Any) -> Any:
            if name == "rmdir" and not Path(paths[0]).is_dir():
                return call(*paths, **more)  # which raises the error
            for path in paths[:2]:
                whole = Path(path).resolve()
                if any(Path(one).is_relative_to(whole) for one in open_files()):
                    raise PermissionError(errno.EACCES, f"is open: {path}", str(path))
            return call(*paths, **more)

        return checked

    for name in ("unlink", "remove", "rename", "replace", "rmdir"):
        setattr(os, name, guarded(name))
    shutil._use_fd_functions = False  # type: ignore[attr-defined]


def _open_no_folders() -> None:
    """Let `os.open` refuse folders, as on Windows."""
    opened = os.open

    def checked(path: Any, *rest: Any, **more: Any) -> int:
        if Path(os.fsdecode(path)).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *rest, **more)

    os.open = checked


def main(words: list[str]) -> None:
    psutil.Process().memory_info()
    simulate()
    if words[0] == "mapper":
        import mapper.kernels.warmup
        from mapper.cli.main import main as run
        from tests.mapper.conftest import nothing_to_compile

        mapper.kernels.warmup.compile_kernels = nothing_to_compile
        sys.argv = words
        sys.exit(run(words[1:]))
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(sys.argv[1:])
