"""Kill -9 at random moments, of the driver or a worker, several times, with --resume."""

from __future__ import annotations

import time

import psutil

from scripts.torture.bench import JOBS, SMALL, Bench, Job
from scripts.torture.family import Family, Random, some_job
from scripts.torture.outcomes import Outcome, unclear
from scripts.torture.recovery import lost, recovered, start
from scripts.torture.running import Command, Ran

WORKERS = Job("workers", f"run net.bin {SMALL} --workers 2 -q -o new", "new", "--force", True)
KILLS = 3  # of one run, at most
LONGEST = 120.0  # seconds of a run with workers


class Kills(Family):
    """Kills of `run`, `sweep`, seeds and other commands, and now and then of a run's workers."""

    name = "kills"
    share = 3.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._seconds: dict[str, float] = {}

    def case(self, seed: int, random: Random) -> Outcome:
        job = WORKERS if random.integers(40) == 0 else some_job(random, JOBS)
        whole = self._length(job)
        begun = start(self.bench, job, random)
        words, kills, what = begun.words, 0, ""
        while True:
            victim = "worker" if job is WORKERS and random.integers(2) else "driver"
            moment = float(random.uniform(0, whole))
            what += f"{', ' * bool(what)}{victim} killed after {moment:.3f} s"
            ran = self._killed(words, moment, victim)
            kills += 1
            if kills == KILLS or ran.code >= 0 or random.integers(2):
                return recovered(self.bench, begun, ran, seed, self.name, what, True, random)
            if fault := unclear(ran, True) or lost(self.bench, begun, ran):
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

    def _killed(self, words: tuple[str, ...], moment: float, victim: str) -> Ran:
        command = Command(words, self.bench.work)
        try:
            time.sleep(moment)
            if victim == "driver":
                command.kill()
            else:
                _kill_a_child(command.pid)
            return command.wait(LONGEST)
        finally:
            command.kill_group()


def _kill_a_child(pid: int) -> None:
    """Kill the last process that a command has started, if there is one."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        if children:
            children[-1].kill()
    except psutil.NoSuchProcess:
        pass
