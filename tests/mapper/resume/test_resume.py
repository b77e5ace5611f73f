"""Killed or interrupted runs resume with --resume to the same result."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.cli import main as cli
from mapper.concurrency.interrupts import Stop
from mapper.resume.checkpoint import Arrays, Checkpoint
from tests.mapper.helpers import PROGRAM, random_network
from tests.tiers import Some

pytestmark = pytest.mark.jit  # dozens of complete runs; test_checkpoint tests steps without the JIT

ARGUMENTS = (
    "--chip", "8x8", "--neurons-per-core", "20", "--memory", "256MiB",
    "--set", "block-vertices=256", "--set", "coarse-degree=20", "--set", "force-iterations=20",
)  # fmt: skip


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 1200, 9000)


def run(network: Path, output: Path, *more: str) -> int:
    return cli.main(["run", str(network), *ARGUMENTS, "-o", str(output), "-q", "--json", *more])


def result(output: Path) -> tuple[bytes, Any, Any]:
    report = json.loads((output / "report.json").read_bytes())
    return (output / "mapping.npz").read_bytes(), report["metrics"], report["levels"]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.usefixtures("light_placement")  # otherwise placement takes longer than all other steps
@pytest.mark.parametrize(
    ("method", "least"),
    [
        ("default", 4),
        ("default --set level-budget=0", 9),
        ("fast --set level-budget=0", 7),
        ("classic", 2),
    ],
)
def test_ending_after_every_step(
    network: Path, folder: Path, method: str, least: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], some: Some,
) -> None:  # fmt: skip
    genuine = Checkpoint.run_once
    steps = last = 0

    def run_once(self: Checkpoint, name: str, work: Any) -> Arrays:
        nonlocal steps
        arrays = genuine(self, name, work)
        steps += 1
        if steps == last:
            raise KeyboardInterrupt
        return arrays

    monkeypatch.setattr(Checkpoint, "run_once", run_once)
    assert run(network, folder / "whole", "--preset", *method.split()) == 0
    assert steps >= least - 1
    expected = result(folder / "whole")
    # as in a killed run: no mapping is written
    monkeypatch.setattr(Stop, "keep", lambda *_: None)

    for moment in some(range(1, steps + 1), 1):
        steps, last = 0, moment
        output = folder / f"out-{moment}"
        monkeypatch.setattr(Checkpoint, "run_once", run_once)
        assert run(network, output, "--preset", *method.split()) == 130
        monkeypatch.setattr(Checkpoint, "run_once", genuine)
        assert not output.exists()
        assert "--resume" in capsys.readouterr().err
        assert run(network, output, "--preset", *method.split(), "--resume", "--threads", "1") == 0
        assert result(output) == expected
        assert not output.with_name(output.name + ".partial").exists()
        assert sorted(path.name for path in output.iterdir()) == [
            "mapping.npz", "report.html", "report.json", "run.log", "traffic.npz",
        ]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.usefixtures("light_placement")
def test_ending_while_results_are_written(
    network: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No finished step is repeated."""
    fast = ("--preset", "fast")
    assert run(network, folder / "whole", *fast) == 0

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mapper.reporting.make.write_page", interrupted)
        assert run(network, folder / "out", *fast) == 130
    genuine = Checkpoint.run_once
    steps = []

    def run_once(self: Checkpoint, name: str, work: Any) -> Arrays:
        steps.append((name, self.done(name)))
        return genuine(self, name, work)

    monkeypatch.setattr(Checkpoint, "run_once", run_once)
    assert run(network, folder / "out", *fast, "--resume") == 0
    assert steps
    assert [name for name, done in steps if not done] == []
    assert result(folder / "out") == result(folder / "whole")
    assert not (folder / "out" / "scratch").exists()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_kill_at_many_moments(network: Path, folder: Path, some: Some) -> None:
    command = [sys.executable, "-c", PROGRAM, "run", str(network), *ARGUMENTS, "-q"]
    for name in ("compiles", "whole"):  # the first run may compile kernels
        start = time.perf_counter()
        subprocess.run([*command, "-o", str(folder / name)], check=True, capture_output=True)
        whole = time.perf_counter() - start
    expected = result(folder / "whole")
    output = folder / "out"
    for moment in some(np.linspace(0.3, 1.0, 4), 1):
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


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_other_settings_are_refused(
    network: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    genuine = Checkpoint.run_once

    def run_once(self: Checkpoint, name: str, work: Any) -> Arrays:
        genuine(self, name, work)
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "run_once", run_once)
    assert run(network, folder / "out") == 130
    capsys.readouterr()
    assert run(network, folder / "out", "--seed", "7", "--resume") == 1
    said = capsys.readouterr().err
    assert "seed 0" in said
    assert "now it is 7" in said
    assert said.count("\n") == 1
    monkeypatch.setattr(Checkpoint, "run_once", genuine)
    assert run(network, folder / "out", "--resume") == 0  # the stored steps are still valid


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_nothing_to_resume(network: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(network, folder / "out", "--resume") == 0  # a new run
    first = json.loads(capsys.readouterr().out)
    assert first["resources"]["resumed"] is False
    assert run(network, folder / "out", "--resume") == 0  # a complete run
    again = json.loads(capsys.readouterr().out)
    assert again["metrics"] == first["metrics"]
    whole = result(folder / "out")
    capsys.readouterr()
    for more, told in (
        (("--seed", "7"), "made with seed 0, now it is 7;"),
        (("--neurons-per-core", "21"), "made with chip "),
    ):
        assert run(network, folder / "out", *more, "--resume") == 1
        assert f"{folder / 'out'}: is complete, {told}" in capsys.readouterr().err
    assert result(folder / "out") == whole


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_without_resume_an_earlier_run_is_deleted(
    network: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "out.partial").mkdir()
    (folder / "out.partial" / "run.json").write_text("{}")
    assert run(network, folder / "out") == 0
    assert not (folder / "out.partial").exists()


PAGE = 4096


def damage(path: Path, kind: str, earlier: bytes, draw: random.Random) -> None:
    """Damage a file as a crash of the machine could, before its last writes reached the disk."""
    data = bytearray(path.read_bytes())
    pages = range(0, len(data), PAGE)
    if kind == "cut":
        del data[draw.randrange(len(data)) :]
    elif kind == "zeroed":
        for start in draw.sample(pages, min(len(pages), draw.randint(1, 4))):
            data[start : start + PAGE] = bytes(len(data[start : start + PAGE]))
    elif kind == "first page":
        data[:PAGE] = bytes(min(PAGE, len(data)))
    elif kind == "earlier pages":
        for start in draw.sample(pages, min(len(pages), 4)):
            old = earlier[start : start + PAGE]
            data[start : start + len(old)] = old
    elif kind == "never written":
        data[draw.randrange(len(data)) :] = bytes(draw.randrange(3 * PAGE))
    else:
        data = bytearray()
    path.write_bytes(bytes(data))


DAMAGES = ("cut", "zeroed", "first page", "earlier pages", "never written", "empty")


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.usefixtures("light_placement")
def test_damaged_files_of_a_killed_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damaged steps are repeated: nothing must be deleted by hand."""
    tries = int(os.environ.get("MAPPER_DAMAGES", "12"))
    draw = random.Random(tries)
    rng = np.random.default_rng(3)
    text = "\n".join(f"{a} {b}" for a, b in rng.integers(0, 700, (4000, 2)))
    (folder / "edges.txt").write_text(text)
    words = (
        folder / "edges.txt", "--chip", "4x4", "--split-neurons", "--synapses-per-core", "400",
        "--neurons-per-core", "60", "--memory", "256MiB", "--threads", "1",
        "--set", "level-budget=0", "--set", "coarse-degree=20", "--set", "block-vertices=256",
    )  # fmt: skip

    def start(output: str, *more: str) -> int:
        return cli.main(["run", *map(str, words), "-o", output, "--json", *more])

    assert start("whole") == 0
    expected = result(folder / "whole")
    genuine = Checkpoint.run_once
    left, earlier = 0, b""

    def run_once(self: Checkpoint, name: str, work: Any) -> Arrays:
        nonlocal left, earlier
        arrays = genuine(self, name, work)
        left -= 1
        if left == 1:
            earlier = (made / "scratch" / "records").read_bytes()
        if left == 0:
            raise KeyboardInterrupt
        return arrays

    monkeypatch.setattr(Stop, "keep", lambda *_: None)  # as in a killed run
    made = folder / "out.partial" / "result"
    seen: set[str] = set()
    for trial in range(tries):
        left, earlier = draw.randint(1, 9), b""
        monkeypatch.setattr(Checkpoint, "run_once", run_once)
        assert start("out") == 130
        monkeypatch.setattr(Checkpoint, "run_once", genuine)
        if not made.exists():  # a placement existed by then, and the best mapping so far is kept
            shutil.rmtree(folder / "out")
            continue
        names = ["scratch/records"] * 3 + ["network.bin", "../run.json"]
        names += ["split.bin"] * (made / "split.bin").exists()
        name = names[trial % len(names)]
        kind = DAMAGES[trial // 2 % len(DAMAGES)]
        if name == "../run.json" and kind == "earlier pages":
            kind = "zeroed"
        before = (made / name).read_bytes()
        damage(made / name, kind, earlier, draw)
        capsys.readouterr()
        assert start("out", "--resume") == 0, (name, kind)
        said = capsys.readouterr().err
        assert "Traceback" not in said
        if before != b"" and name != "scratch/records":
            assert ("written again" in said) or ("the earlier run cannot" in said), (name, kind)
        seen.add(name)
        found = result(folder / "out")
        assert found[:2] == expected[:2], (name, kind)
        assert not (folder / "out.partial").exists()
        shutil.rmtree(folder / "out")
    assert len(seen) >= 3
