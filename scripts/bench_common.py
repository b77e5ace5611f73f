"""Helpers shared by the benchmarks: measured child processes, medians, the machine.

This module imports nothing that needs much memory: the system counts memory that the parent holds
when it starts a child as memory of the child.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

PEER_MODULES = {
    "kaminpar": "kaminpar",
    "metis": "pymetis",
    "mtkahypar": "mtkahypar",
    "kahip": "kahip",
    "scotch": "pyscotch",
}


@dataclass(slots=True)
class Process:
    """Result of a process; `failed` is the reason why it has no output, or None."""

    seconds: float
    cpu_seconds: float
    rss_bytes: int
    disk_bytes: int
    output: str
    failed: str | None


def say(line: str) -> None:
    """Print progress on stderr."""
    print(line, file=sys.stderr, flush=True)


def mapper(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mapper", *arguments]


def worker(*arguments: str) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("bench_peers.py")), *arguments]


def disk_bytes(folders: Sequence[Path]) -> int:
    """Return the disk space that the files in some folders occupy now, in bytes."""
    total = 0
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):  # deleted in the meantime
                    total += os.lstat(f"{root}/{name}").st_blocks * 512
    return total


def run(command: Sequence[str], limit: float = math.inf, watched: Sequence[Path] = ()) -> Process:
    """Run a command for at most `limit` seconds and sample the disk use of the watched folders."""
    done = threading.Event()
    peak = 0
    late = False

    def watch(child: subprocess.Popen[str], until: float) -> None:
        nonlocal peak, late
        while not done.wait(0.05):
            peak = max(peak, disk_bytes(watched))
            if time.perf_counter() > until and not late:
                late = True
                child.kill()

    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=err, text=True)
        watcher = threading.Thread(target=watch, args=(child, start + limit))
        watcher.start()
        try:
            _, status, used = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            raise
        finally:
            seconds = time.perf_counter() - start
            done.set()
            watcher.join()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        output, said = out.read(), err.read().strip()
    failed = None
    if late:
        failed = f"over {limit:g} s"
    elif child.returncode:
        last = said.splitlines()[-1] if said else ""
        failed = f"exit {child.returncode}: {last}"
    rss = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    cpu = used.ru_utime + used.ru_stime
    return Process(seconds, cpu, rss, max(peak, disk_bytes(watched)), output, failed)


def need(command: Sequence[str]) -> str:
    """Return the output of a command; exit if it fails."""
    process = run(command)
    if process.failed:
        raise SystemExit(f"{' '.join(command)}: {process.failed}")
    return process.output


def last_object(output: str) -> dict[str, Any]:
    """Return the JSON object of a worker: the last line that it prints."""
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def median(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over the successful runs, or the first run if all failed."""
    good = [one for one in found if "failed" not in one]
    if not good:
        return found[0]
    middle: dict[str, Any] = {"runs": len(found), "runs_failed": len(found) - len(good)}
    for name in good[0]:
        seen = [one[name] for one in good]
        middle[name] = all(seen) if isinstance(seen[0], bool) else statistics.median(seen)
    return middle


def machine() -> dict[str, Any]:
    """Return processor, memory and versions of this machine."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
    versions = {}
    for name in ("mapper", "numpy", "numba", *PEER_MODULES.values()):
        with suppress(PackageNotFoundError):
            versions[name] = version_of(name)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }
