"""Mappings as tables, read back: neurons, cores, ids and sizes are unchanged."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from storage import extras
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run
from tests.mapper.exports.mapped import CHIP, TOML, WIDTH, Array, N, attribute, core_of

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Fails = Callable[..., str]


def check_columns(table: dict[str, Any], core: Array) -> None:
    assert list(table) == ["neuron", "core", "x", "y", "id", "size"]
    assert list(table["neuron"]) == list(range(N))
    assert list(table["core"]) == core.tolist()
    assert [y * WIDTH + x for x, y in zip(table["x"], table["y"], strict=True)] == core.tolist()
    assert list(table["id"]) == attribute("id")
    assert list(table["size"]) == attribute("size")


def test_csv(out: Path, run: Run) -> None:
    result = run("export", out, "a.csv", "--json").json()
    assert result == {
        "path": "a.csv", "neurons": N, "bytes": Path("a.csv").stat().st_size,
        "columns": ["neuron", "core", "x", "y", "id", "size"],
    }  # fmt: skip
    head, *lines = Path("a.csv").read_text().splitlines()
    columns = zip(*(map(int, line.split(",")) for line in lines), strict=True)
    check_columns(dict(zip(head.split(","), columns, strict=True)), core_of(out))


@pytest.mark.parametrize("name", ["a.csv", "a.npz"])
def test_files_that_score_reads(name: str, out: Path, run: Run) -> None:
    assert run("export", out, name).code == 0
    found = run("score", "net.bin", name, "--chip", "mine.toml", "--json").json()
    assert found["metrics"] == json.loads((out / "report.json").read_text())["metrics"]


def test_npz(out: Path, run: Run) -> None:
    run("export", out, "a.npz")
    with np.load("a.npz", allow_pickle=False) as file:
        assert (file["core"].dtype, int(file["width"]), int(file["height"])) == (np.int32, 4, 3)
        table = {name: file[name] for name in ("core", "x", "y", "id", "size")}
    check_columns({"neuron": np.arange(N), **table}, core_of(out))


def test_parquet(out: Path, run: Run, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("a.parquet", "b.pq"):
        assert run("export", out, name).code == 0
        table = parquet.read_table(name)
        check_columns(table.to_pydict(), core_of(out))
        about = json.loads(table.schema.metadata[b"mapper.chip"])
        assert (about["width"], about["unavailable"]) == (WIDTH, [11])
        assert str(table.schema.field("core").type) == "int32"


@pytest.mark.parametrize(
    ("format", "package", "extra"), [("parquet", "pyarrow", "formats"), ("nir", "nir", "nir")]
)
def test_a_missing_package_is_named_with_its_extra(
    format: str, package: str, extra: str, out: Path, fails: Fails,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def missing(name: str) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return import_module(name)

    monkeypatch.setattr(extras, "import_module", missing)
    told = fails("export", out, "a.file", "--format", format)
    assert f"pip install 'neuromapper[{extra}]'" in told


def test_json(out: Path, run: Run) -> None:
    run("export", out, "a.json")
    found = json.loads(Path("a.json").read_text())
    core, ids, sizes = core_of(out), attribute("id"), attribute("size")
    assert (found["schema"], found["chip"]["width"], found["network"]["neurons"]) == (1, WIDTH, N)
    assert [entry["core"] for entry in found["cores"]] == np.unique(core).tolist()
    for entry in found["cores"]:
        assert entry["y"] * WIDTH + entry["x"] == entry["core"]
        assert entry["neurons"] == np.flatnonzero(core == entry["core"]).tolist()
        assert entry["ids"] == [ids[n] for n in entry["neurons"]]
        assert entry["sizes"] == [sizes[n] for n in entry["neurons"]]


NAMES = ['conv1, "wide"', "=1+1", "two\nlines # and a mark"]


@pytest.fixture
def layered(folder: Path, run: Run) -> Path:
    """A run of a network whose layers have names that csv files must quote."""
    (folder / "mine.toml").write_text(TOML)
    rng = np.random.default_rng(6)
    with NetworkWriter(folder / "net.bin", N) as writer:
        writer.add(*rng.integers(0, N, (2, 160)))
        writer.set_attribute("layer", np.arange(N) % 3, NAMES)
        writer.finish()
    assert run("run", "net.bin", *CHIP, "-o", "out").code == 0
    return folder / "out"


def test_names_of_populations(layered: Path, run: Run) -> None:
    named = [NAMES[n % 3] for n in range(N)]
    index = [n // 3 for n in range(N)]
    found = run("export", layered, "a.csv", "--json").json()
    assert found["columns"][2:] == ["x", "y", "population", "population_index", "population_name"]
    with Path("a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    shown = [NAMES[0], f"'{NAMES[1]}", "two\\nlines # and a mark"]
    assert [row["population_name"] for row in rows] == [shown[n % 3] for n in range(N)]
    assert [int(row["population_index"]) for row in rows] == index
    report = json.loads((layered / "report.json").read_text())
    for name in ("a.csv", "a.npz"):
        assert run("export", layered, name).code == 0
        scored = run("score", "net.bin", name, "--chip", "mine.toml", "--json").json()
        assert scored["metrics"] == report["metrics"]
    with np.load("a.npz", allow_pickle=False) as npz:
        assert npz["population_names"][npz["population"]].tolist() == named
        assert npz["population_index"].tolist() == index
    assert run("export", layered, "a.json").code == 0
    cores = json.loads(Path("a.json").read_text())
    for entry in cores["cores"]:
        assert [cores["populations"][p] for p in entry["populations"]] == [
            named[n] for n in entry["neurons"]
        ]
    mapping = mapper.load(layered)
    table = mapping.columns("neurons")
    assert table["population"].tolist() == named
    assert table["population_index"].tolist() == index
    own: Any = mapping.columns("cores")["population"].tolist()
    for core, name in enumerate(own):
        here = Counter(named[n] for n in np.flatnonzero(mapping.core == core))
        assert name == "" if not here else here[name] == max(here.values())


def test_names_in_parquet(layered: Path, run: Run) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("export", layered, "a.parquet").code == 0
    table = parquet.read_table("a.parquet").to_pydict()
    assert table["population_name"] == [NAMES[n % 3] for n in range(N)]


def test_faults_of_csv_files_with_names(layered: Path, run: Run, fails: Fails) -> None:
    assert run("export", layered, "a.csv").code == 0
    lines = Path("a.csv").read_text().splitlines()
    score = ("score", "net.bin", "b.csv", "--chip", "mine.toml")
    for line, said in (
        ("7,x,1,1,1,1,a", r"line 9: '7,x,1,1,1,1,a' does not begin with a neuron and a core"),
        ("7", "line 9: '7' does not begin with a neuron and a core"),
        ("6,2,1,1,1,1,a", "does not list each of the neurons 0..39 once"),
    ):
        Path("b.csv").write_text("\n".join([*lines[:8], line, *lines[9:]]))
        assert said in fails(*score)
    Path("b.csv").write_text("\r\n".join([*lines, "", ""]))
    assert run(*score).code == 0
    Path("b.csv").write_text(lines[0])
    assert "contains no core ids" in fails(*score)
    Path("b.csv").write_text("\n".join([*lines, *["1,1,x"] * 70_000]) + "\n")
    assert "more lines than the network has neurons" in fails(*score)
