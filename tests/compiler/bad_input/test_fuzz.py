"""Models, samples and compiled folders with random damage: each gives a one-line error.

`python scripts/fuzz_compile.py` runs more cases.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COUNT = 30  # cases per seed


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize(
    ("seed", "more"),
    [*((seed, ()) for seed in range(7, 12)), *((seed, ("--only", "graphs")) for seed in range(3))],
)
def test_damage_gives_one_line(seed: int, more: tuple[str, ...], tmp_path: Path) -> None:
    words = ["--count", str(COUNT), "--seed", str(seed), *more]
    done = subprocess.run(
        [sys.executable, "scripts/fuzz_compile.py", *words],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"{COUNT} cases, 0 wrong" in done.stdout
    assert list(tmp_path.iterdir()) == []
