"""What a run uses: memory and bytes moved, from the operating system's own accounting."""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path

from storage.closing import Closing

_STATUS = Path("/proc/self/status")
_IO = Path("/proc/self/io")


def _kilobytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return 0


def anonymous_bytes() -> int:
    """Resident anonymous memory now; where the system does not say, the peak of all memory."""
    return _kilobytes("RssAnon:") * 1024 if _STATUS.exists() else peak_rss_bytes()


def peak_rss_bytes() -> int:
    """Largest resident memory of this process so far, file pages included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def bytes_moved() -> tuple[int, int]:
    """Bytes read and written by system calls so far; reads through memory maps do not count."""
    if not _IO.exists():
        return 0, 0
    fields = dict(line.split(": ") for line in _IO.read_text().splitlines())
    return int(fields["rchar"]), int(fields["wchar"])


def available_bytes() -> int:
    """Memory that this process could still take: what is free, or less if a cgroup says so."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
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
