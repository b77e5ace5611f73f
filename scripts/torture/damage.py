"""Damaged bytes in files of every kind: refused, or read with the same result."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
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
from scripts.torture.outcomes import REFUSED, RIGHT, WRONG, Outcome, unclear
from scripts.torture.results import plain_json, results
from scripts.torture.running import TRACEBACK, Ran
from scripts.torture.spoiling import spoiled

SECONDS = 2.0  # processor seconds of a refusal
NOISE = 1.5  # factor, for busy machines
LONGEST = 60  # wall seconds of a case
MEMORY = 4 << 30  # bytes of a process


class Damage(Family):
    """Flips, truncations, and zeroed, doubled, swapped or added blocks."""

    name = "byte damage"
    share = 6.0
    batch = 40

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._weights = np.array([kind.weight for kind in KINDS])
        self._right: dict[str, Any] = {}

    def cases(self, seeds: Iterable[int]) -> Iterator[Outcome]:
        """Run many cases in one fork, and continue in another if it dies."""
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
            if left:
                seed = left.pop(0)
                said = "hangs" if code == -signal.SIGALRM else f"ends with {code}"
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
            self._right[line] = plain_json(ran.out), results(self.bench.work)

    def _work(self, seeds: list[int], given: int) -> None:
        """Run the cases in this process, a fork, and write their outcomes to a pipe."""
        try:
            os.setsid()
            os.chdir(self.bench.work)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            with os.fdopen(given, "w") as pipe:
                for seed in seeds:
                    signal.alarm(LONGEST)
                    outcome = self._case(seed, self.random(seed))
                    signal.alarm(0)
                    pipe.write(json.dumps(outcome) + "\n")
                    pipe.flush()
                    self._restore(outcome.what.split())
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(0)

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
        names = {name for name in files if name.split("/")[0].startswith("new")}
        if reader.requires == MAPPING:  # the report has the size of the network file
            names.remove("new/report.json")
        found_files = results(Path.cwd())
        wrong = [name for name in names if found_files.get(name) != files[name]]
        if plain_json(ran.out) != out:
            wrong.append("printed text")
        return (WRONG, f"ends with 0, but {', '.join(wrong)} differ") if wrong else None

    def _restore(self, words: list[str]) -> None:
        """Undo damage and changes of a case, which concern only names in its description."""
        known = {path.name for path in self.bench.whole.iterdir()}
        for path in self.bench.work.iterdir():
            if path.name not in known:
                _remove(path)
        tops = {word.rstrip(":").split("/")[0] for word in words}
        for name in tops & known:
            _remove(self.bench.work / name)
            whole = self.bench.whole / name
            if whole.is_dir():
                shutil.copytree(whole, self.bench.work / name, symlinks=True)
            else:
                shutil.copyfile(whole, self.bench.work / name)


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


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
