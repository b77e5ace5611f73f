"""Fixtures that run the command line inside the tests and check for leftover files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import pytest

from mapper.cli.main import main
from mapper.kernels.warmup import Compiled

Tree = dict[str, bytes | None]


@dataclass
class Result:
    """Result of a command line."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """Return the single JSON object on stdout."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Run = Callable[..., Result]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore overflow: hashes and random numbers are modulo 2^64; with the JIT off numpy warns."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        modulo = "ignore:overflow encountered in scalar multiply:RuntimeWarning"
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(pytest.mark.filterwarnings(modulo))


def nothing_to_compile(*arguments: object, **named: object) -> Compiled:
    """Replacement of `mapper.kernels.warmup.compile_kernels`."""
    return Compiled(0, [], 0, 0.0)


@pytest.fixture(scope="session")
def nowhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of tests that need none: creating and removing two folders per test takes longer."""
    return tmp_path_factory.mktemp("nowhere")


@pytest.fixture(autouse=True)
def tidy(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """Check that nothing is left in the system's temporary folder, or where tests must not write.

    Kernels are compiled on demand.
    """
    monkeypatch.chdir(nowhere)
    monkeypatch.setattr(tempfile, "tempdir", str(nowhere))
    if "compiles" not in request.node.name:
        monkeypatch.setattr("mapper.kernels.warmup.compile_kernels", nothing_to_compile)
    yield
    assert list(nowhere.iterdir()) == []


@pytest.fixture
def folder(tidy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Current folder of a test, with a folder for temporary files that must be empty at the end."""
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield work
    assert list(temporary.iterdir()) == []


@pytest.fixture
def light_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps of a placement with next to no time for each, for tests of other parts.

    Single neurons also get fewer proposals than small networks can afford.
    """
    from mapper.hop_refinement import annealing
    from mapper.placement import portfolio
    from mapper.placement.spectral import RotationSearch

    monkeypatch.setattr(annealing, "MANY", 0)

    for name in portfolio.EFFORTS:
        light = portfolio.PlacementEffort(
            work=1e6,
            least=1e5,
            search=RotationSearch(0, 1, 2),
            tried=1,
            repeats=2,
            start=0.2,
            sweeps=1,
        )
        monkeypatch.setitem(portfolio.EFFORTS, name, light)


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `mapper` with arguments in this process."""

    def call(*arguments: str | Path) -> Result:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # raised by argparse
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def fails(run: Run, folder: Path) -> Callable[..., str]:
    """Run `mapper` for an error: one line on stderr, nothing on stdout, no file changed."""

    def call(*arguments: str | Path, code: int = 1) -> str:
        before = tree(folder)
        found = run(*arguments)
        assert (found.code, found.out) == (code, ""), found
        assert tree(folder) == before
        assert found.err.endswith("\n")
        assert found.err.count("\n") == 1, found.err
        opening = f"mapper {arguments[0]}: "
        assert found.err.startswith(opening)
        return found.err.removeprefix(opening).rstrip()

    return call


def tree(folder: Path) -> Tree:
    """Return every file below a folder with its bytes; None for folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
