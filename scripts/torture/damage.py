"""Damaged bytes in files of every kind: refused, or read with the same result."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from mapper.cli.main import main
from scripts.torture.batches import Batches
from scripts.torture.bench import Bench
from scripts.torture.damage_kinds import ANY, KINDS, MAPPING, METRICS, Kind, Reader, files_of
from scripts.torture.family import Random, one_of
from scripts.torture.outcomes import REFUSED, RIGHT, WRONG, Outcome, unclear
from scripts.torture.results import Results, plain_json, results
from scripts.torture.running import TRACEBACK, Ran
from scripts.torture.spoiling import spoiled

SECONDS = 2.0  # processor seconds of a refusal
ROUNDING = 1e-9  # relative error of real metrics that verify allows
NOISE = 1.5  # factor, for busy machines
FILE_SIZE = re.compile(r'"(stored_bytes|bytes_per_connection)": [^,}]*')
"""Values that damage changes although the content remains: appended bytes count."""


class Damage(Batches):
    """Flips, truncations, and zeroed, doubled, swapped or added blocks."""

    name = "byte damage"
    share = 4.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._weights = np.array([kind.weight for kind in KINDS])
        self._right: dict[str, Any] = {}

    def _chosen(self, random: Random) -> tuple[Kind, Path, Reader]:
        """Return a random kind, one of its files in the unchanged folder, and a command."""
        kind = KINDS[int(random.choice(len(KINDS), p=self._weights / self._weights.sum()))]
        path = one_of(random, files_of(kind, self.bench.whole))
        return kind, path.relative_to(self.bench.whole), one_of(random, kind.readers)

    def prepare(self, random: Random) -> None:
        """Keep the result of a command on undamaged files, if results are compared."""
        _, file, reader = self._chosen(random)
        line = reader.line.format(file)
        if reader.requires not in (ANY, METRICS) and line not in self._right:
            self.bench.fresh()
            ran = self.bench.whole_run(line)
            self._right[line] = _plain(ran.out), _written(self.bench.work)

    def case(self, seed: int, random: Random) -> Outcome:
        _, file, reader = self._chosen(random)
        line, whole = reader.line.format(file), (self.bench.whole / file).read_bytes()
        data = whole
        while data == whole:  # some changes, as of a byte to itself, are none
            data, damage = spoiled(whole, random)
        file.write_bytes(data)
        ran = _ran(line)
        what = f"mapper {line}: {file}: {damage}"
        fault = unclear(ran) or self._fault(line, reader, ran, file)
        if fault:
            return Outcome(self.name, seed, fault[0], what, fault[1])
        how = REFUSED if ran.code else RIGHT
        return Outcome(self.name, seed, how, what, ran.said, ran.seconds if ran.code else 0.0)

    def _fault(self, line: str, reader: Reader, ran: Ran, file: Path) -> tuple[str, str] | None:
        if ran.code:
            if ran.seconds > SECONDS * NOISE:
                return WRONG, f"{ran.seconds:.1f} s until it is refused: {ran.said}"
            return None
        if reader.then and (after := _ran(reader.then)).code:
            return WRONG, f"ends with 0, but {reader.then}: {after.code}: {after.said[-500:]}"
        if reader.requires == METRICS:
            found = json.loads(file.read_bytes())["metrics"]
            right = json.loads((self.bench.whole / file).read_bytes())["metrics"]
            same = _near(found, right)
            return None if same else (WRONG, "other metrics are verified")
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


def _near(found: Any, right: Any) -> bool:
    """Return whether values are equal, real numbers up to the rounding that `verify` allows."""
    if isinstance(right, dict):
        keys = right.keys()
        return isinstance(found, dict) and found.keys() == keys and all(
            _near(found[key], right[key]) for key in keys
        )  # fmt: skip
    if isinstance(right, float) and isinstance(found, float):
        return math.isclose(found, right, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return bool(found == right)


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
