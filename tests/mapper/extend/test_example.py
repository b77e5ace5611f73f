"""The package of docs/howto/extend.md: all four plugins on the command line and in Python."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mapper
from storage.formats import recognise
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.extend.packages import EXAMPLE
from tests.test_structure import ROOT

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("example", "light_placement")]
NEURONS = 40
SNAKE = [*range(10), *range(19, 9, -1), *range(20, 30), *range(39, 29, -1)]
"""Cores of the groups on 10x4 cores."""


@pytest.fixture
def pairs(folder: Path) -> Path:
    """A file in the format of the package."""
    rng = np.random.default_rng(1)
    ends = rng.integers(0, NEURONS, (200, 2)).tolist()
    rows = b"".join(struct.pack("<IId", source, target, 0.5) for source, target in ends)
    path = folder / "a.pairs"
    path.write_bytes(b"PAIRS01\n" + struct.pack("<Q", NEURONS) + rows)
    return path


def test_the_command_line_uses_all(pairs: Path, run: Run) -> None:
    assert "pairs: binary records" in run("info", pairs).out
    assert run("import", pairs, "net.bin").code == 0
    renamed = pairs.rename("a.dat")
    assert run("import", renamed, "named.bin", "--format", "pairs").code == 0
    for name in ("net.bin", "named.bin"):
        with NetworkFile(Path(name)) as net:
            assert net.vertices == NEURONS
    words = ("run", "net.bin", "--chip", "example16", "--neurons-per-core", "4")
    found = run(*words, "--set", "placer=snake", "-o", "out")
    assert found.code == 0, found.err
    report = json.loads(Path("out/report.json").read_text())
    assert report["settings"]["placer"] == "snake"
    assert (report["chip"]["name"], report["chip"]["width"]) == ("example16", 16)
    assert run("export", "net.bin", "b.pairs").code == 0
    assert Path("b.pairs").read_bytes().startswith(b"PAIRS01\n")
    assert run("export", "out", "c.occupancy").code == 0
    rows = Path("c.occupancy").read_text().splitlines()
    assert rows[0] == "x,y,neurons"
    assert len(rows) == 1 + 256
    assert sum(int(row.rpartition(",")[2]) for row in rows[1:]) == NEURONS
    assert run("export", "out", "d.txt", "--format", "occupancy").code == 0
    assert Path("d.txt").read_text().splitlines() == rows
    place = run("place", "net.bin", "--chip", "10x4", "--set", "placer=snake", "--json").json()
    assert place["core"] == SNAKE


def test_python_uses_all(pairs: Path) -> None:
    net = mapper.import_network(pairs)
    assert net.neurons == NEURONS
    mapping = mapper.map_network(net, "example16", neurons_per_core=4, placer="snake", seed=1)
    exported = mapper.export(net, "b.pairs")
    assert (exported.format, exported.path.stat().st_size > 16) == ("pairs", True)
    assert recognise(exported.path).package == "mapper-example 1.0"
    assert mapping.chip.name == "example16"
    assert mapper.chips()["example16"].synapses == 65536
    exported = mapper.export(mapping, "c.occupancy")
    assert exported.facts["cores"] == 256
    assert mapper.place(pairs, (10, 4), placer="snake").core.tolist() == SNAKE


def test_lists_show_the_package(run: Run) -> None:
    listed = run("plugins", "--json").json()["plugins"]
    assert [(one["kind"], one["name"]) for one in listed] == [
        ("format", "pairs"), ("placer", "snake"), ("chip", "example16"), ("export", "occupancy"),
    ]  # fmt: skip
    assert {one["package"] for one in listed} == {"mapper-example 1.0"}
    assert [one["fault"] for one in listed] == [None] * 4
    assert all(one["about"] for one in listed)
    assert [one._asdict() for one in mapper.plugins()] == listed
    assert "mapper-example 1.0" in run("plugins").out
    chips = {one["chip"]["name"]: one["package"] for one in run("chips", "--json").json()["chips"]}
    assert (chips["example16"], chips["loihi"]) == ("mapper-example 1.0", None)
    assert "mapper-example 1.0" in run("chips").out
    assert 'name = "example16"' in run("chips", "show", "example16").out
    text = " ".join(run("import", "--help-all").out.split())
    assert "pairs .pairs binary records of source, target and weight (mapper-example 1.0)" in text
    text = " ".join(run("export", "--help-all").out.split())
    assert "occupancy .occupancy table with a row" in text
    assert "pairs" in run("import", "a.none", "b", "--format", "none").err
    assert "pairs" in run("export", "a.none", "b", "--format", "none").err
    assert "snake" in run("run", "a", "--chip", "2x2", "--set", "placer=none").err
    assert "example16" in run("completion", "bash").out


def test_formats_that_do_not_apply(pairs: Path, run: Run, folder: Path) -> None:
    assert run("import", pairs, "net.bin").code == 0
    found = run("export", "net.bin", "a.txt", "--format", "occupancy")
    assert found.code == 2
    assert "only a mapping can be exported as occupancy" in found.err
    assert "unknown format for networks" in run("export", "net.bin", "a.occupancy").err
    found = run("run", pairs, "--chip", "2x2", "--set", "placer=snake", "--preset", "classic", "-q",
                "--neurons-per-core", "20", "-o", "out")  # fmt: skip
    assert found.code == 0
    words = ("place", pairs, "--chip", "8x8", "--set", "placer=snake", "--set", "placement=fast")
    found = run(*words, "--json")
    assert "note: without effect with --preset default: placement" in found.err


def test_built_in_objects_read_no_entry_points(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that has a built-in name or file searches the installed packages."""

    def searched(**group: str) -> None:
        raise AssertionError(f"entry points were read: {group}")

    monkeypatch.setattr("storage.plugins.entry_points", searched)
    assert run("generate", "cortex", "net.bin", "--side", "8", "--fanout", "4", "-q").code == 0
    assert run("export", "net.bin", "net.graph", "-q").code == 0
    assert run("import", "net.graph", "again.bin", "--format", "metis", "-q").code == 0
    assert run("info", "net.graph", "-q").code == 0
    words = ("run", "net.graph", "--chip", "loihi64", "--set", "placer=curves", "-o", "out", "-q")
    assert run(*words).code == 0
    assert run("export", "out", "a.npz", "-q").code == 0
    assert run("chips", "show", "loihi", "-q").code == 0
    assert run("score", "net.bin", "out/mapping.npz", "--chip", "8x8", "-q").code in (0, 1)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_the_tests_of_the_package_pass(site: Path, tmp_path: Path) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    found = subprocess.run(
        [sys.executable, *words, str(EXAMPLE / "test_contracts.py")], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout
    assert "4 passed" in found.stdout


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_type_checkers_accept_the_package(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    options = ["--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "users"), "--no-error-summary",
               "--config-file", "", "--follow-imports", "silent"]  # fmt: skip
    said, errors, code = api.run([*options, str(site / "mapper_example")])
    assert (said, errors, code) == ("", "", 0)
