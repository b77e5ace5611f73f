"""Kill -9 at random moments, of the driver or a worker, several times, with --resume."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from typing import Any

import psutil

import mapper.session
from mapper.planning.plan import Plan
from scripts.torture.bench import JOBS, SMALL, Bench, Job
from scripts.torture.family import Family, Random, some_job
from scripts.torture.outcomes import KILLED, Outcome, unclear
from scripts.torture.recovery import lost, recovered, start
from scripts.torture.running import Command, Ran

COUNT = 2  # workers
WORKERS = Job("workers", f"run net.bin {SMALL} --workers {COUNT} -q -o new", "new", "--force", True)
WITH_WORKERS = 30
"""One case in so many is a run with workers, whose start takes a hundred times as long."""
KILLS = 3  # of one run, at most


class Kills(Family):
    """Kills of `run`, `sweep`, seeds and other commands, and now and then of a run's workers."""

    name = "kills"
    share = 3.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        _stream_with_workers()
        self._seconds: dict[str, float] = {}

    def case(self, seed: int, random: Random) -> Outcome:
        job = WORKERS if random.integers(WITH_WORKERS) == 0 else some_job(random, JOBS)
        whole = self._length(job)
        begun = start(self.bench, job, random)
        words, kills, what = begun.words, 0, ""
        while True:
            worker = int(random.integers(-COUNT, COUNT)) if job is WORKERS else -1
            moment = float(random.uniform(0, whole))
            ran, victim = self._killed(words, moment, worker)
            what += f"{', ' * bool(what)}{victim} killed after {moment:.3f} s"
            kills += 1
            if kills == KILLS or ran.code >= 0 or random.integers(2):
                return recovered(self.bench, begun, ran, seed, self.name, what, KILLED, random)
            if fault := unclear(ran, KILLED) or lost(self.bench, begun, ran):
                return Outcome(self.name, seed, fault[0], f"{begun}: {what}", fault[1])
            if job.resumes and not begun.old:
                words = (*job.words, "--resume")

    def _length(self, job: Job) -> float:
        """Return the seconds of an undisturbed run."""
        if job.name not in self._seconds:
            self.bench.right(job)
            self.bench.fresh()
            began = time.monotonic()
            self.bench.whole_run(job.line)
            self._seconds[job.name] = time.monotonic() - began
        return self._seconds[job.name]

    def _killed(self, words: tuple[str, ...], moment: float, worker: int) -> tuple[Ran, str]:
        """Kill a command, or one of its workers if `worker` is not negative and it has some."""
        command = Command(words, self.bench.work)
        try:
            time.sleep(moment)
            found = _workers(command.pid) if worker >= 0 else []
            if found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    found[worker % len(found)].kill()
            else:
                command.kill()
            return command.wait(), "worker" if found else "driver"
        finally:
            command.kill_group()


def _stream_with_workers() -> None:
    """Let runs with workers stream the network, which workers read; memory would hold it."""
    plan = mapper.session.make_plan

    def streamed(*given: Any) -> Plan:
        found = plan(*given)
        return replace(found, held=False, levels=False) if "--workers" in sys.argv else found

    mapper.session.make_plan = streamed


def _workers(pid: int) -> list[psutil.Process]:
    """Return the workers that a command has started."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        return [one for one in children if "spawn_main" in " ".join(one.cmdline())]
    except psutil.NoSuchProcess:
        return []
