"""The scripts beside the compiler start: their imports are those of the code as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bench_compile.py", "--list"), "mnist-8"),
        (("bench_npu.py", "--list"), "squeezenet"),
        (("fuzz_compile.py", "--help"), "--count"),
    ],
)
def test_scripts_start(words: tuple[str, ...], says: str) -> None:
    done = subprocess.run(
        [sys.executable, f"scripts/{words[0]}", *words[1:]],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
