"""Limits of the system: memory, descriptors, file sizes, full or read-only folders, no HOME."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from mapper.cache.location import FOLDER
from scripts.torture.bench import Bench
from scripts.torture.family import Family, Random, one_of, some_job
from scripts.torture.outcomes import CRASHED, REFUSED, RIGHT, Outcome, unclear
from scripts.torture.recovery import recovered, start
from scripts.torture.results import results
from scripts.torture.running import run

NOBODY = 65534
MIB = 1 << 20
WAYS = ("memory", "descriptors", "file size", "tmpfs", "read-only", "home")


class Limits(Family):
    """Commands under a limit; without it they then complete."""

    name = "limits"
    share = 2.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._ways = [way for way in WAYS if way not in ("tmpfs", "read-only") or _is_root()]
        if "tmpfs" in self._ways and not _mounts(bench.base / "probe"):
            self._ways.remove("tmpfs")

    def case(self, seed: int, random: Random) -> Outcome:
        way = one_of(random, self._ways)
        job = some_job(random)
        begun = start(self.bench, job, random)
        if way == "tmpfs":
            size = int(random.integers(1, 200)) * 4096
            return self._on_tmpfs(seed, random, size)
        what, prepare = self._limit(way, random)
        signals = CRASHED if way == "memory" else ()
        if way == "read-only":
            before = results(self.bench.work)
            for folder in (self.bench.work, *self.bench.work.rglob("*")):
                if folder.is_dir():
                    folder.chmod(0o555)
            self.bench.base.chmod(0o755)
            ran = run(begun.words, self.bench.work, prepare)
            for folder in (self.bench.work, *self.bench.work.rglob("*")):
                if folder.is_dir():
                    folder.chmod(0o755)
            if ran.code == 0 and results(self.bench.work) == before:
                what += " (wrote nothing)"
        else:
            ran = run(begun.words, self.bench.work, prepare)
        return recovered(self.bench, begun, ran, seed, self.name, what, signals, random)

    def _limit(self, way: str, random: Random) -> tuple[str, Callable[[], None]]:
        """Return a limit in words, and a function that sets it for this process."""
        if way == "memory":
            more = int(random.integers(1, 400)) * MIB
            return f"{more // MIB} MiB more", lambda: _set(resource.RLIMIT_AS, _size() + more)
        if way == "descriptors":
            count = int(random.integers(0, 24))
            return f"{count} more descriptors", lambda: _set(
                resource.RLIMIT_NOFILE, len(list(Path("/proc/self/fd").iterdir())) - 1 + count
            )
        if way == "file size":
            size = int(2 ** random.uniform(0, 18))
            return f"files of {size} bytes", lambda: _set(resource.RLIMIT_FSIZE, size)
        return f"{way}, as another user" if _is_root() else way, _without_home

    def _on_tmpfs(self, seed: int, random: Random, size: int) -> Outcome:
        """Run a command whose output folder is a small file system."""
        job = some_job(random)
        begun = start(self.bench, job, random)
        what = f"tmpfs of {size} bytes"
        folder = self.bench.work / "full"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "torture", str(folder)]
        subprocess.run(mount, check=True, capture_output=True)
        words = tuple(f"full/{word}" if word.startswith("new") else word for word in job.words)
        try:
            ran = run(words, self.bench.work)
            fault = unclear(ran)
        finally:
            subprocess.run(["umount", str(folder)], check=True, capture_output=True)
            folder.rmdir()
        if fault:
            return Outcome(self.name, seed, fault[0], f"{begun}: {what}", fault[1])
        how = REFUSED if ran.code else RIGHT
        return Outcome(self.name, seed, how, f"{begun}: {what}", ran.said, ran.seconds)


def _set(limit: int, value: int) -> None:
    resource.setrlimit(limit, (value, value))


def _size() -> int:
    """Return the bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _is_root() -> bool:
    return os.geteuid() == 0


def _without_home() -> None:
    """Become a user without a home folder and without rights, if this user is root."""
    tempfile.tempdir = None
    for name in (
        "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", FOLDER, "TMPDIR"
    ):  # fmt: skip
        os.environ.pop(name, None)
    if _is_root():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _mounts(folder: Path) -> bool:
    """Return whether this process may mount a file system."""
    if not shutil.which("mount"):
        return False
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=65536", "torture", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        return False
    subprocess.run(["umount", str(folder)], check=True, capture_output=True)
    return True
