"""Fuzz the readers of files: each returns, or raises one clear line; nothing else may happen.

    python scripts/fuzz_readers.py [READER ...] [--minutes 2] [--seed 0] [--keep FOLDER]

The inputs of tests/corpus are mutated, by structure where checksums or compression would hide the
parser (`fuzz_structure`), and judged (`fuzz_oracle`). With atheris installed, coverage guides the
mutations; otherwise they are random. Kernels run as Python code, so that coverage reaches them and
an index out of bounds is an error. Each distinct fault is printed once, and its smallest input is
kept in FOLDER/READER. --distil adds inputs to tests/corpus that run lines which its inputs do not.

The table at the end has the executions, the covered edges (atheris), and the faults of each reader.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.fuzz_oracle import (  # noqa: E402
    LONGEST,
    Fault,
    fingerprint,
    judge,
    limit_memory,
)
from scripts.fuzz_structure import Change, scribble  # noqa: E402
from scripts.fuzz_targets import CORPUS, READERS, Reader, corpus  # noqa: E402

PACKAGES = ("storage", "chipsim", "mapper", "hw")
LONGEST_INPUT = 1 << 16  # bytes
FIRST = 120.0  # processor seconds of the first input, which imports modules
HANGS = 30  # seconds after which libFuzzer ends the process
MOST_RESTARTS = 5
MOST_CORPUS = 16 << 10  # bytes of a reader's corpus that --distil leaves
SHRINKS = 300  # attempts to make a failing input smaller
FAST = Path("/dev/shm")
STATE = re.compile(rb"#(\d+)\s+\w+\s+cov: (\d+)")


class Run:
    """The inputs of one reader: judged, counted, and kept if they fail."""

    def __init__(self, reader: Reader, keep: Path) -> None:
        self.reader, self.keep = reader, keep
        self.executions = 0
        self.faults: dict[str, Fault] = {}
        self._values: set[int] = set()
        place = FAST if FAST.is_dir() else None
        self._folder = tempfile.TemporaryDirectory(prefix="mapper-fuzz-", dir=place)
        self._inside = Path(self._folder.name)
        os.chdir(self._inside)

    def judged(self, data: bytes, seconds: float = LONGEST) -> tuple[Fault | None, object]:
        """Judge one input in an empty folder."""
        for one in self._inside.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        path = self.reader.put(data, self._inside)
        if path is None:
            return None, None
        return judge(self.reader.read, path, self.reader.expected, seconds)

    def learn(self, seeds: Iterable[bytes]) -> None:
        """Record the values of valid inputs, for readers whose values checksums cover."""
        for data in seeds:
            fault, value = self.judged(data, FIRST)
            self.note(data, fault)
            if fault is None and value is not None:
                self._values.add(fingerprint(value))

    def check(self, data: bytes) -> None:
        self.executions += 1
        fault, value = self.judged(data)
        if fault is None and self.reader.sealed and not self._known(value):
            fault = Fault("different values without an error", f"{self.reader.name}::0", "")
        self.note(data, fault)

    def _known(self, value: object) -> bool:
        return value is None or fingerprint(value) in self._values

    def note(self, data: bytes, fault: Fault | None) -> None:
        if fault is None or fault.key in self.faults:
            return
        self.faults[fault.key] = fault
        self.keep.mkdir(parents=True, exist_ok=True)
        name = f"{zlib.crc32(fault.key.encode()):08x}"
        (self.keep / name).write_bytes(self._smaller(data, fault))
        (self.keep / f"{name}.txt").write_text(f"{fault}\n{fault.details}")
        print(f"{self.reader.name}: {fault} ({name})", flush=True)

    def _smaller(self, data: bytes, fault: Fault) -> bytes:
        """Drop parts of an input as long as the same fault remains."""
        size, left = max(1, len(data) // 2), SHRINKS
        while size and left:
            at = 0
            while at < len(data) and left:
                left -= 1
                shorter = data[:at] + data[at + size :]
                found = self.judged(shorter)[0]
                if found is not None and found.key == fault.key:
                    data = shorter
                else:
                    at += size
            size //= 2
        return data

    def close(self) -> None:
        os.chdir(ROOT)
        self._folder.cleanup()


def mutated(reader: Reader, data: bytes, number: int, change: Change) -> bytes:
    """Return a mutated input; number : of the random choices."""
    try:
        return reader.mutate(data, Random(number), change)
    except Exception:  # a structure that the mutator cannot repair after earlier changes
        return change(data)


def guided(run: Run, folder: Path, seconds: int, seed: int) -> None:
    """Fuzz with atheris until the time is up; ends the process."""
    import atheris

    reader, seeds = run.reader, list(corpus(run.reader).values())
    with atheris.instrument_imports(include=list(PACKAGES)):
        run.learn(seeds)
    limit_memory()
    (folder / "new").mkdir()

    def mutate(data: bytes, most: int, number: int) -> bytes:
        made = mutated(reader, data, number, lambda part: atheris.Mutate(part, len(part) + 64))
        return made if len(made) <= most else atheris.Mutate(data, most)

    def one(data: bytes) -> None:
        run.check(data)
        if run.executions % 64 == 0:
            (folder / "count").write_text(str(run.executions))

    words = [
        "fuzz", f"-max_total_time={seconds}", f"-timeout={HANGS}", f"-max_len={LONGEST_INPUT}",
        f"-seed={seed + 1}", "-rss_limit_mb=0", "-len_control=0", "-print_final_stats=1",
        f"-artifact_prefix={folder}/", str(folder / "new"), str(CORPUS / reader.name),
    ]  # fmt: skip
    atheris.Setup(words, one, custom_mutator=mutate, internal_libfuzzer=True)
    atheris.Fuzz()


def unguided(run: Run, folder: Path, seconds: int, seed: int) -> None:
    """Fuzz with random mutations of the corpus."""
    random, seeds = Random(seed), list(corpus(run.reader).values()) or [b""]
    run.learn(seeds)
    limit_memory()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = random.choice(seeds)
        for _ in range(random.choice((1, 1, 2, 3))):
            data = mutated(run.reader, data, random.getrandbits(64), scribble(random))
        run.check(data[:LONGEST_INPUT])
    (folder / "count").write_text(str(run.executions))


def child(options: argparse.Namespace) -> None:
    """Fuzz one reader in this process."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    reader, folder = READERS[options.readers[0]], Path(options.child)
    run = Run(reader, Path(options.keep) / reader.name)
    has_atheris = importlib.util.find_spec("atheris") is not None
    fuzz = guided if has_atheris and not options.random else unguided
    try:
        fuzz(run, folder, max(1, int(options.minutes * 60)), options.seed)
    finally:
        run.close()


class Tally:
    """Executions, covered edges and faults of a reader."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.executions = self.edges = 0
        self.faults: list[str] = []

    def add(self, done: subprocess.CompletedProcess[bytes], place: Path) -> None:
        """Count a process of the reader; place : its folder."""
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        self.faults += [one for one in lines if one.startswith(f"{self.name}: ")]
        states = STATE.findall(done.stderr)
        count, edges = (int(one) for one in (states[-1] if states else (b"0", b"0")))
        with contextlib.suppress(OSError, ValueError):
            count = max(count, int((place / "count").read_text()))
        self.executions += count
        self.edges = max(self.edges, edges)
        if done.returncode:
            tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-12:]
            text = "\n    ".join(tail)
            self.faults.append(f"{self.name}: the process ended with {done.returncode}: {text}")


def fuzzed(name: str, options: argparse.Namespace) -> Tally:
    """Fuzz a reader in a process, again if it dies, until the time is up."""
    tally, until, seed = Tally(name), time.monotonic() + options.minutes * 60, options.seed
    while (left := until - time.monotonic()) > 0 and seed < options.seed + MOST_RESTARTS:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            tally.add(_child(name, place, left / 60, seed, options), place)
            for one in place.glob("*-*"):  # inputs at which libFuzzer ended the process
                shutil.copy(one, Path(options.keep) / f"{name}-{one.name[:20]}")
            if options.distil and (place / "new").is_dir():
                distil(name, place / "new")
        seed += 1
    return tally


def _child(
    name: str, place: Path, minutes: float, seed: int, options: argparse.Namespace
) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, __file__, name, "--child", str(place), "--keep", options.keep,
             "--minutes", str(minutes), "--seed", str(seed)]  # fmt: skip
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "MALLOC_ARENA_MAX": "1",
                   "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # fmt: skip
    words += ["--random"] if options.random else []
    return subprocess.run(words, env=environment, capture_output=True, check=False)


def lines_of(reader: Reader, files: list[Path]) -> dict[Path, set[tuple[str, int]]]:
    """Return the lines of the project that each input runs, in a process with kernels in Python."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from scripts.fuzz_readers import print_lines;"
        "print_lines(sys.argv[2], sys.argv[3:])"
    )
    words = [sys.executable, "-c", code, str(ROOT), reader.name, *map(str, files)]
    done = subprocess.run(
        words, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, check=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {Path(name): {(file, line) for file, line in lines} for name, lines in rows}


def print_lines(name: str, files: list[str]) -> None:
    """Print the lines that each file runs, as JSON."""
    run = Run(READERS[name], Path(tempfile.gettempdir()))
    own = tuple(f"{ROOT}/{package}/" for package in PACKAGES)
    found: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _value: object) -> Callable[..., Any] | None:
        file = frame.f_code.co_filename
        if not file.startswith(own):
            return None
        if event == "line":
            found.add((file, frame.f_lineno))
        return trace

    run.judged(Path(files[0]).read_bytes(), FIRST)
    for one in files:
        found.clear()
        sys.settrace(trace)
        try:
            run.judged(Path(one).read_bytes())
        finally:
            sys.settrace(None)
        print(json.dumps([one, sorted(found)]))
    run.close()


def distil(name: str, new: Path) -> None:
    """Copy the smallest inputs with lines that the corpus does not run into the corpus."""
    reader, place = READERS[name], CORPUS / name
    old = sorted(place.glob("*"))
    made = sorted(new.iterdir(), key=lambda one: (one.stat().st_size, one.name))[:600]
    if not made or not old:
        return
    lines = lines_of(reader, [*old, *made])
    seen: set[tuple[str, int]] = set().union(*(lines.get(one, set()) for one in old))
    room = MOST_CORPUS - sum(one.stat().st_size for one in old)
    for one in made:
        fresh, size = lines.get(one, set()) - seen, one.stat().st_size
        if len(fresh) >= 2 and size <= room and size <= MOST_CORPUS // 4:
            shutil.copy(one, place / one.name[:8])
            seen |= fresh
            room -= size


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("readers", nargs="*", metavar="READER", help="default: all")
    parser.add_argument("--minutes", type=float, default=2.0, help="per reader (default: 2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", default="fuzz-faults", help="folder of failing inputs")
    parser.add_argument("--random", action="store_true", help="without atheris")
    parser.add_argument("--distil", action="store_true", help="add inputs to tests/corpus")
    parser.add_argument("--list", action="store_true", help="list the readers")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = sorted({*options.readers} - {*READERS})
    if unknown:
        parser.error(f"unknown reader {unknown[0]}; choose from {', '.join(READERS)}")
    options.keep = str(Path(options.keep).resolve())
    if options.child:
        child(options)
        return 0
    if options.list:
        print("\n".join(READERS))
        return 0
    total = 0
    print("| reader | executions | edges | faults |\n|---|---:|---:|---:|", flush=True)
    for name in options.readers or READERS:
        tally = fuzzed(name, options)
        faults = sorted({*tally.faults})
        print(f"| {name} | {tally.executions:,} | {tally.edges:,} | {len(faults)} |", flush=True)
        for fault in faults:
            print(f"  {fault}", flush=True)
        total += len(faults)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
