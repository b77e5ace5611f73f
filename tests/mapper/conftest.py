"""Running the command line inside the tests, and checking that it leaves nothing behind."""

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
from mapper.warmup import Compiled

Tree = dict[str, bytes | None]


@dataclass
class Result:
    """What a command line ended with."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Run = Callable[..., Result]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hashes and random numbers are modulo 2^64; with the JIT off numpy warns of that."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        modulo = "ignore:overflow encountered in scalar multiply:RuntimeWarning"
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(pytest.mark.filterwarnings(modulo))


def nothing_to_compile(*arguments: object, **named: object) -> Compiled:
    """In the place of `mapper.warmup.compile_kernels`."""
    return Compiled(0, [], 0, 0.0)


@pytest.fixture(scope="session")
def nowhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests run that need no folder: making and removing two for each takes longer."""
    return tmp_path_factory.mktemp("nowhere")


@pytest.fixture(autouse=True)
def tidy(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """Nothing is left in the system's folder for temporary files, nor where no test should write.

    Kernels are not compiled beforehand: they are when they are used.
    """
    monkeypatch.chdir(nowhere)
    monkeypatch.setattr(tempfile, "tempdir", str(nowhere))
    if "compiles" not in request.node.name:
        monkeypatch.setattr("mapper.warmup.compile_kernels", nothing_to_compile)
    yield
    assert list(nowhere.iterdir()) == []


@pytest.fixture
def folder(tidy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder of a test, with a folder for temporary files that must end empty."""
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield work
    assert list(temporary.iterdir()) == []


@pytest.fixture
def light_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps of a placement, but with next to no time for each: for tests of something else.

    Neither do single neurons get the many proposals that small networks can afford.
    """
    from mapper.hop_refinement import annealing
    from mapper.placement import portfolio
    from mapper.placement.spectral import Search

    monkeypatch.setattr(annealing, "MANY", 0)

    for name in portfolio.EFFORTS:
        light = portfolio.Effort(
            work=1e6, least=1e5, search=Search(0, 1, 2), tried=1, repeats=2, start=0.2, sweeps=1
        )
        monkeypatch.setitem(portfolio.EFFORTS, name, light)


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `mapper` with some arguments in this process."""

    def call(*arguments: str | Path) -> Result:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse ends so
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
    """Every file below a folder with its bytes; folders hold None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
