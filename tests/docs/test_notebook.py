"""The notebook runs, and shows both chips."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import DOCS

NOTEBOOK = DOCS / "notebook.ipynb"


def shown(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; return the value of its last expression, as notebooks display it."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, str(NOTEBOOK), "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


@pytest.mark.jit
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("nir", "onnx", "onnxruntime"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    pictures = []
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            found = shown("".join(cell["source"]), names)
            if hasattr(found, "_repr_html_"):
                pictures.append(found._repr_html_().count("<svg"))
    assert pictures == [0, 1, 1]  # the network, and two chips
    assert names["checked"].fits
    assert names["run"].check.differences == 0
    assert names["network"].populations == {"input": 64, "lif1": 96, "lif2": 10}
    assert (tmp_path / "mapping" / "report.html").exists()
    assert (tmp_path / "classifier" / "report.html").exists()


def test_the_notebook_is_valid_and_has_no_outputs() -> None:
    """Outputs would go out of date."""
    content = json.loads(NOTEBOOK.read_text())
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    cells = content["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert {cell["cell_type"] for cell in cells} == {"markdown", "code"}
    for cell in cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert all(len(line.rstrip()) <= 100 for line in cell["source"]), cell["id"]
