"""Mappings as tables, read back: neurons, cores, ids and sizes are unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import extras
from tests.mapper.conftest import Run
from tests.mapper.exports.mapped import WIDTH, Array, N, attribute, core_of

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
