"""Runs of `bench_workers.py` on generated networks, without and with workers."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench_common import Process, mapper, need, run, say

SMALL = 200  # side of a network whose run is mostly start-up
LEAST_WORKER = 448  # MiB
KILLED_AT = 512
SEEDS_AT = 316
MEMORY = {SMALL: 256, SEEDS_AT: 320, KILLED_AT: 512, 1024: 1024, 2048: 2048, 3163: 3072}


@dataclass(frozen=True, slots=True)
class Ran:
    """A run: its process, the hash of its mapping, and its report."""

    process: Process
    mapping: str
    report: dict[str, Any]

    @property
    def workers(self) -> dict[str, Any]:
        """Return the workers of the report; raise `SystemExit` if the run had none."""
        if "workers" not in self.report:
            raise SystemExit("run --workers: no workers were used; the network is too small")
        found: dict[str, Any] = self.report["workers"]
        return found


class Bench:
    """Runs on generated networks, which are kept in a folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder: Path = options.work

    def network(self, side: int, shuffled: bool = False) -> Path:
        path = self.folder / f"cortex-{side}-{'shuffled' if shuffled else 'natural'}.bin"
        if not path.exists():
            say(f"creating {path.name}")
            reach = "6" if side <= 512 else "12"
            words = ["--side", str(side), "--fanout", "50", "--sigma", reach, "--seed", "1"]
            words += ["--long-range", "0.1", *(["--shuffle"] if shuffled else [])]
            need(mapper("generate", "cortex", *words, str(path), "-q"))
        return path

    def command(self, side: int, *words: str, shuffled: bool = False) -> list[str]:
        """Return a streamed run; of `words` only the seed may change the result."""
        return mapper("run", *self.words(side, shuffled), "--force", "-q", *words)

    def words(self, side: int, shuffled: bool) -> tuple[str, ...]:
        """Return the arguments shared by a run and its check."""
        cores = -(-side // 16)
        return (
            str(self.network(side, shuffled)), "--chip", f"{cores}x{cores}", "--neurons-per-core",
            "264", "--memory", f"{memory_of(side)}MiB", "--set", "level-budget=1000",
        )  # fmt: skip

    def planned(self, side: int, shuffled: bool) -> dict[str, dict[str, Any]]:
        """Return the estimates of `mapper check` for each stage with two workers."""
        words = ("--workers", "2", "--worker-threads", "1", "--json")
        command = mapper("check", *self.words(side, shuffled), *words)
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        stages = json.loads(found.stdout)["workers"]["stages"]
        return {stage["name"]: stage for stage in stages}

    def run(
        self, side: int, *words: str, shuffled: bool = False, before: Sequence[str] = ()
    ) -> Ran:
        """Run mapper. before : words before the command"""
        output = self.folder / "result"
        command = [*self.command(side, *words, shuffled=shuffled), "-o", str(output)]
        process = run([*before, *command])
        if process.failed:
            raise SystemExit(f"side {side}, {' '.join(words)}: {process.failed}")
        return taken(output, process)

    @cached_property
    def pairs(self) -> dict[int, list[tuple[Ran, Ran]]]:
        """Alternating runs without and with workers, by side; the small network first."""
        found: dict[int, list[tuple[Ran, Ran]]] = {}
        for side in (SMALL, *self.options.sides):
            self.network(side)
        for side in (SMALL, *self.options.sides):
            self.run(SMALL, *two_workers(SMALL))  # compiles the kernels if necessary
            for _ in range(self.options.repeat):
                one = self.run(side, "--threads", "2")
                two = self.run(side, *two_workers(side))
                found.setdefault(side, []).append((one, two))
                if one.mapping != two.mapping:
                    raise SystemExit(f"side {side}: the mapping with workers differs")
                cpu = f"{one.process.cpu_seconds:.1f} s, {two.process.cpu_seconds:.1f} s"
                say(f"side {side}: processor time without, with workers: {cpu}")
        return found


def memory_of(side: int) -> int:
    """Return --memory in MiB with which a sheet is streamed in blocks of sufficient size."""
    return MEMORY.get(side, max(256, 1024 * side * side // 1024**2))


def worker_memory(side: int) -> int:
    """Return MiB per worker: half of the driver's memory, but enough for Python and the engine."""
    return max(memory_of(side) // 2, LEAST_WORKER)


def two_workers(side: int) -> tuple[str, ...]:
    half = worker_memory(side)
    return (
        "--threads", "2", "--workers", "2", "--worker-threads", "1",
        "--worker-memory", f"{half}MiB",
    )  # fmt: skip


def taken(output: Path, process: Process) -> Ran:
    """Read mapping and report of a run, and delete its folder."""
    digest = hashlib.sha256((output / "mapping.npz").read_bytes()).hexdigest()
    report = json.loads((output / "report.json").read_text())
    shutil.rmtree(output)
    return Ran(process, digest, report)
