"""Compiled kernels are kept, and forgotten when they may be stale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
from pathlib import Path
import numpy as np
from mapper.kernels import forget_kernels
from storage.packed import pack
cache = Path(os.environ["NUMBA_CACHE_DIR"])
pack(np.arange(300, dtype=np.int32))
print(len(list(cache.rglob("packed.*.nb?"))))
(cache / "other").mkdir()
(cache / "other" / "packed.mine.nbi").touch()
forget_kernels()
print(*(path.name for path in cache.rglob("*.nb?")))
"""


@pytest.mark.jit
def test_forgetting_kernels(tmp_path: Path) -> None:
    """All compiled kernels of these packages go, and nothing else."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    count, left = done.stdout.splitlines()
    assert int(count) > 0
    assert left == "packed.mine.nbi"


MARKED = """
import io, sys
from pathlib import Path
from rich.console import Console
from mapper import kernels
forgotten = []
kernels.forget_kernels = lambda: forgotten.append(1)
if sys.argv[1] == "trusting":
    kernels.trust_kernels()
def compile_them(work):
    if sys.argv[1] == "killed":
        raise KeyboardInterrupt
kernels._work_on_tiny_networks = compile_them
said = io.StringIO()
try:
    kernels.compile_once(Console(file=said), sys.argv[3])
except KeyboardInterrupt:
    pass
markers = sorted(path.name for path in Path(sys.argv[2]).rglob("compiled-*"))
print(len(forgotten), "done" in said.getvalue(), *markers)
"""


def first_uses(folder: Path, *ways: str) -> list[list[str]]:
    """What each of some processes, one after the other, prints of `MARKED`."""
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    environment.pop("NUMBA_CACHE_DIR", None)
    said = []
    for how in ways:
        done = subprocess.run(
            [sys.executable, "-c", MARKED, how, str(folder), "place groups"],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout.split())
    return said


@pytest.mark.jit
def test_kernels_are_forgotten_once(tmp_path: Path) -> None:
    """A first use that is killed has not worked in vain: the next one goes on."""
    said = first_uses(tmp_path, "killed", "killed", "well", "well")
    assert [words[:2] for words in said] == [
        ["1", "False"],
        ["0", "False"],
        ["0", "True"],
        ["0", "False"],
    ]
    begun = said[0][2:]
    assert len(begun) == 1
    assert begun[0].endswith("-begun")
    done_too = begun[0].replace("-begun", "-place-groups")
    assert said[1][2:] == begun
    assert said[2][2:] == said[3][2:] == sorted([*begun, done_too])


@pytest.mark.jit
def test_trusted_kernels_are_not_forgotten(tmp_path: Path) -> None:
    """But what a command needs is compiled before it is timed, as ever."""
    ((forgotten, done, *markers),) = first_uses(tmp_path, "trusting")
    assert (forgotten, done) == ("0", "True")
    assert [name.partition("-")[2].partition("-")[2].partition("-")[2] for name in markers] == [
        "begun",
        "place-groups",
    ]
