"""Folders that hide parts of the package, and installations without a writable kernel cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mapper
from mapper.kernels import installation

ROOT = Path(mapper.__file__).resolve().parents[1]


def python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{cwd}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", installation.PACKAGES)
@pytest.mark.parametrize("kind", ["folder", "package", "module"])
def test_a_folder_that_hides_a_package_is_named(name: str, kind: str, tmp_path: Path) -> None:
    if kind == "module":
        hiding = tmp_path / f"{name}.py"
        hiding.write_text("")
    else:
        hiding = tmp_path / name
        hiding.mkdir()
        if kind == "package":
            (hiding / "__init__.py").write_text("")
    line = (
        f"{hiding} hides the package `{name}` of mapper; rename it, or start Python from another "
        "folder"
    )
    found = python("-m", "mapper", "chips", cwd=tmp_path)
    if kind == "folder":  # a folder without __init__.py hides nothing if the package can be found
        assert found.returncode == 0
        return
    assert (found.returncode, found.stdout, found.stderr) == (1, "", f"mapper: {line}\n")
    found = python("-c", "import mapper; mapper.map_network", cwd=tmp_path)
    assert found.stderr.endswith(f"HiddenPackageError: {line}\n")


SCRIPT = """
import mapper
try:
    mapper.map_network(([0], [1]), (2, 2))
except mapper.MapperError as error:
    print(error)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", installation.PACKAGES)
def test_a_script_catches_the_error_as_its_other_errors(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "elsewhere").mkdir()
    found = python(str(tmp_path / "script.py"), cwd=tmp_path / "elsewhere")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith(f"{tmp_path / name} hides the package `{name}` of mapper; ")
    assert found.stdout.count("\n") == 1


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_folders_do_not_hide_packages_from_the_command(tmp_path: Path) -> None:
    """The command does not search the current folder, and neither do its processes."""
    for name in installation.PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('hidden')")
    (tmp_path / "net.csv").write_text("source,target\n0,1\n1,2\n2,0\n")
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from mapper.cli.main import main; "
    words = ["run", "net.csv", "--chip", "2x2", "--seeds", "1..2", "--workers", "2", "-q"]
    found = subprocess.run(
        [sys.executable, "-P", "-c", f"{start}sys.exit(main({words!r}))"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    assert len(list(tmp_path.glob("net-portfolio/seed-*/report.json"))) == 2


def test_nothing_is_hidden_here() -> None:
    installation.check_packages()


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(("given", "wanted"), [(None, 1), ("2", 2)])
def test_matrix_products_of_the_command_line_use_one_thread(given: str | None, wanted: int) -> None:
    """Set before numpy is imported, which reads it once; a number set by the user is kept."""
    lines = (
        "import os, sys, mapper.cli.main as program; assert 'numpy' not in sys.modules; "
        "program.main(['chips']); import numpy; "
        "print('threads', os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("OPENBLAS_NUM_THREADS", None)
    if given:
        environment["OPENBLAS_NUM_THREADS"] = given
    found = subprocess.run(
        [sys.executable, "-c", lines], env=environment, capture_output=True, text=True
    )
    assert found.stdout.endswith(f"threads {wanted}\n"), found.stderr


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make all folders read-only except the temporary folder, which is returned."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(installation.os, "access", lambda path, mode: False)
    monkeypatch.setattr(installation.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    return tmp_path


def test_kernels_get_a_temporary_cache_if_nothing_is_writable(
    read_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numba

    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # restored at the end
    folder = installation.ensure_kernel_cache()
    assert folder is not None
    assert folder.parent == read_only
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder)
    assert str(folder) == numba.config.CACHE_DIR  # type: ignore[attr-defined]
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    assert installation.ensure_kernel_cache() == folder  # so the next process finds the kernels


def test_a_folder_of_another_user_is_not_trusted(
    read_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    target = read_only / "elsewhere"
    target.mkdir()
    trap = read_only / f"mapper-kernels-{os.getuid()}"
    trap.symlink_to(target)
    folder = installation.ensure_kernel_cache()
    assert folder not in (None, trap)
    assert list(target.iterdir()) == []


def test_numbas_own_choice_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert installation.ensure_kernel_cache() is None
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert installation.ensure_kernel_cache() is None  # the sources of a checkout are writable
    assert "NUMBA_CACHE_DIR" not in os.environ
