"""Two to four commands at once on one output."""

from __future__ import annotations

import re
import time

from scripts.torture.bench import COMPILE, SMALL, Bench, Job, of_output
from scripts.torture.family import Family, Random, one_of
from scripts.torture.outcomes import RIGHT, STUCK, WRONG, Outcome, unclear
from scripts.torture.recovery import TEMPORARY, without_temporary
from scripts.torture.results import Results, different, results
from scripts.torture.running import Command, run

RUN = f"run net.bin {SMALL} -q -o new"
WRITERS = (
    Job("run", RUN, "new", "--force", True),
    Job("run 7", f"{RUN} --seed 7", "new", "--force", True),
    Job("seeds", f"run net.bin {SMALL} --seeds 1..2 -q -o new", "new", "--force", True),
    Job("sweep", "sweep sweep.toml --threads 1 --memory 256MiB -q -o new", "new", "--force", True),
    Job("compile", f"{COMPILE} -q -o new", "new", "--force"),
    Job("generate", "generate cortex new --side 20 --fanout 9 --sigma 3 -q", "new"),
    Job("import", "import g.graph new -q", "new"),
    Job("refused import", "import map.csv new --format metis -q", "new"),
)
FILES = (
    Job("export", "export net.bin new.csv -q", "new.csv"),
    Job("export mapping", "export out new.csv -q", "new.csv"),
    Job("place", "place g.graph --chip 2x2 -o new.csv -q", "new.csv"),
    Job("export metis", "export net.bin new.csv --format metis -q", "new.csv"),
)
REPORTS = (
    Job("report", "report out -q", "out"),
    Job("report page", "report out -o out/report.html -q", "out"),
)
READERS = ("verify new -q", "info new --json", "report new -q", "export new other.csv -q")
MOST = 4  # commands at once
OTHER_KIND = re.compile(
    r"is a folder|contains files other than a portfolio|is not the output of a run"
)
"""Refusals to replace an earlier output of another kind."""


class Together(Family):
    """All pairs of commands that write, and commands that read while another writes."""

    name = "processes"
    share = 3.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._right: dict[str, Results] = {}

    def case(self, seed: int, random: Random) -> Outcome:
        jobs, read = self._chosen(random)
        allowed = [found for job in jobs if (found := self._result(job)) is not None]
        self.bench.fresh()
        if random.integers(3) == 0 and jobs[0].again:
            self.bench.whole_run(WRITERS[0].line)
            allowed.append(self._result(WRITERS[0]) or {})
        lines = [self._line(job, random) for job in jobs] + read
        what = " & ".join(f"mapper {line}" for line in lines)
        began = []
        for line in lines:
            began.append(Command(line.split(), self.bench.work))
            time.sleep(float(random.uniform(0, 0.3)) * int(random.integers(2)))
        ended = [command.wait() for command in began]
        for command in began:
            command.kill_group()
        for line, ran in zip(lines, ended, strict=True):
            if fault := unclear(ran):
                return Outcome(self.name, seed, fault[0], what, f"{line}: {fault[1]}")
        found = results(self.bench.work)
        output = of_output(found, jobs[0].output)
        said = "; ".join(f"{ran.code}: {ran.said.strip()[-200:]}" for ran in ended)
        if output not in (allowed or [{}]) and jobs[0].output != "out":
            diffs = " or ".join(different(output, one) for one in allowed)
            return Outcome(self.name, seed, WRONG, what, f"{diffs or 'no output'}; {said}")
        if left := [name for name in found if TEMPORARY.search(name)]:
            return Outcome(self.name, seed, WRONG, what, f"left: {left}; {said}")
        if fault_text := self._repeat(jobs[0]):
            return Outcome(self.name, seed, STUCK, what, f"{fault_text}; after {said}")
        return Outcome(self.name, seed, RIGHT, what, said)

    def _chosen(self, random: Random) -> tuple[list[Job], list[str]]:
        """Return commands that write one output, and commands that read it."""
        kind = int(random.integers(8))
        if kind == 0:
            return list(REPORTS) * int(random.integers(1, 3)), []
        if kind == 1:
            return [WRITERS[0]], [one_of(random, READERS) for _ in range(1, MOST)]
        some = FILES if kind == 2 else WRITERS
        count = 2 if random.integers(2) else int(random.integers(3, MOST + 1))
        return [one_of(random, some) for _ in range(count)], []

    def _line(self, job: Job, random: Random) -> str:
        way = int(random.integers(3))
        if job.again and way == 0:
            return f"{job.line} {job.again}"
        return f"{job.line} --resume" if job.resumes and way == 1 else job.line

    def _result(self, job: Job) -> Results | None:
        """Return the output of a command that runs alone, None if it fails."""
        if job.name not in self._right:
            self.bench.fresh()
            ran = run(job.words, self.bench.work)
            found = of_output(results(self.bench.work), job.output)
            self._right[job.name] = {} if ran.code else without_temporary(found)
        return self._right[job.name] or None

    def _repeat(self, job: Job) -> str:
        """Run a command alone on the output of all; return its fault, or ""."""
        if (right := self._result(job)) is None:
            return ""
        line = f"{job.line} {job.again}"
        ran = run(line.split(), self.bench.work)
        found = of_output(results(self.bench.work), job.output)
        if ran.code and OTHER_KIND.search(ran.said):
            return ""
        return f"{ran.code}: {ran.said}" if ran.code else different(found, right)
