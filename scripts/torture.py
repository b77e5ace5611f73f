"""Inject faults into all commands: nothing may be lost, wrong, or end with a traceback.

    python scripts/torture.py [--minutes 1.5] [--seed 0] [--only FAMILY] [--case SEED] [--count N]
                              [--keep FOLDER]

The families are faults at system calls (killed, torn, short, failing, lost and reordered calls, and
power cuts), kill -9, commands at once on one output, damaged bytes in files of every kind, damaged
scratch, cache and catalogue, processes that fill the catalogue, hostile files, servers that
misbehave, and limits of the system. After each fault the command has failed with one clear line and
a documented exit code, or was killed, or its results are right; then a repeat, or --resume,
completes it with the same bytes as without the fault.

Cases are numbered from --seed on; a number gives the same case again: --only FAMILY --case SEED.
The script prints the cases that fail, keeps their folders, and ends with a table, also after
Ctrl-C; the exit code is 1 if any case fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from scripts.torture import shim  # noqa: E402

SHIM = "TORTURE_SHIM"
"""Variable of the process that has loaded the shim; empty without a compiler."""

MEMORY, SPACE = "/dev/shm", 1 << 30
"""Folder of files in memory, and the bytes that it must have free."""


def load_shim() -> bool:
    """Start this script again with the shim; return whether it is loaded."""
    if SHIM not in os.environ:
        path = shim.build(Path(tempfile.mkdtemp(prefix="torture-shim-")))
        more = {"LD_PRELOAD": str(path)} if path else {}
        environment = {**os.environ, **more, SHIM: str(path or ""), "NO_COLOR": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    os.environ.pop("LD_PRELOAD", None)  # processes that commands start have no faults
    loaded = os.environ[SHIM]
    if loaded:
        shutil.rmtree(Path(loaded).parent, ignore_errors=True)
    return bool(loaded)


def fast_folder() -> str | None:
    """Return a folder in memory, where syncs take no time; None for the default folder."""
    with contextlib.suppress(OSError):
        if "TMPDIR" not in os.environ and shutil.disk_usage(MEMORY).free >= SPACE:
            return MEMORY if os.access(MEMORY, os.W_OK) else None
    return None


def main() -> int:
    words = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(description=words[0])
    parser.add_argument("--minutes", type=float, default=1.5, help="time of all cases")
    parser.add_argument("--count", type=int, help="cases of each family, instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", metavar="FAMILY")
    parser.add_argument("--case", type=int, metavar="SEED", help="run one case of a family")
    parser.add_argument("--keep", type=Path, default=Path("torture-failed"), metavar="FOLDER")
    options = parser.parse_args()
    shimmed = load_shim()
    from scripts.torture.bench import Bench
    from scripts.torture.families import FAMILIES
    from scripts.torture.table import Table

    names = [family.name for family in FAMILIES]
    if options.only is not None and options.only not in names:
        parser.error(f"--only: no family {options.only!r}; there are {', '.join(names)}")
    if options.case is not None and options.only is None:
        parser.error("--case: give its family with --only")
    table = Table(options.keep.resolve())
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-", dir=fast_folder()) as name:
        bench = Bench(Path(name).resolve(), shimmed)
        found = [one(bench) for one in FAMILIES if options.only in (None, one.name)]
        for family in found:
            if reason := family.skipped():
                print(f"{family.name}: skipped: {reason}")
        found = [family for family in found if not family.skipped()]
        prepared = time.monotonic() - began
        spent = dict.fromkeys(found, 0.0)
        seeds = {family: count(options.seed) for family in found}
        left = dict.fromkeys(found, 1 if options.case is not None else options.count)
        with contextlib.suppress(KeyboardInterrupt):  # the table of the cases so far
            while found:
                family = min(found, key=lambda one: spent[one] / one.share)
                begun = time.monotonic()
                size = min(family.batch, left[family] or family.batch)
                some = [next(seeds[family]) for _ in range(size)]
                if options.case is not None:
                    some = [options.case]
                for outcome in family.cases(some):
                    table.add(outcome, bench.work)
                spent[family] += time.monotonic() - begun
                if left[family] is not None:
                    left[family] -= size
                    found = [one for one in found if left[one]]
                elif time.monotonic() - began > options.minutes * 60:
                    break
    print("\n".join(table.lines()))
    seconds = time.monotonic() - began
    print(f"seed {options.seed}, {seconds:.0f} s, of which {prepared:.0f} s to prepare")
    if table.failed:
        print(f"{table.failed} cases failed; their folders are in {options.keep}")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
