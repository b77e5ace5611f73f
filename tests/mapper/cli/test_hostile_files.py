"""Malicious files: every command refuses them quickly with one error line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from tests.mapper.cli.hostile import CASES

ROOT = Path(__file__).resolve().parents[3]
LONGEST = 900  # seconds for all files, which take about a minute


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_files_are_refused_at_once(tmp_path: Path) -> None:
    """2 processor seconds and 100 MiB, times 1.5 for noise; see `hostile`."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        pytest.skip("compiled code is measured")
    if sys.platform != "linux":
        pytest.skip("memory is measured with Linux interfaces")
    for package in ("h5py", "onnx", "pyarrow"):
        pytest.importorskip(package, reason=f"some files need {package}")
    command = [sys.executable, "-m", "tests.mapper.cli.hostile", str(tmp_path / "work")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=LONGEST,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    assert not done.stdout
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_table_has_every_kind_of_attack() -> None:
    names = {case.name for case in CASES}
    assert len(CASES) > 100
    assert {"a bomb", "a device without end", "links in a circle", "depth"} <= names
