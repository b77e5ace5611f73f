"""What a run uses: memory and bytes moved, from the operating system's own accounting."""

from __future__ import annotations

import os
import re
import threading
from functools import cache
from pathlib import Path

import psutil

from storage.closing import Closing

_STATUS = Path("/proc/self/status")
_CGROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
LEAST_MEMORY = 256 << 20  # Python and the compiled kernels take most of it


def parse_bytes(text: str) -> int:
    """`1GiB`, `512M`, `300000000`: bytes; K, M, G and T are powers of 1024.

    Raises `ValueError` for what is no size, or more or less than can be planned with.
    """
    from mapper.settings import MOST_MEMORY

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a size; write 1GiB or 512M")
    if len(match[1]) > 40:
        raise ValueError(f"{text[:24]}... is too much; write 1GiB or 512M")
    value = float(match[1]) * _UNITS[match[2]]
    if value < LEAST_MEMORY:
        raise ValueError(f"{text} is too little; give at least 256MiB")
    if value > MOST_MEMORY:
        most = f"{MOST_MEMORY >> 40}TiB"
        raise ValueError(f"{text[:40]} is too much; give at most {most}")
    return int(value)


def all_cores() -> int:
    """Cores of the processor that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not everywhere; respects taskset, docker
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def default_memory() -> int:
    """Bytes to plan with where nothing is said: three quarters of what is free."""
    return max(LEAST_MEMORY, available_bytes() * 3 // 4)


@cache
def _process() -> psutil.Process:
    return psutil.Process()


def anonymous_bytes() -> int:
    """Resident anonymous memory now; where the system does not tell, all that is resident."""
    if _STATUS.exists():  # psutil has this number from smaps only, which takes milliseconds
        for line in _STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return int(_process().memory_info().rss)


def peak_rss_bytes() -> int:
    """Largest resident memory of this process so far, file pages included."""
    peak = getattr(_process().memory_info(), "peak_wset", None)  # Windows
    if peak is not None:
        return int(peak)
    import resource  # not on Windows

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if psutil.MACOS else largest * 1024


def bytes_moved() -> tuple[int, int]:
    """Bytes read and written by system calls so far; reads through memory maps do not count.

    0 where the system does not count them (macOS).
    """
    if not hasattr(psutil.Process, "io_counters"):
        return 0, 0
    try:
        moved = _process().io_counters()
    except (psutil.AccessDenied, OSError, NotImplementedError):  # as in some containers
        return 0, 0
    read = getattr(moved, "read_chars", moved.read_bytes)
    return int(read), int(getattr(moved, "write_chars", moved.write_bytes))


def available_bytes() -> int:
    """Memory that this process could still take: what is free, or less if a cgroup says so."""
    free = int(psutil.virtual_memory().available)
    for limit, used in _CGROUP_LIMITS:
        try:
            left = int(Path(limit).read_text()) - int(Path(used).read_text())
        except (OSError, ValueError):  # no such cgroup, or "max"
            continue
        free = min(free, left)
    return max(free, 0)


class PeakSampler(Closing):
    """A thread that watches anonymous memory; `take` gives the peak since the last call."""

    def __init__(self, interval: float = 0.02) -> None:
        self._interval = interval
        self._peak = 0
        self.overall = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        self._peak = max(self._peak, anonymous_bytes())

    def take(self) -> int:
        self._sample()
        peak, self._peak = self._peak, 0
        self.overall = max(self.overall, peak)
        return peak

    def __enter__(self) -> PeakSampler:
        self._thread.start()
        return self

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
