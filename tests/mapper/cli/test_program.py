"""`mapper` as a separate program: imports, compilation, and a closed pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mapper.cli.main import COMMANDS, main
from mapper.errors import CLOSED_PIPE
from mapper.kernels.warmup import Compiled
from mapper.version import version
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit  # tests processes, not kernels


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=os.environ, check=False
    )


def test_help_loads_few_modules() -> None:
    code = (
        "import sys\nfrom mapper.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numba', 'scipy', 'rich', 'numpy') if m in sys.modules])"
    )
    found = python("-c", code)
    assert found.stdout.splitlines()[-1] == "[]"
    for command in COMMANDS:
        assert command in found.stdout


def test_import_loads_few_modules() -> None:
    modules = ("numba", "scipy", "rich", "numpy", "argparse", "importlib.metadata")
    code = f"import sys, mapper; print([m for m in {modules} if m in sys.modules])"
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_as_a_program(network: Path) -> None:
    assert python("-m", "mapper", "--version").stdout == f"mapper {version()}\n"
    info = python("-m", "mapper", "info", "net.bin", "--json")
    assert (info.returncode, json.loads(info.stdout)["neurons"]) == (0, 50)
    missing = python("-m", "mapper", "info", "none.bin")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.count("\n") == 1
    assert python("-m", "mapper").returncode == 2
    traced = python("-m", "mapper", "info", "none.bin", "--debug")
    assert "Traceback" in traced.stderr


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_reader_that_closes_the_pipe(network: Path) -> None:
    command = [sys.executable, "-m", "mapper", "info", "net.bin"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as gone:
        found = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr) == (CLOSED_PIPE, b"")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "none.bin", "--chip", "4x4"),
        ("run", "none.bin", "--chip", "4x4"),
        ("run", "net.bin", "--chip", "nowhere"),
        ("run", "net.bin", "--chip", "4x4", "--constraints", "none.toml"),
        ("score", "net.bin", "none.npz", "--chip", "4x4"),
        ("import", "none.csv", "new.bin"),
        ("export", "none.bin", "new.csv"),
        ("verify", "none.bin"),
        ("simulate", "none"),
        ("place", "none.bin", "--chip", "4x4"),
    ],
)
def test_a_failing_command_does_not_compile(
    words: tuple[str, ...], network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []
    monkeypatch.setattr(
        "mapper.kernels.warmup.compile_kernels", lambda *works: compiled.append(works)
    )
    assert main(list(words)) in (1, 2)
    assert compiled == []


def test_main_reads_the_command_line(monkeypatch: pytest.MonkeyPatch, network: Path) -> None:
    monkeypatch.setattr("mapper.cli.main.leave", lambda code: code)
    monkeypatch.setattr("mapper.cli.main.gc.set_threshold", lambda *numbers: None)
    monkeypatch.setattr(sys, "argv", ["mapper", "verify", "net.bin", "--json"])
    assert main() == 0


def test_warm(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports the compiled kernels, and fails if some could not be compiled."""
    asked: list[list[str]] = []
    left = iter([["a.b", "a.c"], [], ["a.b", "a.c"], ["a.c"]])

    def compile_kernels(works: list[str], *more: object) -> Compiled:
        asked.append(list(works))
        return Compiled(2, [], 1, 0.5)

    monkeypatch.setattr("mapper.kernels.warmup.compile_kernels", compile_kernels)
    monkeypatch.setattr("mapper.kernels.warmup.missing_kernels", lambda works: next(left))
    done = run("warm", "--preset", "fast", "--preset", "classic", "--json")
    assert done.code == 0
    assert done.json()["presets"] == ["fast", "classic"]
    assert (done.json()["compiled"], done.json()["missing"]) == (2, [])
    assert {"generate", "run/classic", "run/fast/cut/levels"} <= set(asked[0])
    assert not any("default" in work or "strong" in work for work in asked[0])
    failed = run("warm", "--json")
    assert (failed.code, failed.json()["missing"]) == (1, ["a.c"])
    assert "run/strong/multicast/nets" in asked[1]
