"""`simulate --cycles` of a compiled model: R11.3, as far as one core goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compiler.bad_input.good import QUICK, good
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit
UNITS = ["LOAD", "GEMM", "ALU", "STORE"]


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    good().save(folder)
    found = run("compile", "good.onnx", *QUICK, "--chip", "2x2", "--calibrate", "samples.npz")
    assert found.code == 0, found.err
    return folder / "out"


def test_times_alone(out: Path, run: Run) -> None:
    found = run("simulate", "out", "--cycles", "--json").json()["cycle_run"]
    report = json.loads((out / "report.json").read_text())
    assert found["cycles"] == report["cycles"]
    assert found["bytes_compared"] == 0
    (core,) = found["cores"]
    assert list(core["busy"]) == UNITS
    for unit in UNITS:
        assert core["busy"][unit] == round(report["busy"][unit] * report["cycles"])
        assert core["busy"][unit] + sum(core["waits"][unit].values()) == found["cycles"]
    assert report["simulation"]["cycle_run"] == found


def test_bytes_beside_the_functional_run(out: Path, run: Run) -> None:
    found = run("simulate", "out", "--input", "samples.npz", "--cycles", "--json").json()
    assert found["frames"] == 6
    assert found["cycle_run"]["bytes_compared"] == 8192 * 16
    text = run("simulate", "out", "--input", "samples.npz", "--cycles", "--check").out
    for piece in (
        "cycles per frame",
        "units of core (0, 0)",
        "waits: token of GEMM",
        "differences",
    ):
        assert piece in text


def test_a_core_with_external_memory(folder: Path, run: Run) -> None:
    """Its loads and stores share a way; the times are those that the compiler gives."""
    good().save(folder)
    options = ("--chip", "2x2", "--npu", "ref32", "--calibrate", "samples.npz")
    assert run("compile", "good.onnx", *QUICK, *options).code == 0
    found = run("simulate", "out", "--input", "samples.npz", "--cycles", "--json").json()
    assert found["cycle_run"]["cycles"] == json.loads(Path("out/report.json").read_text())["cycles"]
    assert found["cycle_run"]["bytes_compared"] > 0
    (core,) = found["cycle_run"]["cores"]
    for unit in UNITS:
        assert (
            core["busy"][unit] + sum(core["waits"][unit].values()) == found["cycle_run"]["cycles"]
        )
