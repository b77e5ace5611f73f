"""`mapper report`, and the page of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.results.mapping_file import save_mapping
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network
from tests.mapper.reporting.made import Page, random_folder, write_folder

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
CHIP = ("--chip", "4x4", "--neurons-per-core", "4")


@pytest.fixture
def out(folder: Path) -> Path:
    return random_folder(folder / "out", Chip("c", 4, 3, neurons=16))


def test_a_run_writes_its_page(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 50, 200)
    words = ("net.bin", *CHIP, "-o", "result", "--seed", "3", "--json")
    report = run("run", *words).json()
    assert report["command"] == ["mapper", "run", *words]
    written = Path("result/report.html").read_bytes()
    page = Page(written.decode())
    assert page.one("title").text == "net.bin on 4x4 | mapper"
    assert "mapper run net.bin --chip 4x4" in page.one("pre").text
    assert sorted(path.suffix for path in Path("result").iterdir()) == [
        ".html", ".json", ".log", ".npz", ".npz",
    ]  # fmt: skip
    Path("result/report.html").unlink()
    Path("net.bin").unlink()  # no longer needed
    found = run("report", "result", "--json")
    assert (found.code, found.err) == (0, "")
    assert found.json() == {
        "path": "result/report.html", "bytes": len(written), "mappings": ["result"], "measured": [],
    }  # fmt: skip
    assert Path("result/report.html").read_bytes() == written


def test_helpers_of_split_neurons_count(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 30, 400)
    limits = (*CHIP, "--synapses-per-core", "40", "--neurons-per-core", "8", "--split-neurons")
    assert run("run", "net.bin", *limits, "-o", "result").code == 0
    before = Path("result/traffic.npz").read_bytes()
    Path("result/traffic.npz").unlink()
    assert run("report", "result", "--json").json()["measured"] == ["result"]
    assert Path("result/traffic.npz").read_bytes() == before


def test_folders_of_older_versions_are_measured_once(out: Path, run: Run) -> None:
    before = run("report", out, "--json").json()
    page, traffic = (out / "report.html").read_bytes(), (out / "traffic.npz").read_bytes()
    (out / "traffic.npz").unlink()
    found = run("report", out, "--json")
    assert found.json() == before | {"measured": [str(out)]}
    assert found.err == f"note: {out} has no traffic.npz: measuring traffic, once\n"
    assert (out / "report.html").read_bytes() == page
    assert (out / "traffic.npz").read_bytes() == traffic
    assert run("report", out).err == ""


def test_without_its_network(out: Path, fails: Callable[..., str], run: Run) -> None:
    (out / "traffic.npz").unlink()
    network = out.with_name("out.bin").rename("moved.bin")
    assert fails("report", out) == (
        f"{out}: has no traffic.npz, and its network {out}.bin is missing; "
        "give the network with --network"
    )
    assert run("report", out, "--network", network, "-q").code == 0


def test_two_mappings_side_by_side(out: Path, run: Run, folder: Path) -> None:
    cores = np.random.default_rng(3).integers(0, 10, 60).astype(np.int32)
    write_folder(folder / "other", folder / "out.bin", Chip("d", 5, 2, neurons=16), cores)
    found = run("report", "out", "other", "--json").json()
    assert found["path"] == "comparison.html"
    assert found["mappings"] == ["out", "other"]
    page = Page(Path("comparison.html").read_text())
    assert [m["label"] for m in page.data()["mappings"]] == ["out", "other"]
    assert not (out / "report.html").exists()
    assert "page" in run("report", "out", "other", "-o", "mine.html").out
    assert Path("mine.html").read_bytes() == Path("comparison.html").read_bytes()


def test_mappings_of_different_networks_are_not_compared(
    out: Path, folder: Path, fails: Callable[..., str]
) -> None:
    random_folder(folder / "other", Chip("d", 5, 2, neurons=16), seed=3)
    assert "not mappings of the same network" in fails("report", "out", "other")


def test_two_mappings_of_the_same_name(run: Run, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        random_folder(folder / name / "out", Chip("c", 2, 2))
    run("report", "a/out", "b/out")
    mappings = Page(Path("comparison.html").read_text()).data()["mappings"]
    assert [m["label"] for m in mappings] == ["a/out", "b/out"]


def test_errors_give_one_line(out: Path, fails: Callable[..., str], folder: Path) -> None:
    assert "has no report.json" in fails("report", "..")
    assert "has no report.json" in fails("report", out, "missing")
    assert "cannot write" in fails("report", out, "-o", "missing/page.html")
    assert "is a folder" in fails("report", out, "-o", out)
    (out / "traffic.npz").write_bytes(b"PK nonsense")
    assert "traffic.npz: cannot be read" in fails("report", out)
    report = json.loads((out / "report.json").read_text())
    del report["chip"]["width"]
    (out / "report.json").write_text(json.dumps(report))
    assert "width" in fails("report", out)


def test_traffic_of_another_mapping_is_refused(
    out: Path, fails: Callable[..., str], run: Run
) -> None:
    other = random_folder(out.with_name("other"), Chip("c", 4, 3, neurons=16), seed=9)
    (out / "traffic.npz").write_bytes((other / "traffic.npz").read_bytes())
    assert "in report.json" in fails("report", out)
    (out / "traffic.npz").unlink()
    save_mapping(out / "mapping.npz", np.zeros(60, np.int32), Chip("c", 4, 3))
    found = run("report", out)  # the mapping was replaced; the report belongs to the old one
    assert (found.code, found.out) == (1, "")
    assert "in report.json" in found.err
    assert not (out / "traffic.npz").exists()
