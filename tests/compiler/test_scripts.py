"""The scripts of the compiler start: their imports match the code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def ran(*words: str) -> str:
    """Return the output of a script."""
    done = subprocess.run(
        [sys.executable, f"scripts/{words[0]}", *words[1:]],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bench_compile.py", "--list"), "mnist-8"),
        (("bench_npu.py", "--list"), "squeezenet"),
        (("fuzz_compile.py", "--help"), "--count"),
        (("bench_models.py", "--list"), "mobilenet_v2"),
    ],
)
def test_scripts_start(words: tuple[str, ...], says: str) -> None:
    assert says in ran(*words)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_models_of_the_onnx_package_are_compared(tmp_path: Path) -> None:
    """The smallest of them, with random weights and images of 32 x 32 pixels."""
    pytest.importorskip("onnxruntime", reason="the comparison needs onnxruntime")
    figures = tmp_path / "figures.json"
    words = ("--only", "squeezenet", "--size", "32", "--json", str(figures))
    found = ran("bench_models.py", str(tmp_path), *words).splitlines()
    assert found[-1].startswith("| squeezenet | 66 | 27 | 1 |")
    (one,) = json.loads(figures.read_text())["models"]
    assert one["layers"] > 27
    assert min(one["worst_layer"], one["signal"]) > 25
    assert not one["departs"]
