"""Damage models and compiled folders at random: every command must end with one clear line.

    python scripts/fuzz_compile.py [--count 2000] [--seed 0] [--only graphs] [--keep FOLDER]

Either the graph of one of several models is damaged: nodes, names, attributes, types, shapes,
constants (`fuzz_damages`). Or bytes of a valid model, its samples, or a file of its compiled folder
are changed, deleted or inserted; for half of the programs, checksums and hashes are recomputed, so
that the damage reaches the code after these checks. Then the commands run. The script prints every
case that ends with a traceback, an unknown exit code, more than one line, messages of libraries or
leftover files, or that needs too much time or memory; --keep saves these cases.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import mapper.cli.compiling  # noqa: E402
from mapper.cli.main import main as mapper_main  # noqa: E402
from mapper.kernels.warmup import Compiled  # noqa: E402
from scripts.fuzz_damages import damage_model  # noqa: E402
from scripts.fuzz_graphs import Base, good_models  # noqa: E402
from tests.compiler.bad_input.good import QUICK, good  # noqa: E402

LONGEST = 20  # processor seconds per command
FIRST = 300  # processor seconds of the first command, which may compile kernels
WAITS = 5  # times as long in wall time, on a busy machine
MEMORY = 6 << 30  # bytes
COMPILE = ("compile", "good.onnx", *QUICK, "--chip", "2x2", "--calibrate", "samples.npz",
           "--no-cache", "-o", "again")  # fmt: skip
UNCALIBRATED = tuple(word for word in COMPILE if word not in ("--calibrate", "samples.npz"))
SIMULATE = ("simulate", "out", "--input", "samples.npz", "--limit", "1")
FOLDER = (("verify", "out"), SIMULATE, ("info", "out"), ("report", "out"))
CODES = (0, 1, 2, 3)
INTERNAL = re.compile(
    r"ONNXRuntimeError|[Pp]rotobuf|NoneType|\w+Error:|bad_alloc|out of memory|fault of mapper|"
    r"are inconsistent; check|invalid model|ndarray|numpy|unpack|not subscriptable|0x[0-9a-f]{6}"
)
"""Words that users cannot understand, or that show an unforeseen fault."""
Commands = tuple[tuple[str, ...], ...]


class Wrong(NamedTuple):
    """A case that did not end as it must."""

    number: int
    what: str
    command: str
    said: str


def damaged(data: bytes, random: np.random.Generator) -> bytes:
    """Return the data with some bytes changed, deleted or inserted, or truncated."""
    found = bytearray(data)
    for _ in range(int(random.integers(1, 5))):
        if not found:
            break
        at, way = int(random.integers(len(found))), int(random.integers(10))
        if way < 6:
            found[at] ^= 1 << int(random.integers(8))
        elif way < 8:
            found[at] = int(random.integers(256))
        elif way == 8:
            del found[at : at + int(random.integers(1, 20))]
        else:
            found[at:at] = random.bytes(int(random.integers(1, 20)))
    if random.integers(12) == 0:
        del found[int(random.integers(len(found) + 1)) :]
    return bytes(found)


def sealed(folder: Path) -> None:
    """Recompute the hashes of the manifest from the files."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in manifest["files"]:
        manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    manifest.pop("sha256")
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def with_checksums(data: bytes) -> bytes:
    """Return the program of a core with recomputed CRCs, as far as its sections are
    recognisable.
    """
    found, at = bytearray(data), 12
    while at + 12 <= len(found):
        length = int.from_bytes(found[at + 4 : at + 8], "little")
        body = bytes(found[at + 12 : at + 12 + length])
        found[at + 8 : at + 12] = zlib.crc32(body).to_bytes(4, "little")
        at += 12 + length
    return bytes(found)


SECTIONED = {"macros.bin": b"REC "}
"""Files with sections that are not programs, and their first section to damage."""


def spoil_graph(
    folder: Path, bases: list[Base], random: np.random.Generator
) -> tuple[str, Commands]:
    """Damage the graph of a model; return a description, and the commands to run."""
    base = bases[int(random.integers(len(bases)))]
    data, done = damage_model(base.model, random)
    (folder / "good.onnx").write_bytes(data)
    return f"{base.name}: {done}", (UNCALIBRATED, COMPILE) if base.real else (UNCALIBRATED,)


def spoil(folder: Path, random: np.random.Generator) -> tuple[str, Commands]:
    """Damage one file; return a description, and the commands to run."""
    way = int(random.integers(10))
    if way < 4:
        name = "good.onnx" if way < 3 else "samples.npz"
        path = folder / name
        path.write_bytes(damaged(path.read_bytes(), random))
        return name, (COMPILE,) if way < 3 else (COMPILE, SIMULATE)
    files = sorted(path for path in (folder / "out").iterdir() if path.is_file())
    path = files[int(random.integers(len(files)))]
    whole, seal = path.read_bytes(), bool(random.integers(2))
    programs = path.name in SECTIONED or path.suffix == ".npc"
    if seal and programs:
        inside = bytearray(whole)
        head = whole.index(SECTIONED.get(path.name, b"IM  ")) + 12
        at = head + int(random.integers(len(whole) - head))
        inside[at] ^= 1 << int(random.integers(8))
        path.write_bytes(with_checksums(bytes(inside)))
    else:
        path.write_bytes(damaged(whole, random))
    if seal and path.name != "manifest.json":
        sealed(folder / "out")
    more = (("disassemble", f"out/{path.name}"), ("info", f"out/{path.name}"))
    return f"{path.name}{', sealed' * seal}", (*FOLDER, *(more if programs else ()))


class TooLongError(BaseException):
    """Time limit; derived from BaseException so that commands do not handle it."""


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def too_long(number: int, frame: FrameType | None) -> None:
    raise TooLongError(f"takes longer than {LONGEST} s")


def ended(command: tuple[str, ...], longest: int = LONGEST) -> tuple[int | None, str]:
    """Run a command; return its exit code (None for a traceback) and stderr. longest : seconds"""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        signal.setitimer(signal.ITIMER_PROF, longest)
        signal.alarm(WAITS * longest)
        try:
            code: int | None = mapper_main(list(command))
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            if isinstance(sys.exception(), KeyboardInterrupt):
                raise
            return None, traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
    return code, err.getvalue()


def fuzz(count: int, seed: int, graphs: bool = False) -> Iterator[Wrong]:
    """Yield the cases that do not end as they must; works in the current folder.

    graphs : damage only graphs
    """
    home = Path.cwd()
    bases = good_models(home)
    good().save(home)
    code, said = ended(("compile", *COMPILE[1:-1], "out"), FIRST)
    if code != 0:
        raise RuntimeError(said)
    whole = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    for number in range(count):
        random = np.random.default_rng([seed, number])
        of_graph = graphs or random.integers(3) == 0
        what, commands = spoil_graph(home, bases, random) if of_graph else spoil(home, random)
        before = names(home)
        for command in commands:
            began = time.process_time()
            code, said = ended(command)
            line = said.strip()
            notes = [one for one in line.split("\n") if one and not one.startswith("note: ")]
            fine = code in CODES and len(notes) == (code != 0) and not INTERNAL.search(line)
            fine &= (
                time.process_time() - began < LONGEST
            )  # the alarm does not interrupt native code
            left = names(home) - before
            if code == 0 and command[0] == "compile":
                shutil.rmtree(home / "again")
                left = names(home) - before
            if not fine or left:
                yield Wrong(number, what, " ".join(command), f"{code}: {line} {sorted(left)[:4]}")
            if left:
                for one in sorted(left, reverse=True):
                    path = home / one
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path, data in whole.items():
            path.write_bytes(data)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("graphs",), help="damage only graphs of models")
    parser.add_argument("--keep", type=Path, help="folder for failed cases")
    options = parser.parse_args()
    keep = options.keep and options.keep.resolve()
    quiet: Any = lambda *arguments, **named: Compiled(0, [], 0, 0.0)  # noqa: E731
    mapper.cli.compiling.compile_once = quiet
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, too_long)
    signal.signal(signal.SIGPROF, too_long)
    wrong, started = 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for found in fuzz(options.count, options.seed, options.only is not None):
            wrong += 1
            print(f"case {found.number}, {found.what}: mapper {found.command}\n{found.said}\n")
            if keep:
                shutil.copytree(".", keep / str(found.number), dirs_exist_ok=True)
        spent = time.perf_counter() - started
    print(f"{options.count} cases, {wrong} wrong, {spent:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    sys.exit(main())
