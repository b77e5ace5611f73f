"""Wheel and source archive: complete, built without the network, and installed from scratch."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.test_structure import PACKAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"{PROJECT['name']}-{PROJECT['version']}"
pytest.importorskip("hatchling", reason="it builds the packages: pip install hatchling")
pytestmark = [pytest.mark.heavy, pytest.mark.jit]


def called(*words: str | Path, cwd: Path = ROOT, **more: str) -> str:
    """Run a command; return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**environment, **more},
        capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    called(sys.executable, "-m", "hatchling", "build", "-d", folder)
    assert len(list(folder.iterdir())) == 2
    return folder


def tracked() -> list[str]:
    """Return the files of the repository."""
    try:
        return called("git", "ls-files", "-z").split("\0")[:-1]
    except (AssertionError, OSError):
        pytest.skip("not a git clone")


@pytest.mark.sample(0.25)
def test_the_source_archive_holds_the_repository(built: Path, tmp_path: Path) -> None:
    """The README names scripts that run the tests; these are in it with all tests."""
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert found == {*tracked(), "PKG-INFO"}
    source = tmp_path / NAME
    for line in (ROOT / "README.md").read_text().splitlines():
        if line.startswith("sh scripts/"):
            assert (source / line.split()[1]).is_file()
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/storage/test_npz.py"]
    assert " passed" in called(sys.executable, *words, cwd=source, PYTHONPATH=str(source))


@pytest.mark.sample(0.25)
def test_the_wheel_holds_all_files(built: Path) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as archive:
        found = set(archive.namelist())
        metadata = Parser().parsestr(archive.read(f"{NAME}.dist-info/METADATA").decode())
        scripts = archive.read(f"{NAME}.dist-info/entry_points.txt").decode()
    own = {path for path in tracked() if path.partition("/")[0] in PACKAGES}
    pages = {f"mapper/pages/{path[5:]}" for path in tracked() if path.startswith("docs/")}
    about = {f"{NAME}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    about |= {f"{NAME}.dist-info/{name}" for name in ("entry_points.txt", "licenses/LICENSE")}
    assert found == own | pages | about
    for package in PACKAGES:
        assert f"{package}/py.typed" in found
    assert "mapper/pages/howto/extend.md" in found
    assert any(path.endswith(".j2") for path in found)
    needed = metadata.get_all("Requires-Dist")
    assert needed is not None
    plain = {line.replace(" ", "") for line in needed if "extra ==" not in line}
    names = {line.partition(">=")[0] for line in PROJECT["dependencies"]}
    assert {line.partition(">=")[0].partition("<")[0] for line in plain} == names
    assert set(metadata.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"])
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert scripts.split() == ["[console_scripts]", "mapper", "=", PROJECT["scripts"]["mapper"]]


@pytest.mark.sample(0.25)
def test_an_installed_wheel_runs(built: Path, tmp_path: Path) -> None:
    """In a fresh environment, with the dependencies of this one and with kernels as Python."""
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    wheel = built / f"{NAME}-py3-none-any.whl"
    program = home / ("Scripts" if os.name == "nt" else "bin")
    python = program / "python"
    called(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
        "--no-index", "--disable-pip-version-check", wheel,
    )  # fmt: skip
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(called(python, "-c", code).strip())
    places = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (packages / "dependencies.pth").write_text("\n".join(places) + "\n")
    work, mapper = tmp_path / "work", program / "mapper"
    work.mkdir()
    assert called(mapper, "--version", cwd=work) == f"mapper {PROJECT['version']}\n"
    plain = {"NUMBA_DISABLE_JIT": "1", "MAPPER_CACHE_DIR": str(work / "cache")}
    (work / "net.csv").write_text("source,target,weight\n0,1,2\n1,2,1\n2,3,1\n3,0,5\n")
    words = ["run", "net.csv", "--chip", "2x1", "--neurons-per-core", "2", "--preset", "fast", "-q"]
    called(mapper, *words, "-o", "result", cwd=work, **plain)
    assert "all equal" in called(mapper, "verify", "result", cwd=work, **plain)
    assert (work / "result" / "report.html").stat().st_size > 10_000
    assert "import-graphs" in called(mapper, "docs", cwd=work)
    assert "mapper run" in called(mapper, "docs", "commands", cwd=work)
    assert "loihi" in called(mapper, "chips", cwd=work)
    code = "import mapper, storage; print(mapper.__file__, storage.__file__)"
    for path in called(python, "-c", code, cwd=work).split():
        assert Path(path).is_relative_to(packages)
