"""Hostile files: devices, pipes, bombs, huge numbers, deep nesting, and damaged model graphs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from scripts.fuzz_damages import damage_model
from scripts.fuzz_graphs import Base, good_models
from scripts.torture.bench import COMPILE, Bench
from scripts.torture.family import Family, Random, one_of
from scripts.torture.outcomes import REFUSED, RIGHT, WRONG, Outcome, unclear
from scripts.torture.running import run
from tests.mapper.cli.hostile import CASES, attempt, fault_of, prepare

SECONDS = 3.0  # of the processor for a refusal, 2 and half as much for noise
MEMORY = 150 << 20  # bytes above the start, 100 MiB and half as much for noise
GRAPHS = 3  # times as many damaged graphs as hostile files


class Hostile(Family):
    """The files of tests/mapper/cli/hostile.py, and models damaged by scripts/fuzz_damages.py."""

    name = "hostile files"
    share = 2.0

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._files: Path | None = None
        self._models: list[Base] = []

    def case(self, seed: int, random: Random) -> Outcome:
        return self._file(seed, random) if random.integers(GRAPHS + 1) == 0 else (
            self._graph(seed, random)
        )  # fmt: skip

    def _file(self, seed: int, random: Random) -> Outcome:
        whole = self.bench.base / "hostile"
        if self._files is None:
            whole.mkdir()
            prepare(whole)
            self._files = whole
        folder = self.bench.base / "files"
        shutil.copytree(whole, folder)
        case = one_of(random, CASES)
        command = one_of(random, case.commands)
        what = f"mapper {command}: {case.file}: {case.name}"
        home = Path.cwd()
        os.chdir(folder)
        try:
            case.make(folder / case.file)
            ended = attempt(folder, command)
        finally:
            os.chdir(home)
            shutil.rmtree(folder)
        fault, (_, _, seconds, grown) = fault_of(case, *ended), ended
        return Outcome(self.name, seed, WRONG if fault else REFUSED, what, fault, seconds, grown)

    def _graph(self, seed: int, random: Random) -> Outcome:
        work = self.bench.fresh()
        if not self._models:
            self._models = good_models(work)
            work = self.bench.fresh()
        base = one_of(random, self._models)
        home = Path.cwd()
        os.chdir(work)  # external data is written there
        try:
            data, damage = damage_model(base.model, random)
        finally:
            os.chdir(home)
        (work / "good.onnx").write_bytes(data)
        line = f"{COMPILE} -q -o new"
        if not base.real:
            line = line.replace(" --calibrate samples.npz", "")
        what = f"mapper {line}: {base.name}: {damage}"
        ran = run(line.split(), work)
        if fault := unclear(ran):
            return Outcome(self.name, seed, fault[0], what, fault[1])
        if (ran.code and ran.seconds > SECONDS) or ran.grown > MEMORY:
            said = f"{ran.seconds:.1f} s, {ran.grown >> 20} MiB: {ran.said}"
            return Outcome(self.name, seed, WRONG, what, said)
        if ran.code:
            return Outcome(self.name, seed, REFUSED, what, ran.said, ran.seconds, ran.grown)
        after = run(("verify", "new", "-q"), work)
        said = f"verify: {after.code}: {after.said}" if after.code else ""
        return Outcome(self.name, seed, WRONG if said else RIGHT, what, said, grown=ran.grown)
