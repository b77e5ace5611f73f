"""R12.1, B12: where each node of a model runs, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.explain import NodeRow, explain
from mapper.compiler.model import open_model
from mapper.compiler.settings import CompileSettings
from tests.compiler.models import saved
from tests.mapper.conftest import Run, folder, nowhere, run, tidy
from tests.storage.formats.onnx_models import model, node, onnx

__all__ = ["folder", "nowhere", "run", "tidy"]
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def mixed() -> Any:
    """Return nodes of each kind: on cores, on the host, folded, vanished."""
    random = np.random.default_rng(0)
    constants = {
        "w": random.normal(0, 1, (16, 4, 3, 3)).astype(np.float32),
        "v": random.normal(0, 1, (16, 16, 1, 1)).astype(np.float32),
        **{name: np.ones(16, np.float32) for name in ("g", "b", "m", "s")},
        "one": np.ones((16, 16, 1, 1), np.float32),
    }
    nodes = [
        node("Mul", "v one", "u"),
        node("Conv", "x w", "a"),
        node("BatchNormalization", "a g b m s", "n"),
        node("Relu", "n", "r"),
        node("Asinh", "r", "t"),
        node("Conv", "t u", "c"),
        node("Concat", "c c", "j", axis=1),
        node("Flatten", "j", "f"),
        node("Softmax", "f"),
    ]
    return model(nodes, constants, {"x": (1, 4, 8, 8)})


def rows_of(path: Path, **settings: Any) -> dict[str, NodeRow]:
    return {row.node: row for row in explain(open_model(path), CompileSettings(**settings))}


def test_each_node_has_a_place_with_a_reason(tmp_path: Path) -> None:
    rows = rows_of(saved(mixed(), tmp_path))
    assert {name: row.where for name, row in rows.items()} == {
        "n_u": "vanished", "n_a": "core", "n_n": "folded", "n_r": "folded", "n_t": "host",
        "n_c": "core", "n_j": "vanished", "n_f": "vanished", "n_y": "host",
    }  # fmt: skip
    assert rows["n_n"].by == rows["n_r"].by == "n_a"
    assert rows["n_a"].function == rows["n_r"].function == "npu_0_n_a"
    assert rows["n_c"].function == "npu_1_n_c"
    assert rows["n_t"].why == "no core computes Asinh"
    assert rows["n_t"].remedy == "cores do not support it"
    assert "constants only" in rows["n_u"].why
    assert "moves no data" in rows["n_f"].why
    assert "one region" in rows["n_j"].why
    assert all(row.why for row in rows.values())
    # a map of 16 channels is read, computed and written; Softmax runs after the last function
    assert rows["n_t"].cycles == 3 * 16 * 6 * 6
    assert [name for name, row in rows.items() if row.cycles is not None] == ["n_t"]


def test_enlarged_maps(tmp_path: Path) -> None:
    """DepthToSpace of a layer moves nothing; pixels of other maps are moved by convolutions."""
    random = np.random.default_rng(0)
    constants = {"w": random.normal(0, 1, (8, 8, 4, 4)).astype(np.float32)}
    nodes = [
        node("ConvTranspose", "x w", "a", strides=[2, 2], pads=[1] * 4),
        node("DepthToSpace", "a", "d", blocksize=2),
        node("Relu", "d", "r"),
        node("Conv", "r v", "c"),
        node("MaxPool", "c", "p", kernel_shape=[2, 2]),
        node("DepthToSpace", "p", "y", blocksize=2),
    ]
    constants["v"] = random.normal(0, 1, (8, 2, 1, 1)).astype(np.float32)
    rows = rows_of(saved(model(nodes, constants, {"x": (1, 8, 6, 6)}), tmp_path))
    assert [(row.kind, row.where) for row in rows.values()] == [
        ("ConvTranspose", "core"), ("DepthToSpace", "core"), ("Relu", "folded"), ("Conv", "core"),
        ("MaxPool", "folded"), ("DepthToSpace", "core"),
    ]  # fmt: skip
    assert rows["n_y"].why == "convolutions of 1x1 move its channels"


def test_kept_nodes_name_the_option(tmp_path: Path) -> None:
    row = rows_of(saved(mixed(), tmp_path), keep=("n_c",))["n_c"]
    assert (row.where, row.remedy) == ("host", "remove it from --keep")


def test_kernels_that_are_not_constant_name_a_remedy(tmp_path: Path) -> None:
    nodes = [node("Asinh", "x", "k"), node("Conv", "x k")]
    row = rows_of(saved(model(nodes, {}, {"x": (1, 4, 3, 3)}), tmp_path))["n_y"]
    assert row.where == "host"
    assert row.why == "its kernel is not constant: export with constant folding"
    assert row.remedy == "export with constant folding"


def test_on_the_command_line(folder: Path, run: Run) -> None:
    """Without samples; in 80 columns."""
    saved(mixed(), folder)
    found = run("compile", "model.onnx", "--chip", "1x1", "--explain-only")
    assert found.code == 0, found.err
    assert max(map(len, found.out.splitlines())) <= 80
    assert "2 on cores in 2 functions, 2 folded into them, 2 on the host, 3 removed" in found.out
    assert "1,728 host cycles per frame" in " ".join(found.out.split())
    assert not (folder / "out").exists()
    data = run("compile", "model.onnx", "--chip", "1x1", "--explain-only", "--json").json()
    assert data["counts"] == {"core": 2, "host": 2, "folded": 2, "vanished": 3}
    assert [one["node"] for one in data["nodes"]][:2] == ["n_u", "n_a"]


@pytest.mark.jit
def test_explain_json_of_a_compiled_folder(folder: Path, run: Run) -> None:
    saved(mixed(), folder)
    samples = np.random.default_rng(1).normal(0, 1, (6, 4, 8, 8)).astype(np.float32)
    np.savez(folder / "samples.npz", x=samples)
    how = ["--calibrate", "samples.npz", "--min-signal", "-99", "--max-loss", "100", "--explain"]
    found = run("compile", "model.onnx", "--chip", "1x1", *how)
    assert found.code == 0, found.err
    assert "no core computes Asinh" in found.out
    data = json.loads((folder / "out" / "explain.json").read_text())
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert data["functions"] == [one["name"] for one in manifest["functions"]]


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["squeezenet", "inception_v1", "densenet121"])
def test_topologies_of_the_onnx_package(name: str) -> None:
    """Every node of models of 100 to 1,746 nodes: no weight is quantised."""
    path = LIGHT / f"light_{name}.onnx"
    if not path.is_file():
        pytest.skip(f"the onnx package has no {path.name}")
    rows = explain(open_model(path), CompileSettings())
    parts = onnx.load(str(path)).graph.node
    assert len(rows) == len(parts)
    convolutions = [row for row in rows if row.kind == "Conv"]
    assert {row.where for row in convolutions} == {"core"}
