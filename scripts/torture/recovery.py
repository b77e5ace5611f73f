"""Requirements after a disturbed command: its output is old or new, and a repeat completes it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from typing import NamedTuple

from scripts.torture.bench import COMPILE, REFUSES, SMALL, Bench, Job, of_output
from scripts.torture.family import Random
from scripts.torture.outcomes import REFUSED, RIGHT, STUCK, WRONG, Outcome, unclear
from scripts.torture.results import CACHE, Results, different, results
from scripts.torture.running import Ran, run

EARLIER = {
    "run": f"run net.bin {SMALL} --seed 7 -q -o new",
    "compile": f"{COMPILE} --rounding up -q -o new",
    "generate": "generate cortex new.bin --side 18 --fanout 9 --sigma 3 -q",
    "import csv": "import f/edgelist-c.el new.bin -q",
    "export csv": "export net.bin new.csv -q --format metis",
    "export mapping": "export net.bin new.csv -q",
}
"""Commands that write an output, which the job of that name then replaces."""
TEMPORARY = re.compile(r"\.(partial|lock)(/|$)|/scratch/")
BEST = "new/best"
GROWING = ("portfolio.json", "sweep.csv", "best", "network.json")
"""Files that list the finished runs or files of a folder."""


class Start(NamedTuple):
    """The state before a disturbed command.

    job : the command; words : its words, with the option to replace an earlier output
    old : results of the output before; {} if there was none
    """

    job: Job
    words: tuple[str, ...]
    old: Results

    def __str__(self) -> str:
        return f"mapper {' '.join(self.words)}"


def start(bench: Bench, job: Job, random: Random) -> Start:
    """Fill the work folder; in a third of the cases with an earlier output to replace, in a quarter
    without a cache."""
    bench.right(job)
    work = bench.fresh()
    if random.integers(4) == 0:
        shutil.rmtree(work / CACHE)
    words = job.words
    if job.name in EARLIER and random.integers(3) == 0:
        bench.write(EARLIER[job.name], job.output)
        words += tuple(job.again.split())
    return Start(job, words, of_output(results(work), job.output))


def recovered(
    bench: Bench, begun: Start, ran: Ran, seed: int, family: str, what: str,
    signals: Collection[int], random: Random,
) -> Outcome:  # fmt: skip
    """Check the end of a disturbed command, and repeat it without a fault.

    signals : signals that the fault may end the command with
    """

    def outcome(how: str, said: str) -> Outcome:
        seconds = ran.seconds if how == REFUSED else 0.0
        return Outcome(family, seed, how, f"{begun}: {what}", said, seconds)

    if fault := unclear(ran, signals) or lost(bench, begun, ran):
        return outcome(*fault)
    if ran.code == 0 and not bench.differs(begun.job):
        return outcome(RIGHT, ran.said)  # a repeat would start as after an undisturbed command
    if bench.is_untouched():
        return outcome(REFUSED if ran.code > 0 else RIGHT, ran.said)  # or as the first one
    if fault_text := repeated(bench, begun, ran, random):
        return outcome(STUCK, f"{fault_text}; after: {ran.code}: {ran.said[-300:]}")
    return outcome(REFUSED if ran.code > 0 else RIGHT, ran.said)


def lost(bench: Bench, begun: Start, ran: Ran) -> tuple[str, str] | None:
    """Return the fault if the output is neither the old one nor the right one."""
    job, found = begun.job, of_output(results(bench.work), begun.job.output)
    right = of_output(bench.right(job).files, job.output)
    if ran.code == 0:
        # a warning, which -q hides, says that there is no link to the best run
        right = {name: one for name, one in right.items() if name in found or name != BEST}
        wrong = different(without_temporary(found), right)
        return (WRONG, f"ends with 0, but {wrong}: {ran.said[-200:]}") if wrong else None
    if job.grows:
        torn = [
            name
            for name, one in without_temporary(found).items()
            if name.rpartition("/")[2] not in GROWING
            and one not in (begun.old.get(name), right.get(name))
        ]
        gone = sorted(begun.old.keys() - found.keys())
        return (WRONG, f"neither old nor new: {torn}; lost: {gone}") if torn or gone else None
    if begun.old and not found:
        return WRONG, f"the earlier output is lost: {ran.code} {ran.said[-200:]}"
    new, old = different(found, right), different(found, begun.old)
    if found and new and old:
        return WRONG, f"output is neither old ({old}) nor new ({new}): {ran.said[-200:]}"
    return None


def without_temporary(found: Results) -> Results:
    """Return the results without locks and unfinished files, which a repeat removes."""
    return {name: one for name, one in found.items() if not TEMPORARY.search(name)}


def repeated(bench: Bench, begun: Start, earlier: Ran, random: Random) -> str:
    """Run the command again, and return its fault, or "".

    Files that an earlier success could not remove, which it has said, remain.
    """
    job = begun.job
    again = job.again
    if job.resumes and not begun.old and random.integers(4):
        again = "--resume"
    if again == REFUSES:
        # a command that was killed after the last rename is complete, but leaves its lock
        if not different(without_temporary(results(bench.work)), bench.right(job).files):
            return ""
        again = ""
    line = f"{job.line} {again}".strip()
    ran = run(line.split(), bench.work)
    if ran.code:
        return f"{line}: {ran.code}: {ran.said[-1000:]}"
    found = results(bench.work)
    if earlier.code == 0:
        found = without_temporary(found)
    wrong = different(found, bench.right(job).files)
    return f"{line}: {wrong}" if wrong else ""
