"""Inputs that fuzzing found: each reader returns, or raises one clear line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.fuzz_oracle import Fault, fingerprint, judge, measured
from scripts.fuzz_targets import READERS, Reader, corpus

ROOT = Path(__file__).resolve().parents[2]
FIRST = 300.0  # processor seconds of the first input, which compiles kernels
RESERVES = {
    "compiled", "compiled-report", "compiled-sealed", "model", "onnx", "portfolio", "program",
    "program-sealed", "ranges", "records", "samples-images", "spiking", "spiking-report",
    "spiking-sealed",
}  # fmt: skip
"""Readers with `read_input`, which reserves address space for the largest file: not measured."""


def judged(reader: Reader, data: bytes, folder: Path) -> tuple[Fault | None, object]:
    folder.mkdir()
    path = reader.put(data, folder)
    if path is None:
        return None, None
    if reader.name in RESERVES:
        return judge(reader.read, path, reader.expected)
    return measured(reader.read, path, reader.expected)


@pytest.mark.heavy
@pytest.mark.jit
@pytest.mark.parametrize("name", READERS)
def test_corpus(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = READERS[name]
    inputs, known = corpus(reader), set()
    first = next(iter(sorted(inputs, key=lambda one: not one.startswith("good"))))
    (tmp_path / "first").mkdir()
    path = reader.put(inputs[first], tmp_path / "first")
    assert path is not None
    judge(reader.read, path, reader.expected, FIRST)
    for one in sorted(inputs, key=lambda one: not one.startswith("good")):
        fault, value = judged(reader, inputs[one], tmp_path / f"of-{one}")
        if fault is not None and fault.what == "slow":  # it may have compiled kernels
            fault, value = judged(reader, inputs[one], tmp_path / f"again-{one}")
        assert fault is None, f"{one}: {fault}\n{fault.details}"
        if one.startswith("good"):
            assert value is not None, f"{one}: refused; run scripts/fuzz_seeds.py"
            known.add(fingerprint(value))
        elif reader.sealed and value is not None:
            assert fingerprint(value) in known, f"{one}: other values without an error"


@pytest.mark.heavy
@pytest.mark.jit
@pytest.mark.parametrize("more", [(), ("--random",)])
def test_script_runs(more: tuple[str, ...], tmp_path: Path) -> None:
    words = ["qaplib", "--minutes", "0.03", "--keep", str(tmp_path / "faults"), *more]
    done = subprocess.run(
        [sys.executable, "scripts/fuzz_readers.py", *words],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    name, count = done.stdout.splitlines()[-1].split("|")[1:3]
    assert name.strip() == "qaplib"
    assert int(count.replace(",", "")) > 0
