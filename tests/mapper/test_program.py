"""`mapper` as a program of its own: what it imports, compiles, and does when a reader leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from mapper.cli import COMMANDS, main
from mapper.errors import CLOSED_PIPE
from mapper.kernels import compile_once
from mapper.version import version
from tests.mapper.helpers import random_network

pytestmark = pytest.mark.jit  # what runs here is not the kernels


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 50, 200)


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=os.environ, check=False
    )


def test_help_is_light() -> None:
    code = (
        "import sys\nfrom mapper.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numba', 'scipy', 'rich', 'numpy') if m in sys.modules])"
    )
    found = python("-c", code)
    assert found.stdout.splitlines()[-1] == "[]"
    for command in COMMANDS:
        assert command in found.stdout


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


def test_a_reader_that_leaves(network: Path) -> None:
    command = [sys.executable, "-m", "mapper", "info", "net.bin"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as gone:
        found = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr) == (CLOSED_PIPE, b"")


def test_first_use_compiles_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    # The kernels of the other tests stay: processes that these start would compile them all again.
    forgotten: list[None] = []
    monkeypatch.setattr("mapper.kernels.forget_kernels", lambda: forgotten.append(None))
    shown = []
    for work in ("read and write networks", "place groups", "place groups"):
        console = Console(record=True, quiet=False, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
        with console.file:
            compile_once(console, work)
            shown.append(console.export_text())
    assert shown[0].count("compiling kernels") == 2
    assert shown[1].count("compiling kernels to place groups") == 1
    assert shown[2] == ""
    assert len(forgotten) == 1


def test_main_reads_the_command_line(monkeypatch: pytest.MonkeyPatch, network: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["mapper", "verify", "net.bin", "--json"])
    assert main() == 0
