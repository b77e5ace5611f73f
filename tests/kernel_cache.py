"""Compile the kernels of the tests before the tests run, in parallel and each kernel once.

    python -m tests.kernel_cache

`kernels.json` lists them; `python scripts/kernels.py --tests` records it. The first test that calls
a kernel compiles it if the list lacks it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from pathlib import Path

from mapper.kernels.parallel_compilation import KernelTeam, read_table
from mapper.kernels.warmup import compile_kernels, forget_kernels, numba_lock, trust_kernels
from mapper.kernels.warmup import read_table as read_product_table

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("kernels.json")
STAMP = ROOT / ".pytest_cache" / "kernels"  # hash of the sources of the cached kernels
READY = STAMP.with_name("kernels-ready")  # hash of all inputs of the kernels in the table
PROCESSES = os.cpu_count() or 1


def refresh() -> None:
    """Empty numba's cache if a file has changed whose kernels other files import.

    See `forget_kernels`. numba handles other changes itself.
    """
    digest = _shared_sources()
    if not STAMP.exists() or STAMP.read_text() != digest:
        forget_kernels()
        STAMP.parent.mkdir(exist_ok=True)
        STAMP.write_text(digest)
    trust_kernels()  # otherwise commands started by tests would empty the cache again


def _shared_sources() -> str:
    """Return a hash of the sources whose kernels other modules call."""
    sources = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text()
        for package in ("mapper", "storage", "chipsim")
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    kernels = {
        name: set(re.findall(r"^@njit.*\ndef (\w+)", text, re.MULTILINE))
        for name, text in sources.items()
    }
    statement = re.compile(r"^from ([\w.]+) import (\([^)]*\)|.*)$", re.MULTILINE)
    shared = {
        module
        for text in sources.values()
        for module, names in statement.findall(text)
        if kernels.get(module, set()) & set(re.findall(r"\w+", names))
    }
    text = "".join(sources[name] for name in sorted(shared))
    return hashlib.sha256(text.encode()).hexdigest()


def _all_sources() -> str:
    """Return a hash of everything that compiled kernels depend on."""
    import llvmlite
    import numba
    from llvmlite import binding

    processor = numba.config.CPU_NAME or binding.get_host_cpu_name()  # type: ignore[attr-defined]
    versions = (sys.version, numba.__version__, llvmlite.__version__)
    digest = hashlib.sha256(repr((processor, versions)).encode() + TABLE.read_bytes())
    for package in ("mapper", "storage", "chipsim"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if b"njit" in (source := path.read_bytes()):
                digest.update(f"{path} {path.stat().st_mtime_ns}".encode() + source)
    return digest.hexdigest()


def main() -> int:
    started = time.monotonic()
    refresh()
    digest = _all_sources()
    if READY.exists() and READY.read_text() == digest:
        return 0
    commands = compile_kernels(read_product_table().works, PROCESSES)
    team = KernelTeam(TABLE, read_table(TABLE).kernels, numba_lock())
    team.run(PROCESSES)
    if failed := sorted({*commands.failed, *team.failed}):
        print(f"compiled when called: {', '.join(failed)}", file=sys.stderr)
    else:
        READY.write_text(digest)
    kernels, seconds = commands.kernels + team.done, time.monotonic() - started
    print(f"{kernels} kernels ready in {seconds:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
