"""Runs that are killed or interrupted, and go on with --resume to the same result."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper import cli
from mapper.checkpoint import Arrays, Steps
from tests.mapper.helpers import PROGRAM, random_network

pytestmark = pytest.mark.jit  # dozens of whole runs; test_checkpoint has the steps without it

ARGUMENTS = (
    "--chip", "8x8", "--neurons-per-core", "20", "--block-vertices", "256", "--memory", "256MiB",
    "--coarse-degree", "20", "--force-iterations", "20",
)  # fmt: skip


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 1200, 9000)


def run(network: Path, output: Path, *more: str) -> int:
    return cli.main(["run", str(network), *ARGUMENTS, "-o", str(output), "-q", "--json", *more])


def result(output: Path) -> tuple[bytes, Any, Any]:
    report = json.loads((output / "report.json").read_bytes())
    return (output / "mapping.npz").read_bytes(), report["metrics"], report["levels"]


@pytest.mark.usefixtures("light_placement")  # it is a step like the others, as it lasts
@pytest.mark.parametrize(
    ("method", "least"),
    [("default", 4), ("default --level-budget 0", 9), ("fast --level-budget 0", 7), ("classic", 2)],
)
def test_ending_behind_every_step(
    network: Path, folder: Path, method: str, least: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert run(network, folder / "whole", "--preset", *method.split()) == 0
    expected = result(folder / "whole")
    genuine = Steps.once
    left = 0

    def once(self: Steps, name: str, work: Any) -> Arrays:
        nonlocal left
        arrays = genuine(self, name, work)
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return arrays

    for count in range(1, 40):
        left = count
        output = folder / f"out-{count}"
        monkeypatch.setattr(Steps, "once", once)
        code = run(network, output, "--preset", *method.split())
        monkeypatch.setattr(Steps, "once", genuine)
        if code == 0:
            break
        assert code == 130
        assert not output.exists()
        assert "--resume" in capsys.readouterr().err
        assert run(network, output, "--preset", *method.split(), "--resume", "--threads", "1") == 0
        assert result(output) == expected
        assert not output.with_name(output.name + ".partial").exists()
        assert sorted(path.name for path in output.iterdir()) == [
            "mapping.npz", "report.html", "report.json", "run.log", "traffic.npz",
        ]  # fmt: skip
    assert count >= least


def test_kill_at_many_moments(network: Path, folder: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "run", str(network), *ARGUMENTS, "-q"]
    for name in ("compiles", "whole"):  # the first run may have to compile kernels
        start = time.perf_counter()
        subprocess.run([*command, "-o", str(folder / name)], check=True, capture_output=True)
        whole = time.perf_counter() - start
    expected = result(folder / "whole")
    output = folder / "out"
    for moment in np.linspace(0.3, 1.0, 4):
        process = subprocess.Popen(
            [*command, "-o", str(output)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(whole * moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        again = subprocess.run(
            [*command, "-o", str(output), "--resume"], capture_output=True, check=False
        )
        assert again.returncode == 0, again.stderr
        assert result(output) == expected
        for path in output.iterdir():
            path.unlink()
        output.rmdir()


def test_other_settings_are_refused(
    network: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    genuine = Steps.once

    def once(self: Steps, name: str, work: Any) -> Arrays:
        genuine(self, name, work)
        raise KeyboardInterrupt

    monkeypatch.setattr(Steps, "once", once)
    assert run(network, folder / "out") == 130
    capsys.readouterr()
    assert run(network, folder / "out", "--seed", "7", "--resume") == 1
    said = capsys.readouterr().err
    assert "seed 0" in said
    assert "now it is 7" in said
    assert said.count("\n") == 1
    monkeypatch.setattr(Steps, "once", genuine)
    assert run(network, folder / "out", "--resume") == 0  # what was there is still good


def test_nothing_to_resume(network: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(network, folder / "out", "--resume") == 0  # a new run
    first = json.loads(capsys.readouterr().out)
    assert first["resources"]["resumed"] is False
    assert run(network, folder / "out", "--resume") == 0  # a complete one
    again = json.loads(capsys.readouterr().out)
    assert again["metrics"] == first["metrics"]


def test_without_resume_an_earlier_run_goes(
    network: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "out.partial").mkdir()
    (folder / "out.partial" / "run.json").write_text("{}")
    assert run(network, folder / "out") == 0
    assert not (folder / "out.partial").exists()
