"""Damaged scratch of killed runs, which --resume must survive; it must report the loss."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mapper.resume.checkpoint import Checkpoint
from scripts.torture.bench import JOBS, Bench
from scripts.torture.family import Family, Random, one_of
from scripts.torture.outcomes import REFUSED, RIGHT, STUCK, WRONG, Outcome, unclear
from scripts.torture.running import run
from scripts.torture.spoiling import spoiled, with_earlier_pages
from storage.scratch.scratch import FILE as RECORDS

RUN = next(job for job in JOBS if job.name == "run")
KEPT = "new.partial"
MOST_STEPS = 40  # of a run, at most
LOST = "damaged"
"""Word in the notes on files of the earlier run that cannot be used."""


class Scratch(Family):
    """Runs killed after each of their steps, with a damaged file in the folder that remains."""

    name = "scratch damage"
    share = 2.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._folders: list[Path] = []

    def case(self, seed: int, random: Random) -> Outcome:
        self._kill_after_steps()
        kept = one_of(random, self._folders)
        self.bench.fresh()
        folder = self.bench.work / KEPT
        shutil.copytree(kept, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        records = [path for path in files if path.name == RECORDS]
        words = (*(word for word in RUN.words if word != "-q"), "--resume")  # -q hides notes
        what = f"mapper {' '.join(words)}: killed after step {kept.name}"
        for _ in range(1 if random.integers(3) else 2):
            path = one_of(random, records if random.integers(3) else files)
            before = path.read_bytes()
            if path in records and random.integers(3) == 0:
                other = one_of(random, self._folders) / path.relative_to(folder)
                data, damage = with_earlier_pages(before, other.read_bytes(), random)
            else:
                data, damage = spoiled(before, random)
            path.write_bytes(data)
            what += f"; {path.relative_to(self.bench.work)}: {damage}"
        damaged = any(self._is_damaged(path) for path in records)
        ran = run(words, self.bench.work)
        if fault := unclear(ran):
            return Outcome(self.name, seed, fault[0], what, fault[1])
        if ran.code:
            again = run((*RUN.words, "--force"), self.bench.work)
            if again.code or (wrong := self.bench.differs(RUN)):
                said = again.said if again.code else wrong
                return Outcome(self.name, seed, STUCK, what, f"{ran.said}; then {said}")
            return Outcome(self.name, seed, REFUSED, what, ran.said, ran.seconds)
        wrong = self.bench.differs(RUN)
        if damaged and LOST not in ran.said and not wrong:
            wrong = f"records are lost without a note: {ran.said}"
        return Outcome(self.name, seed, WRONG if wrong else RIGHT, what, wrong or ran.said)

    def _is_damaged(self, records: Path) -> bool:
        """Return whether records differ from all that an equal run has at some moment."""
        data, name = records.read_bytes(), records.relative_to(self.bench.work / KEPT)
        return not any((kept / name).read_bytes().startswith(data) for kept in self._folders)

    def _kill_after_steps(self) -> None:
        """Run once per step and keep the unfinished folders."""
        if self._folders:
            return
        self.bench.right(RUN)
        for step in range(1, MOST_STEPS):
            self.bench.fresh()
            ran = run(RUN.words, self.bench.work, _killing(step))
            if ran.code == 0:
                return
            kept = self.bench.base / "kept" / str(step)
            shutil.copytree(self.bench.work / KEPT, kept)
            self._folders.append(kept)


def _killing(last: int) -> Callable[[], None]:
    """Return a function that makes this process kill itself after so many steps."""

    def prepare() -> None:
        genuine, steps = Checkpoint.run_once, 0

        def run_once(self: Checkpoint, name: str, work: Any) -> Any:
            nonlocal steps
            arrays = genuine(self, name, work)
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return arrays

        Checkpoint.run_once = run_once  # type: ignore[method-assign]

    return prepare
