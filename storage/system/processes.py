"""Calls on processes and signals that only POSIX has, with twins for Windows; see `files`."""

from __future__ import annotations

import os
import signal
from typing import Any

from storage.system.modules import module_of


def after_fork(call: Any) -> None:
    """Call a function in forked children, on systems that fork."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=call)


def block_interrupts() -> bool:
    """Block Ctrl-C in this thread and in the processes that it starts.

    Returns False if the system cannot: then processes ignore Ctrl-C themselves.
    """
    mask = getattr(signal, "pthread_sigmask", None)
    if mask is None:
        return False
    mask(signal.SIG_BLOCK, {signal.SIGINT})
    return True


def can_fork() -> bool:
    """Return whether a process can be forked and limited in its processor time."""
    return hasattr(os, "fork") and hasattr(signal, "setitimer")


def usable_processors() -> int:
    """Return the number of processors that this process may use: taskset and Docker limit it."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def user_id() -> int | None:
    """Return the number of the user; None on systems without it."""
    effective = getattr(os, "geteuid", None)
    return None if effective is None else int(effective())


def largest_memory() -> int | None:
    """Return the largest resident memory of this process, as the system counts it (`ru_maxrss`)."""
    resource = module_of("resource")
    return None if resource is None else int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
