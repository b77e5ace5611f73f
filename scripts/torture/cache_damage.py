"""Damaged, torn and deleted files of the cache and the catalogue, which commands must survive."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from mapper.cache.cache import FILE as CACHE
from mapper.cache.catalogue import FILE as CATALOGUE
from mapper.cache.database import DAMAGED
from mapper.cache.location import FOLDER, SIZE
from mapper.inputs import cached_import
from scripts.torture.bench import COMPILE, JOBS, SMALL, Bench, Job
from scripts.torture.family import Family, Random, one_of
from scripts.torture.outcomes import RIGHT, STUCK, WRONG, Outcome, unclear
from scripts.torture.results import different, results
from scripts.torture.running import Ran, run
from scripts.torture.spoiling import PAGE, spoiled, with_earlier_pages

PLACE = "cache"
"""Folder of both files in the work folder."""
COMPILES, IMPORTS = (next(job for job in JOBS if job.name == n) for n in ("compile", "import csv"))
CHOICE = (COMPILES, IMPORTS, IMPORTS, IMPORTS, IMPORTS)
"""Commands that use a damaged file; only compilations add to the catalogue."""
EARLIER = (
    f"{COMPILE} --rounding up -q -o first", f"run net.bin {SMALL} -q -o second",
    f"{COMPILE} --baseline serpentine -q -o third",
    "sweep sweep.toml --threads 1 --memory 256MiB -q -o all", f"{COMPILE} -q -o fourth",
    IMPORTS.line,
)  # fmt: skip
"""Commands that fill both files; the state after each one is kept."""
TOLD = "damaged"
Catalogued = dict[str, Any]
"""Rows of the catalogue by id."""


class CacheDamage(Family):
    """Damaged bytes, zeroed and earlier pages, truncated and deleted files.

    The next command has the right results, also with the damaged file, and reports the loss: a
    file that is set aside, or rows of the catalogue. The command after it finds no damage.
    """

    name = "cache damage"
    share = 2.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._states: list[Path] = []
        self._rows: Catalogued = {}

    def case(self, seed: int, random: Random) -> Outcome:
        self._fill()
        folder = self.bench.fresh() / PLACE
        shutil.copytree(self._states[-1], folder)
        job = one_of(random, CHOICE)
        line = job.line.replace(" -q", "")  # which would hide notes
        what, silent = f"mapper {line}", False
        for name in ((CACHE,), (CATALOGUE,), (CACHE, CATALOGUE))[int(random.integers(3))]:
            damage, unknown = self._damage(folder / name, random)
            what += f"; {name}: {damage}"
            silent |= unknown and name == CATALOGUE
        first = self._run(line)
        if fault := unclear(first) or self._wrong(job, first):
            return Outcome(self.name, seed, fault[0], what, fault[1])
        rows = self._run("runs --json --last 1000")
        if fault := unclear(rows) or self._lost(job, rows, first, silent):
            return Outcome(self.name, seed, fault[0], what, fault[1])
        second = self._run(f"{line} {job.again}")
        if fault := unclear(second) or self._wrong(job, second):
            return Outcome(self.name, seed, STUCK, what, fault[1])
        if TOLD in second.said:
            return Outcome(self.name, seed, STUCK, what, f"it remains damaged: {second.said}")
        return Outcome(self.name, seed, RIGHT, what, first.said + rows.said)

    def _fill(self) -> None:
        """Run the commands that fill both files."""
        if self._states:
            return
        for job in (COMPILES, IMPORTS):
            self.bench.right(job)
        work = self.bench.fresh()
        for number, line in enumerate(EARLIER):
            self.bench.whole_run(line, self._use)
            kept = self.bench.base / "cached" / str(number)
            shutil.copytree(work / PLACE, kept)
            self._states.append(kept)
        self._rows = _rows(self._run("runs --json --last 1000"))

    def _damage(self, path: Path, random: Random) -> tuple[str, bool]:
        """Damage a file; return how, and whether it may be a sound file of an earlier moment."""
        way = int(random.integers(8))
        if way == 0:
            path.unlink()
            return "deleted", True
        data = path.read_bytes()
        if way < 4:
            earlier = one_of(random, self._states[:-1]) / path.name
            damaged, damage = with_earlier_pages(data, earlier.read_bytes(), random)
            silent = damaged[: 2 * PAGE] != data[: 2 * PAGE]
        else:
            damaged, damage = spoiled(data, random)
            silent = not damaged
        path.write_bytes(damaged)
        return damage, silent

    def _wrong(self, job: Job, ran: Ran) -> tuple[str, str] | None:
        """Return the fault of a command that used a damaged file."""
        if ran.code:
            return WRONG, f"ends with {ran.code}: {ran.said}"
        found = results(self.bench.work)
        kept = {Path(name).name for name in found if name.startswith(f"{PLACE}/")}
        if more := kept - {CACHE, CATALOGUE, CACHE + DAMAGED, CATALOGUE + DAMAGED}:
            return WRONG, f"files are left: {sorted(more)}"
        own = {name: one for name, one in found.items() if not name.startswith(f"{PLACE}/")}
        wrong = different(own, self.bench.right(job).files)
        return (WRONG, wrong) if wrong else None

    def _lost(self, job: Job, ran: Ran, before: Ran, silent: bool) -> tuple[str, str] | None:
        """Return the fault of the catalogue, after a command that may have set it aside.

        silent : rows may be missing without a note
        """
        if ran.code:
            return WRONG, f"the catalogue cannot be read: {ran.said}"
        rows, told = _rows(ran), before.said + ran.said
        new = rows.keys() - self._rows.keys()
        if [Path(rows[id]["folder"]).name for id in new] != ["new"] * (job is COMPILES):
            return WRONG, f"new rows: {[rows[id] for id in new]}"
        known = rows.keys() - new
        if other := [id for id in known if rows[id] != self._rows[id]]:
            return WRONG, f"rows are changed: {other}"
        folder = self.bench.work / PLACE
        for name in (CACHE, CATALOGUE):
            if (folder / (name + DAMAGED)).exists() and f"{name}: is damaged" not in told:
                return WRONG, f"{name} is set aside without a note"
        gone = len(self._rows) - len(known)
        if gone and not silent and TOLD not in told:
            return WRONG, f"{gone} rows are lost without a note"
        return None

    def _run(self, line: str) -> Ran:
        return run(line.split(), self.bench.work, self._use)

    def _use(self) -> None:
        os.environ |= {FOLDER: str(self.bench.work / PLACE), SIZE: "256MiB"}
        cached_import.LEAST_BYTES = 1


def _rows(ran: Ran) -> Catalogued:
    """Return the rows that `mapper runs` has printed, without what depends on other files."""
    rows = json.loads(ran.out)["runs"]
    return {row["id"]: {k: v for k, v in row.items() if k != "exists"} for row in rows}
