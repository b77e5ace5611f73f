"""Tables of a model in place of a compiled one, as the command prints them, and dumped maps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mapper
from tests.mapper.conftest import Run, tree

pytest.importorskip("onnx", reason="needs onnx")
from tests.compiler.bad_input.good import good

pytestmark = [pytest.mark.jit, pytest.mark.heavy]
QUICK: dict[str, Any] = {"method": "minmax", "min_signal": -100, "max_loss": 100}
WORDS = ("--method", "minmax", "--min-signal", "-100", "--max-loss", "100")


@pytest.fixture
def model(folder: Path) -> Path:
    good().save(folder)
    return Path("good.onnx")


@pytest.mark.parametrize("argument", ["explain_only", "compare", "ablate"])
def test_tables_equal_the_command(
    argument: str, model: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = f"--{argument.replace('_', '-')}"
    words = ("compile", model, "--chip", "1x1", *WORDS, "--calibrate", "samples.npz", option)
    said = run(*words, "--json")
    given: Any = {argument: True}
    found = mapper.compile_model(model, "1x1", **QUICK, calibrate="samples.npz", **given)
    assert isinstance(found, mapper.CompileAnalysis)
    assert json.loads(json.dumps(found.to_json())) == said.json()
    assert [f"note: {line}" for line in found.notes] == said.err.splitlines()
    keys = {"explain": "nodes", "compare": "compared", "ablate": "ablation"}
    assert len(found.rows) == len(said.json()[keys[found.kind]])
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=dict))
    frame = found.to_frame("polars")
    columns = {"explain": "where", "compare": "signal_db", "ablate": "cycles"}
    assert frame[columns[found.kind]].tolist() == [row[columns[found.kind]] for row in found.rows]
    assert found._repr_html_().count("<tr>") == 1 + len(found.rows)
    in_memory = mapper.compile_model(
        model.read_bytes(), "1x1", **QUICK, calibrate="samples.npz", **given
    )
    assert in_memory.to_json() == found.to_json()
    assert sorted(path.name for path in Path().iterdir()) == ["good.onnx", "samples.npz"]


def test_a_table_is_added_to_the_report_of_its_model(model: Path) -> None:
    mapper.compile_model(model, "1x1", **QUICK, calibrate="samples.npz", output="out")
    assert "Other settings" not in Path("out/report.html").read_text()
    found = mapper.compile_model(
        model, "1x1", **QUICK, calibrate="samples.npz", output="out", compare=True
    )
    assert found.notes[-1] == "table added to the report page of out"
    assert "Other settings" in Path("out/report.html").read_text()
    kept = json.loads(Path("out/report.json").read_text())["compared"]
    assert kept == json.loads(json.dumps(found.to_json()["compared"]))


def test_dumped_maps_equal_the_command(model: Path, run: Run) -> None:
    found = mapper.compile_model(model, "1x1", **QUICK, calibrate="samples.npz", output="out")
    words = ("simulate", "out", "--input", "samples.npz", "--dump", "theirs", "--json")
    said = run(*words).json()
    result = mapper.simulate_model(found, "samples.npz", dump="mine")
    assert json.loads(json.dumps(result.figures)) == said
    assert result.figures["differences"] == 0 < result.figures["elements"]
    assert tree(Path("mine")) == tree(Path("theirs"))
    assert result.hardware is None
    with pytest.raises(mapper.MapperError, match="mine: exists"):
        found.simulate("samples.npz", dump="mine")


@pytest.mark.sample(0.25)
def test_hardware_equals_the_command(model: Path, run: Run) -> None:
    """In Amaranth."""
    options: Any = {**QUICK, "npu": "tiny", "calibrate": "samples.npz", "output": "out"}
    found = mapper.compile_model(model, "1x1", **options)
    words = ("simulate", "out", "--input", "samples.npz", "--limit", "1", "--hardware", "--json")
    result = mapper.simulate_model(found, "samples.npz", limit=1, hardware=True)
    assert result.hardware == run(*words).json()["hardware"]
    assert result.hardware is not None and result.hardware["cycles"] > 0


REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("chip: ablate and compare need a single chip", "1x1..2x2", {"ablate": True}),
    ("explain_only, compare, ablate: each returns a table; give one", "1x1",
     {"compare": True, "ablate": True}),
    ("compare is 1; give True or False", "1x1", {"compare": 1}),
    ("ablate: applies to ONNX models only", "1x1", {"ablate": True, "model": "a.nir"}),
    ("progress is 3; give a function", "1x1", {"progress": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("said", "chip", "given"), REFUSED, ids=[one[0] for one in REFUSED])
def test_refused(said: str, chip: str, given: dict[str, Any], model: Path) -> None:
    with pytest.raises(mapper.UsageError, match=said):
        mapper.compile_model(**({"model": model, "chip": chip, **QUICK} | given))
