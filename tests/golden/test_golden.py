"""A sample of the golden manifest: the commands' outputs are unchanged, byte by byte."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.heavy
@pytest.mark.jit
def test_sample_of_the_manifest(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/golden.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = re.search(r"(\d+) of (\d+) cases as recorded", done.stdout)
    assert cases is not None
    assert cases[1] == cases[2]
    assert int(cases[1]) >= 19
