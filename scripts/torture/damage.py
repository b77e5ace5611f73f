"""Damaged bytes in files of every kind: refused, or read with the same result."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mapper.cli.main import main
from scripts.torture.bench import Bench
from scripts.torture.damage_kinds import ANY, KINDS, MAPPING, METRICS, Kind, Reader, files_of
from scripts.torture.family import Family, Random, one_of
from scripts.torture.outcomes import FAULTS, REFUSED, RIGHT, WRONG, Outcome, unclear
from scripts.torture.results import Results, plain_json, results
from scripts.torture.running import TRACEBACK, Ran
from scripts.torture.spoiling import spoiled

SECONDS = 2.0  # processor seconds of a refusal
NOISE = 1.5  # factor, for busy machines
LONGEST = 30  # processor seconds of a case
WAITS = 300  # wall seconds of a case
MEMORY = 4 << 30  # bytes of a process
FILE_SIZE = re.compile(r'"(stored_bytes|bytes_per_connection)": [^,}]*')
"""Values that damage changes although the content remains: appended bytes count."""


class Damage(Family):
    """Flips, truncations, and zeroed, doubled, swapped or added blocks."""

    name = "byte damage"
    share = 6.0
    batch = 200

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._weights = np.array([kind.weight for kind in KINDS])
        self._right: dict[str, Any] = {}

    def cases(self, seeds: Iterable[int]) -> Iterator[Outcome]:
        """Run many cases in one fork, and continue in another after a fault or if it dies."""
        left = list(seeds)
        for seed in left:
            self._prepare(*self._chosen(self.random(seed)))
        while left:
            self.bench.fresh()
            place, given = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(place)
                self._work(left, given)
            os.close(given)
            with os.fdopen(place) as pipe:
                for line in pipe:
                    yield Outcome(*json.loads(line))
                    left.pop(0)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            if code:
                seed = left.pop(0)
                hangs = code in (-signal.SIGALRM, -signal.SIGPROF)
                said = "hangs" if hangs else f"ends with {code}"
                yield Outcome(self.name, seed, WRONG, f"seed {seed}", said)

    def _chosen(self, random: Random) -> tuple[Kind, Path, Reader]:
        """Return a random kind, one of its files in the unchanged folder, and a command."""
        kind = KINDS[int(random.choice(len(KINDS), p=self._weights / self._weights.sum()))]
        path = one_of(random, files_of(kind, self.bench.whole))
        return kind, path.relative_to(self.bench.whole), one_of(random, kind.readers)

    def _prepare(self, kind: Kind, file: Path, reader: Reader) -> None:
        """Keep the result of a command on undamaged files, if results are compared."""
        line = reader.line.format(file)
        if reader.requires not in (ANY, METRICS) and line not in self._right:
            self.bench.fresh()
            ran = self.bench.whole_run(line)
            self._right[line] = _plain(ran.out), _written(self.bench.work)

    def _work(self, seeds: list[int], given: int) -> None:
        """Run cases in this process, a fork, up to the first fault, whose folder remains.

        given : pipe for their outcomes
        """
        code = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            with os.fdopen(given, "w") as pipe:
                for seed in seeds:
                    os.chdir(self.bench.work)
                    signal.alarm(WAITS)
                    signal.setitimer(signal.ITIMER_PROF, LONGEST)
                    outcome = self._case(seed, self.random(seed))
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    signal.alarm(0)
                    pipe.write(json.dumps(outcome) + "\n")
                    pipe.flush()
                    if outcome.how in FAULTS:
                        break
                    self.bench.fresh()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)

    def _case(self, seed: int, random: Random) -> Outcome:
        _, file, reader = self._chosen(random)
        line, whole = reader.line.format(file), (self.bench.whole / file).read_bytes()
        data, damage = spoiled(whole, random)
        file.write_bytes(data)
        ran = _ran(line)
        what = f"mapper {line}: {file}: {damage}"
        fault = unclear(ran) or self._fault(line, reader, ran, file, data == whole)
        if fault:
            return Outcome(self.name, seed, fault[0], what, fault[1])
        how = REFUSED if ran.code else RIGHT
        return Outcome(self.name, seed, how, what, ran.said, ran.seconds if ran.code else 0.0)

    def _fault(
        self, line: str, reader: Reader, ran: Ran, file: Path, same: bool
    ) -> tuple[str, str] | None:
        if ran.code:
            if ran.seconds > SECONDS * NOISE:
                return WRONG, f"{ran.seconds:.1f} s until it is refused: {ran.said}"
            return (WRONG, f"refused without a damage: {ran.said}") if same else None
        if reader.then and (after := _ran(reader.then)).code:
            return WRONG, f"ends with 0, but {reader.then}: {after.code}: {after.said[-500:]}"
        if reader.requires == METRICS:
            found = json.loads(file.read_bytes())["metrics"]
            right = json.loads((self.bench.whole / file).read_bytes())["metrics"]
            return (WRONG, "other metrics are verified") if found != right else None
        if reader.requires == ANY:
            return None
        out, files = self._right[line]
        found = _written(Path.cwd())
        names = files.keys() | found.keys()
        if reader.requires == MAPPING:  # the report has the size of the network file
            names -= {"new/report.json"}
        wrong = [name for name in sorted(names) if found.get(name) != files.get(name)]
        if _plain(ran.out) != out:
            wrong.append("printed text")
        return (WRONG, f"ends with 0, but {', '.join(wrong)} differ") if wrong else None


def _ran(line: str) -> Ran:
    """Run a command in this process."""
    out, said = io.StringIO(), io.StringIO()
    began = time.process_time()
    code = TRACEBACK
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        try:
            code = main(line.split())
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            traceback.print_exc()
    return Ran(code, out.getvalue(), said.getvalue(), time.process_time() - began)


def _written(folder: Path) -> Results:
    """Return the digests of the files that commands write."""
    return {
        f"{path.name}/{name}" if path.is_dir() else name: digest
        for path in folder.glob("new*")
        for name, digest in results(path).items()
    }


def _plain(text: str) -> str:
    """Return printed text without measurements and the size of the damaged file."""
    return FILE_SIZE.sub("", plain_json(text))
