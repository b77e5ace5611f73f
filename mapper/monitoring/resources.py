"""Resource use of a run: memory and bytes moved, as counted by the operating system."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from storage.budget import require_room
from storage.closing import Closing
from storage.system.processes import largest_memory, usable_processors

if TYPE_CHECKING:
    from storage.store.network import NetworkFile

_STATUS = Path("/proc/self/status")
_CGROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
LEAST_MEMORY = 256 << 20  # Python and the compiled kernels use most of it


def parse_bytes(text: str) -> int:
    """Parse a size such as `1GiB`, `512M`, `300000000`; K, M, G and T are powers of 1024.

    Raises `ValueError` for malformed sizes, and for sizes outside the supported range.
    """
    from mapper.settings import MOST_MEMORY

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a size; write 1GiB or 512M")
    if len(match[1]) > 40:
        raise ValueError(f"{text[:24]}... is too large; write 1GiB or 512M")
    value = float(match[1]) * _UNITS[match[2]]
    if value < LEAST_MEMORY:
        raise ValueError(f"{text} is too small; give at least 256MiB")
    if value > MOST_MEMORY:
        most = f"{MOST_MEMORY >> 40}TiB"
        raise ValueError(f"{text[:40]} is too large; give at most {most}")
    return int(value)


def all_cores() -> int:
    """Return the number of processor cores that this process may use."""
    return usable_processors()


_given: list[int] = []  # budgets of commands that run


@contextmanager
def memory_budget(size: int) -> Iterator[None]:
    """Set the default memory budget in the block, in all threads."""
    _given.append(size)
    try:
        yield
    finally:
        _given.pop()


def default_memory() -> int:
    """Return the default memory budget: the budget of the command, or three quarters of the free
    bytes.
    """
    return _given[-1] if _given else max(LEAST_MEMORY, available_bytes() * 3 // 4)


def require_neurons(network: NetworkFile, each: int) -> None:
    """Raise `MemoryShortError` if the neurons of a network exceed the default memory budget.

    each : bytes per neuron that the caller holds
    """
    neurons = network.meta.neurons
    require_room(
        f"{network.path}: a network of {neurons:,} neurons", each * neurons, default_memory()
    )


@cache
def _process() -> psutil.Process:
    return psutil.Process()


def anonymous_bytes() -> int:
    """Return the resident anonymous memory; on systems without this number, all resident memory."""
    if _STATUS.exists():  # psutil reads this number only from smaps, which takes milliseconds
        for line in _STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return int(_process().memory_info().rss)


def peak_rss_bytes() -> int:
    """Return the largest resident memory of this process so far, file pages included."""
    peak = getattr(_process().memory_info(), "peak_wset", None)  # Windows
    if peak is not None:
        return int(peak)
    largest = largest_memory()
    if largest is None:
        return int(_process().memory_info().rss)
    return largest if psutil.MACOS else largest * 1024


def bytes_moved() -> tuple[int, int]:
    """Return bytes read and written by system calls so far; memory-mapped reads do not count.

    Returns 0 on systems without these counters (macOS).
    """
    if not hasattr(psutil.Process, "io_counters"):
        return 0, 0
    try:
        moved = _process().io_counters()
    except (psutil.AccessDenied, OSError, NotImplementedError):  # some containers
        return 0, 0
    read = getattr(moved, "read_chars", moved.read_bytes)
    return int(read), int(getattr(moved, "write_chars", moved.write_bytes))


def available_bytes() -> int:
    """Return the memory available to this process: free memory, or the rest of its cgroup limit."""
    free = int(psutil.virtual_memory().available)
    for limit, used in _CGROUP_LIMITS:
        try:
            left = int(Path(limit).read_text()) - int(Path(used).read_text())
        except (OSError, ValueError):  # no such cgroup, or "max"
            continue
        free = min(free, left)
    return max(free, 0)


class PeakSampler(Closing):
    """Thread that samples anonymous memory; `take` returns the peak since the last call."""

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
        with suppress(OSError):  # no free file descriptor: skip the sample
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
