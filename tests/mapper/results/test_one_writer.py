"""Commands that write an output change nothing while another process writes it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mapper.evaluation.verify import verify_network
from tests.mapper.conftest import Run, tree
from tests.mapper.helpers import PROGRAM, random_network
from tests.storage.test_locks import held_elsewhere

pytestmark = pytest.mark.jit  # every test starts with a complete run

CHIP = ("--chip", "4x4", "--neurons-per-core", "8")
CORTEX = ("--side", "9", "--fanout", "5", "--sigma", "1")


@pytest.fixture
def files(folder: Path, run: Run) -> Path:
    """A network, an edge list, rates, and the output of a run."""
    random_network(folder / "net.bin", 60, 200)
    lines = [f"{i % 60} {(i * 7 + i // 60) % 60}" for i in range(200)]
    (folder / "edges.txt").write_text("\n".join(lines))
    (folder / "rates.csv").write_text("\n".join(f"{i},1" for i in range(60)))
    assert run("run", "net.bin", *CHIP, "-o", "out", "--preset", "fast").code == 0
    return folder


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("output", "command"),
    [
        ("a.bin", ("generate", "cortex", "a.bin", *CORTEX)),
        ("a.bin", ("import", "edges.txt", "a.bin")),
        ("a.bin", ("import", "edges.txt", "a.bin", "--rates", "rates.csv")),
        ("a.bin", ("import", "net.bin", "a.bin", "--rates", "rates.csv")),
        ("a.csv", ("export", "net.bin", "a.csv")),
        ("a.graph.part.16", ("export", "out", "a.graph")),
        ("a.csv", ("export", "out", "a.csv")),
        ("a.arch.yaml", ("export", "out", "a.yaml", "--threshold", "2")),
        ("a.npz", ("place", "net.bin", "--chip", "8x8", "-o", "a.npz")),
        ("a.v", ("hw", "--chip", "2x2", "--mesh-only", "--verilog", "a.v")),
        ("a.html", ("report", "out", "-o", "a.html")),
        ("out", ("report", "out")),
        ("out/report.html", ("report", "out")),
        ("out", ("simulate", "out", "--cycles", "50", "--no-saturation")),
        ("out/report.json", ("simulate", "out", "--cycles", "50", "--no-saturation")),
        ("out", ("run", "net.bin", *CHIP, "-o", "out", "--force")),
        ("out", ("run", "net.bin", *CHIP, "-o", "out", "--resume")),
        ("new", ("run", "net.bin", *CHIP, "-o", "new")),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else value,
)
def test_while_another_process_writes(
    output: str, command: tuple[str, ...], files: Path, fails: Callable[..., str]
) -> None:
    with held_elsewhere(files / output) as process:
        said = fails(*command)
    assert f"{output}: process {process.pid} has been writing it since " in said
    assert said.endswith("; wait for it, or name another output")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("output", "command", "reason"),
    [
        ("out", ("import", "edges.txt", "out"), "out: is a folder; name a file"),
        ("out", ("import", "net.bin", "out", "--files", "2"), "out: is not empty; choose another"),
        ("out", ("generate", "cortex", "out", *CORTEX), "out: is a folder; name a file"),
        ("out", ("export", "net.bin", "out", "--format", "csv"), "out: is a folder; name a file"),
        ("out", ("report", "out", "-o", "out"), "out: is a folder; name a file"),
        ("out", ("run", "net.bin", *CHIP, "-o", "out"), "out: exists; choose another folder"),
        ("net.bin", ("run", "net.bin", *CHIP, "-o", "net.bin", "--force"), "is not the output of"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else value,
)
def test_commands_that_must_fail_take_no_lock(
    output: str, command: tuple[str, ...], reason: str, files: Path, fails: Callable[..., str]
) -> None:
    """So they cannot make another command fail that is allowed to write there."""
    with held_elsewhere(files / output):
        assert reason in fails(*command)


@pytest.mark.heavy
def test_readers_are_not_blocked(files: Path, run: Run) -> None:
    with held_elsewhere(files / "out"), held_elsewhere(files / "net.bin"):
        for command in (
            ("info", "net.bin"), ("info", "out"), ("verify", "out"), ("export", "out", "a.csv"),
            ("report", "out", "-o", "a.html"), ("score", "net.bin", "out/mapping.npz", *CHIP),
        ):  # fmt: skip
            assert run(*command).code == 0, command


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_pairs(files: Path) -> None:
    """Two concurrent commands of a kind: one or both succeed, and the result is complete."""
    pairs = int(os.environ.get("MAPPER_PAIRS", "3"))
    draw = random.Random(1)
    before = tree(files)
    commands = {
        "a.bin": [("generate", "cortex", "a.bin", *CORTEX, "--seed", seed) for seed in "12"],
        "b.bin": [("import", "edges.txt", "b.bin"), ("import", "net.bin", "b.bin", "--rates",
            "rates.csv")],
        "new": [("run", "net.bin", *CHIP, "-o", "new", "--preset", "fast", *more)
            for more in (("--seed", "1"), ("--seed", "1", "--resume"))],
        "out": [("run", "net.bin", *CHIP, "-o", "out", "--preset", "fast", "--force"),
            ("simulate", "out", "--cycles", "50", "--no-saturation")],
    }  # fmt: skip
    for number in range(pairs):
        output = list(commands)[number % len(commands)]
        started = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *command],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )
            for command in draw.sample(commands[output], 2)
        ]  # fmt: skip
        codes = []
        for process in started:
            said = process.communicate()[1]
            codes.append(process.returncode)
            wanted = (
                "has been writing it", "another process is writing it",  # its number is missing yet
                "exists; choose another folder",
            )  # fmt: skip
            assert process.returncode == 0 or any(text in said for text in wanted), said
        assert sorted(codes) in ([0, 0], [0, 1])
        if output.endswith(".bin"):
            verify_network(files / output)
        else:
            check = [sys.executable, "-c", PROGRAM, "verify", output]
            subprocess.run(check, check=True, capture_output=True)
            json.loads((files / output / "report.json").read_bytes())
        for name in set(tree(files)) - set(before):
            assert name == output or name.startswith(f"{output}/"), name
        if output != "out":
            made = sorted((files / output).glob("*")) or [files / output]
            for path in made:
                path.unlink()
            if (files / output).exists():
                (files / output).rmdir()
