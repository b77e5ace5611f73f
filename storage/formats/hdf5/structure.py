"""Read the structure of an HDF5 file in a separate process first.

Damaged heaps, trees and object headers make libhdf5 loop without end, with the lock of the
interpreter held, or crash. A forked process reads them under a limit of processor time; this one
opens the file only if the other one ended.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import warnings
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from storage.errors import BadInputError
from storage.system.processes import can_fork

SECONDS = 1.0  # of the processor
RATE = 10 << 20  # bytes of a file for which a further second is allowed
SMALL = 1 << 16  # bytes of a data set that is read whole
WAIT = 20  # wall seconds per processor second, for machines that are busy
CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")


def require_structure(path: Path, h5py: Any) -> None:
    """Raise `BadInputError` if libhdf5 does not end, or crashes, on the structure of a file.

    Other faults are left to the reader. Without fork, as on Windows, nothing is checked.
    """
    if can_fork():
        about = path.stat()
        identity = about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns
        _require(path, about.st_size, identity, h5py)


@lru_cache(maxsize=64)
def _require(path: Path, size: int, _identity: tuple[int, ...], h5py: Any) -> None:
    """Check a file once until it changes; errors are not cached."""
    seconds = SECONDS + size / RATE
    code = _exit_code(path, seconds, h5py)
    if code == -signal.SIGPROF:
        why = "the HDF5 library reads it without end"
    elif code < 0 and signal.Signals(-code).name in CRASHES:
        why = "the HDF5 library crashes on it"
    else:
        return
    raise BadInputError(f"{path}: the structure is damaged: {why}; download it again")


def _exit_code(path: Path, seconds: float, h5py: Any) -> int:
    """Return how a process ends that reads the structure; 0 if it does not get to it."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which are not used there
        pid = os.fork()
    if not pid:
        try:
            faulthandler.disable()
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            _read(path, h5py)
        finally:
            os._exit(0)
    until = time.monotonic() + WAIT * seconds
    ended, status = 0, 0
    try:
        while not ended and time.monotonic() < until:
            ended, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(0 if ended else 0.001)
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _read(path: Path, h5py: Any) -> None:
    """Read all groups, attributes and small data sets, and the indices of chunks."""
    with suppress(Exception), h5py.File(path, "r") as file:
        seen, pending = set(), [file]
        while pending:
            one = pending.pop()
            with suppress(Exception):
                seen.add(h5py.h5o.get_info(one.id).addr)
            with suppress(Exception):
                list(one.attrs.items())
            if isinstance(one, h5py.Dataset):
                with suppress(Exception):
                    _ = one.chunks and one.id.get_num_chunks()
                with suppress(Exception):
                    _ = one[()] if one.nbytes <= SMALL else one.fillvalue
                continue
            names: list[str] = []
            with suppress(Exception):
                names.extend(one)
            for name in names:
                with suppress(Exception):
                    link = one.get(name, getlink=True)
                    if isinstance(link, h5py.HardLink):
                        found = one[name]
                        if h5py.h5o.get_info(found.id).addr not in seen:
                            pending.append(found)
