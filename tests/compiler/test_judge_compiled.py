"""The judge on compiled models."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper.compiler.output
from mapper.cli.main import main
from mapper.compiler.artifacts.judge import folders
from mapper.compiler.artifacts.judge.folders import judged
from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.artifacts.simulate import Machine, simulate
from tests.compiler.models import onnx_model
from tests.compiler.right_values import RANDOM, Case, compiled, node
from tests.compiler.test_judge import QUANTISED, SCALES, W, X
from tests.storage.formats.onnx_models import helper, model, numpy_helper, onnx

CASE = Case(
    "lrn", [node("Conv", "x w", "a"), node("LRN", "a", "y", size=5, alpha=0.5)], {"w": W}, X, X, 0
)


def test_a_host_that_computes_something_else_is_found(tmp_path: Path) -> None:
    assert compiled(CASE, tmp_path) == 0
    folder = read_folder(tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert judged(Machine(folder), folder.model, X, report).departure is None
    (step,) = (one for one in folder.host if one["do"] == "node")
    wrong = model([node("LRN", "a", "y", size=1, alpha=0.5)], {}, {"a": (1, 8, 4, 5)})
    wrong.ir_version = 9
    step["model"] = base64.b64encode(wrong.SerializeToString()).decode()
    found = judged(Machine(folder), folder.model, X, report).departure
    assert found is not None
    assert (found.name, found.nodes) == ("y", ())


@pytest.mark.parametrize("weights", ["float", "int8"])
def test_weights_in_real_numbers_between_integers(weights: str, tmp_path: Path) -> None:
    """Weights that a partly quantised model has in real numbers are rounded: its integers differ
    from the cores' after them."""
    nodes = [
        *QUANTISED[:2], node("Conv", "xd k", "a"), QUANTISED[3],
        node("DequantizeLinear", "aq u v", "ad"), node("Conv", "ad one", "b"),
        node("Relu", "b", "y"),
    ]  # fmt: skip
    constants = {**SCALES, "one": np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1)}
    if weights == "int8":
        nodes.insert(0, node("DequantizeLinear", "whole u", "k"))
        constants["whole"] = np.rint(W / SCALES["u"]).astype(np.int8)
    else:
        constants["k"] = W
    case = CASE._replace(nodes=nodes, constants=constants)
    assert compiled(case, tmp_path) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    row = next(row for row in report["judge"]["rows"] if row["name"] == "aq")
    assert (row["differences"] is None) == (weights == "float")

    folder = read_folder(tmp_path / "out")
    whole = onnx.load_from_string(folder.model)
    for one in whole.graph.initializer:
        if one.name in ("k", "whole"):
            one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one)[::-1], one.name))
    found = judged(Machine(folder), whole.SerializeToString(), X, report).departure
    assert found is not None
    assert found.name == "aq"


def test_a_compilation_that_departs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shifted(folder: Any) -> Machine:
        machine = Machine(folder)
        whole = onnx.load_from_string(folder.model)
        for one in whole.graph.initializer:
            if one.name == "w":
                one.CopyFrom(numpy_helper.from_array(W[::-1], "w"))
        machine.folder = folder._replace(model=whole.SerializeToString())
        return machine

    monkeypatch.setattr(folders, "Machine", shifted)
    monkeypatch.setattr(
        folders, "judge_compiled",
        lambda folder, samples, report: judged(
            shifted(folder), shifted(folder).folder.model, samples, report
        ),
    )  # fmt: skip
    monkeypatch.setattr(mapper.compiler.output, "judge_compiled", folders.judge_compiled)
    assert compiled(CASE, tmp_path) == 1
    said = capsys.readouterr().err
    assert "layer 'a' (value 'a') departs from the model in ONNX Runtime: SQNR" in said
    assert not (tmp_path / "out").exists()


def test_an_output_without_a_batch_axis(tmp_path: Path) -> None:
    """RoiAlign has a row per region: two here, of each frame."""
    nodes = [node("Conv", "x w", "a"), node("RoiAlign", "a r b", "y", output_height=2)]
    regions = np.array([[0, 0, 2, 2], [1, 1, 4, 3]], np.float32)
    case = CASE._replace(nodes=nodes, constants={"w": W, "r": regions, "b": np.zeros(2, np.int64)})
    assert compiled(case, tmp_path) == 0
    folder = read_folder(tmp_path / "out")
    made = simulate(folder, X, 1, check=False).values["y"]
    assert made.shape == (8, 2, 8, 2, 1)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    found = judged(Machine(folder), folder.model, X, report)
    assert (found.why, found.departure) == ("", None)


def test_an_output_of_the_host_that_cores_read(tmp_path: Path) -> None:
    """The cores store the host's numbers in 8 bits; the output is real."""
    nodes = [node("Conv", "x w", "a"), node("Softmax", "a", "s", axis=-1),
             node("Conv", "s one", "y")]  # fmt: skip
    constants = {"w": W, "one": np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1)}
    onnx.save(onnx_model(nodes, constants, (1, 3, 4, 5), ("s", "y")), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", X)
    words = ["--chip", "1x1", "--calibrate", str(tmp_path / "x.npy"), "--max-loss", "100", "-q"]
    assert main(["compile", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out"), *words]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    (row,) = (row for row in report["judge"]["rows"] if row["name"] == "s" and row["wanted"] == 60)
    assert row["signal"] is None or row["signal"] > 60


def test_samples_are_clipped_where_cores_store_only_their_windows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = RANDOM.normal(0, 0.5, (8, 3, 3, 3)).astype(np.float32)
    case = CASE._replace(nodes=[node("Conv", "x w", "y")], constants={"w": wide})
    assert compiled(case, tmp_path) == 0
    np.save(tmp_path / "far.npy", 9 * X)
    words = ["simulate", str(tmp_path / "out"), "--input", str(tmp_path / "far.npy"), "--check"]
    assert main(words) == 0
    assert "sample values clipped" in capsys.readouterr().err


def test_simulations_judge_all_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled(CASE, tmp_path) == 0
    capsys.readouterr()
    samples = str(tmp_path / "samples.npy")
    assert main(["simulate", str(tmp_path / "out"), "--input", samples, "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["judge"]
    assert (found["frames"], found["why"]) == (8, "")
    assert [row["name"] for row in found["rows"]] == ["a", "y"]


@pytest.mark.parametrize(
    "last", [node("Squeeze", "a zero", "y"), node("Transpose", "a", "y", perm=[1, 0, 2, 3])]
)
def test_outputs_without_samples_on_the_first_axis(last: Any, tmp_path: Path) -> None:
    """Each sample has a complete output."""
    nodes, constants = [node("Conv", "x w", "a"), last], {"w": W, "zero": np.array([0])}
    assert compiled(Case("first axis", nodes, constants, X, X, 0), tmp_path) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    rows = {row["name"]: row["elements"] for row in report["judge"]["rows"]}
    assert rows["y"] == len(X) * 8 * 4 * 5


def test_the_host_reads_rows_that_no_core_stores(tmp_path: Path) -> None:
    """The cores read some rows of a map of the host, which reads all of them itself. Each frame is
    compared with its own numbers there."""
    scales = {"a": np.float32(0.03), "b": np.float32(0.004), "c": np.float32(0.016)}
    nodes = []
    for name, scale in (("x", "a"), ("t", "b")):
        nodes += [
            helper.make_node("QuantizeLinear", [name, scale, "zero"], [f"{name}i"]),
            helper.make_node("DequantizeLinear", [f"{name}i", scale, "zero"], [f"{name}q"]),
        ]
    nodes[2:2] = [  # without scales between them they run on the host
        helper.make_node("Softplus", ["xq"], ["p"]), helper.make_node("Tanh", ["p"], ["t"])
    ]  # fmt: skip
    nodes += [
        helper.make_node("Mul", ["tq", "xq"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "c", "zero"], ["mi"]),
        helper.make_node("DequantizeLinear", ["mi", "c", "zero"], ["mq"]),
        helper.make_node("Slice", ["mq", "first", "stop", "axis"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "c", "zero"], ["si"]),
        helper.make_node("DequantizeLinear", ["si", "c", "zero"], ["y"]),
        helper.make_node("Add", ["tq", "half"], ["z"]),
    ]
    values = {name: np.int64([value]) for name, value in (("first", 6), ("stop", 9), ("axis", 2))}
    values |= {**scales, "zero": np.int8(0), "half": np.full((4, 1, 1), 0.5, np.float32)}
    samples = RANDOM.normal(size=(4, 4, 12, 5)).astype(np.float32)
    path = tmp_path / "m.onnx"
    onnx.save(onnx_model(nodes, values, samples[:1].shape, ["y", "z"]), path)
    np.save(tmp_path / "x.npy", samples)
    out = tmp_path / "out"
    assert main(["compile", str(path), "--chip", "2x2", "-o", str(out), "-q"]) == 0
    folder = read_folder(out)
    partial = [one for one in folder.manifest["maps"] if one["name"] == "ti"]
    assert 0 < sum(one["rows"][1] - one["rows"][0] for one in partial) < 12
    report = json.loads((out / "report.json").read_text())
    found = judged(Machine(folder), folder.model, samples, report)
    assert not found.why
    assert [one.name for one in found.rows if one.departs] == []
    assert {"y", "z"} <= {one.name for one in found.rows}
